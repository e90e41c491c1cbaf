// Tiles of rows of bf16 in shared memory, such as keys, values and queries of attention: how they are loaded, the order of their
// numbers, and how they become fragments of the tensor core's operands.
//
// A tile has rows of D numbers, 16, 32, 64 or 128: smaller heads are padded with zeros, which change no sum. Numbers are moved in
// pieces of 8, 16 bytes. The 32 banks hold 128 bytes, eight pieces, and a matrix of ldmatrix is one piece of each of eight
// consecutive rows. To put these into different banks, the pieces of a row are permuted: piece c of row r is at position c ^ r,
// with as many bits as the pieces need. If several rows share 128 bytes, r counts these groups. In copies, neighbouring threads
// write the pieces of one row, and so use different banks too.
#pragma once
#include "numbers.h"

template <u32 D>
DEVICE u32 place(u32 row, u32 feature) {
  constexpr u32 pieces = D / 8, together = pieces < 8 ? 8 / pieces : 1, mask = (pieces < 8 ? pieces : 8) - 1;
  return row * D + ((feature / 8) ^ (row / together & mask)) * 8 + feature % 8;
}

// Starts copies of `rows` rows to a tile. row_of(i) is the address of row i in global memory, or null for a row of zeros. If heads
// have a multiple of 8 features, rows there lie at multiples of 16 bytes; other rows are loaded at once, number by number.
template <u32 D, typename RowOf>
DEVICE void copy_tile_rows(bf16* tile, u32 rows, u32 head_dim, const bf16* anywhere, RowOf row_of) {
  const bool whole = head_dim % 8 == 0;
  for (u32 i = thread_index(); i < rows * (D / 8); i += block_threads()) {
    const u32 row = i / (D / 8), feature = i % (D / 8) * 8;
    const bf16* from = feature < head_dim ? row_of(row) : nullptr;
    bf16* to = tile + place<D>(row, feature);
    if (whole) {
      copy_async16(to, from ? from + feature : anywhere, from ? 16 : 0);
    } else {
      Words4 numbers;
      UNROLL for (u32 word = 0; word < 4; word++) {
        const u32 at = feature + 2 * word;
        const u32 low = from && at < head_dim ? from[at].bits : 0, high = from && at + 1 < head_dim ? from[at + 1].bits : 0;
        numbers.words[word] = low | high << 16;
      }
      store_words4(to, numbers);
    }
  }
}

// The fragment of a: rows row .. + 16, features k .. + 16.
template <u32 D>
DEVICE void load_rows_a(u32 (&a)[4], const bf16* tile, u32 row, u32 k) {
  const u32 matrix = lane_index() / 8, line = lane_index() % 8;
  load_matrices(a, tile + place<D>(row + matrix % 2 * 8 + line, k + matrix / 2 * 8));
}

// Two fragments of b whose columns are rows of the tile, row .. + 8 and the next 8, along the features k .. + 16.
template <u32 D>
DEVICE void load_rows_b(u32 (&b)[4], const bf16* tile, u32 row, u32 k) {
  const u32 matrix = lane_index() / 8, line = lane_index() % 8;
  load_matrices(b, tile + place<D>(row + matrix / 2 * 8 + line, k + matrix % 2 * 8));
}

// Two fragments of b whose columns are features of the tile, feature .. + 8 and the next 8, along the rows row .. + 16.
template <u32 D>
DEVICE void load_features_b(u32 (&b)[4], const bf16* tile, u32 row, u32 feature) {
  const u32 matrix = lane_index() / 8, line = lane_index() % 8;
  load_matrices_transposed(b, tile + place<D>(row + matrix % 2 * 8 + line, feature + matrix / 2 * 8));
}

// d[0] and d[1] += a times the two fragments.
DEVICE void mma_pair(float (&low)[4], float (&high)[4], const u32 (&a)[4], const u32 (&b)[4]) {
  const u32 first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
  mma(low, a, first);
  mma(high, a, second);
}

// Rows a row .. + 16 of the warp times rows b row .. + 16 of a tile, over all features: chains from 0. a as fragments in registers.
template <u32 D>
DEVICE void dot_rows(float (&d)[2][4], const u32 (&a)[D / 16][4], const bf16* tile, u32 row) {
  UNROLL for (u32 i = 0; i < 4; i++) d[0][i] = d[1][i] = 0.0f;
  UNROLL for (u32 k = 0; k < D / 16; k++) {
    u32 b[4];
    load_rows_b<D>(b, tile, row, k * 16);
    mma_pair(d[0], d[1], a[k], b);
  }
}

// sums += a times rows row .. + 16 of a tile, whose features are the columns: all, or this number from one on.
template <u32 D, u32 Features = D>
DEVICE void add_rows(float (&sums)[Features / 8][4], const u32 (&a)[4], const bf16* tile, u32 row, u32 feature = 0) {
  UNROLL for (u32 n = 0; n < Features / 16; n++) {
    u32 b[4];
    load_features_b<D>(b, tile, row, feature + n * 16);
    mma_pair(sums[2 * n], sums[2 * n + 1], a, b);
  }
}

// Two neighbouring results of 16 rows by 8 columns, rounded, as the fragment of a with their 16 columns along k.
DEVICE void as_a(u32 (&a)[4], const float (&low)[4], const float (&high)[4]) {
  a[0] = pack_bf16(low[0], low[1]);
  a[1] = pack_bf16(low[2], low[3]);
  a[2] = pack_bf16(high[0], high[1]);
  a[3] = pack_bf16(high[2], high[3]);
}

// Keys that a query sees: from .. to.
struct Visible {
  u32 from, to;
};
DEVICE Visible visible_to(u32 position, u32 window, bool exists) {
  const u32 from = window && position + 1 > window ? position + 1 - window : 0;
  return {exists ? from : 0, exists ? position + 1 : 0};
}
DEVICE bool is_visible(Visible of, u32 key) { return key >= of.from && key < of.to; }

// Goes over tiles of this number of rows from `begin`, a multiple of it, up to `end`: calls body(base, stage), after copy(base,
// stage) has started the copies of the next tiles to the other stages. All threads of the block have left a stage before it is
// overwritten.
template <u32 Rows, u32 Stages, typename Copy, typename Body>
DEVICE void over_tiles(u32 begin, u32 end, Copy copy, Body body) {
  for (u32 stage = 0; stage + 1 < Stages; stage++) {
    if (begin + stage * Rows < end) copy(begin + stage * Rows, stage);
    commit_copies();
  }
  u32 stage = 0;
  for (u32 base = begin; base < end; base += Rows) {
    const u32 next = base + (Stages - 1) * Rows;
    if (next < end) copy(next, (stage + Stages - 1) % Stages);
    commit_copies();
    wait_copies<Stages - 1>();
    sync();
    body(base, stage);
    sync();
    stage = (stage + 1) % Stages;
  }
}

// Fragments of a: 16 rows in global memory. A lane has the rows g and g + 8; null stands for a row of zeros.
template <u32 D>
DEVICE void load_fragments(u32 (&a)[D / 16][4], const bf16* const (&rows)[2], u32 head_dim) {
  const u32 t = lane_index() % 4;
  UNROLL for (u32 h = 0; h < 2; h++) {
    UNROLL for (u32 k = 0; k < D / 16; k++) {
      UNROLL for (u32 i = 0; i < 2; i++) {
        const u32 at = k * 16 + i * 8 + 2 * t;
        const u32 low = rows[h] && at < head_dim ? rows[h][at].bits : 0;
        const u32 high = rows[h] && at + 1 < head_dim ? rows[h][at + 1].bits : 0;
        a[k][h + 2 * i] = low | high << 16;
      }
    }
  }
}
