// Attention by the tensor core, forward: the common part of the kernels in attention_tiles.cu and attention_decode.cu. The rows and
// keys of a block, the copies of keys from their pages, the state of rows during the loop over keys, the merge of splits, and the
// destinations of results.
#pragma once
#include "tiles.h"

#define PAGE 16
#define KEYS 64
#define SPLIT 1024
// This number stands for all splits, in order.
#define ALL 0xffffffffu

// Rows of a block: pairs of a run, numbered token by token and within a token head by head. A tile without rows does nothing.
struct Tile {
  // The run's first row, its position and its number of rows, the index of its first page, and the first pair.
  u32 row, position, len, pages, first;
  // The block's only split, or ALL; and the index of its partial result.
  u32 split, place;
};

// The parameters of the kernels.
#define ATTENTION_OPERANDS                                                                                        \
  const bf16 *qkv, const bf16 *layer, const Tile *tiles, const u32 *pages, bf16 *out, float *partial_sums,        \
      float *partial_extents, u32 heads, u32 kv_heads, u32 head_dim, u32 window, float scale, u32 stride,         \
      u32 out_stride
#define AS_OPERANDS                                                                                                           \
  {qkv, layer, tiles, pages, out, partial_sums, partial_extents, heads, kv_heads, head_dim, window, scale, stride, out_stride}
struct Operands {
  const bf16 *qkv, *layer;
  const Tile* tiles;
  const u32* pages;
  bf16* out;
  float *partial_sums, *partial_extents;
  u32 heads, kv_heads, head_dim, window;
  float scale;
  u32 stride, out_stride;
};

// A block with this number of rows: query heads of a group, all pairs of the run, and the keys that some row sees and that are in
// the block's splits.
struct Block {
  Tile tile;
  u32 kv_head, rows, group, pairs;
  Visible seen;
};
DEVICE Block block_of(const Operands& of, const Tile& tile, u32 rows) {
  const u32 group = of.heads / of.kv_heads, pairs = tile.len * group;
  const u32 end_pair = tile.first + rows < pairs ? tile.first + rows : pairs;
  u32 from = visible_to(tile.position + tile.first / group, of.window, true).from;
  u32 to = tile.position + (end_pair - 1) / group + 1;
  if (tile.split != ALL) {
    if (from < tile.split * SPLIT) from = tile.split * SPLIT;
    if (to > (tile.split + 1) * SPLIT) to = (tile.split + 1) * SPLIT;
  }
  return {tile, block_y(), rows, group, pairs, {from, to}};
}

// The two rows of a lane, out of the warp's 16: the keys that they see, and the addresses of their queries.
struct LaneRows {
  Visible visible[2];
  const bf16* queries[2];
};
DEVICE LaneRows lane_rows(const Operands& of, const Block& block, u32 first_row) {
  LaneRows rows;
  UNROLL for (u32 h = 0; h < 2; h++) {
    const u32 pair = block.tile.first + first_row + lane_index() / 4 + 8 * h;
    const u32 column = (block.kv_head * block.group + pair % block.group) * of.head_dim;
    rows.visible[h] = visible_to(block.tile.position + pair / block.group, of.window, pair < block.pairs);
    rows.queries[h] = pair < block.pairs ? of.qkv + (u64)(block.tile.row + pair / block.group) * of.stride + column : nullptr;
  }
  return rows;
}

// Keys whose pages a thread looks up before it starts their copies, so that it waits for memory only once.
#define LOOKED_UP 8

// Starts copies of the tile of keys from `base` on and, behind it, of their values, by this number of threads: all of the block, a
// power of two. If it is a constant, the compiler knows nearly all addresses.
template <u32 D>
DEVICE void copy_keys_and_values(bf16* to, const Operands& of, const Block& block, u32 base, u32 threads) {
  const u32 of_head = PAGE * of.head_dim, of_keys = of.kv_heads * of_head;
  const u32* pages = of.pages + block.tile.pages;
  const bf16* start = of.layer + block.kv_head * of_head;
  if (of.head_dim % 8) {
    UNROLL for (u32 values = 0; values < 2; values++) {
      copy_tile_rows<D>(to + values * KEYS * D, KEYS, of.head_dim, of.layer, [&](u32 key) -> const bf16* {
        if (!is_visible(block.seen, base + key)) return nullptr;
        return start + (u64)pages[(base + key) / PAGE] * (2 * of_keys) + values * of_keys + key % PAGE * of.head_dim;
      });
    }
    return;
  }
  constexpr u32 pieces = D / 8;
  const u32 thread = thread_index() & (threads - 1), mine = thread / pieces, step = threads / pieces;
  const u32 feature = thread % pieces * 8;
  const bool has_feature = feature < of.head_dim;
  if (has_feature) start += feature;
  for (u32 first = 0; first < KEYS; first += LOOKED_UP * step) {
    u32 page[LOOKED_UP];
    UNROLL for (u32 n = 0; n < LOOKED_UP; n++) {
      // If the block does not have a key, its first key replaces it: so each lookup finds a page, without a branch.
      const u32 at = base + first + n * step + mine;
      page[n] = pages[(is_visible(block.seen, at) ? at : block.seen.from) / PAGE];
    }
    UNROLL for (u32 n = 0; n < LOOKED_UP; n++) {
      const u32 key = first + n * step + mine;
      const u32 bytes = has_feature && is_visible(block.seen, base + key) ? 16 : 0;
      const bf16* from = start + (u64)page[n] * (2 * of_keys) + key % PAGE * of.head_dim;
      bf16* piece = to + place<D>(key, feature);
      if (key >= KEYS) break;
      copy_async16(piece, from, bytes);
      copy_async16(piece + KEYS * D, from + of_keys, bytes);
    }
  }
}

// Whether a split ends after a tile, and must be merged into those before it.
DEVICE bool ends_split(const Block& block, u32 base) {
  return block.tile.split == ALL && (base + KEYS >= block.seen.to || (base + KEYS) % SPLIT == 0);
}

// A row's maximum and the sum of its weights.
struct Extent {
  float largest, sum;
};

// Factors of the sums so far and of the new sums, when both get the larger of their maxima. If no key was seen, a maximum is
// -infinity and its factor 0.
struct Factors {
  float of_old, of_new;
};
DEVICE Factors factors(float old, float more, float largest) {
  return {exponential(old - largest), exponential(more - largest)};
}

// Merges a split into those before it: the factors scale sums of weights as they scale sums of weighted values.
DEVICE Factors join(Extent& before, Extent split) {
  const float most = larger(before.largest, split.largest);
  const Factors by = factors(before.largest, split.largest, most == -infinity() ? 0.0f : most);
  before.sum = mul_add(split.sum, by.of_new, before.sum * by.of_old);
  before.largest = most;
  return by;
}

// The state of a lane's two rows. For their split: the largest scores so far and, relative to these, the sums of weighted values
// for this number of features, and the sums of weights. For all splits before: their extents.
template <u32 Features>
struct Running {
  float sums[Features / 8][4], weights_sum[4];
  float largest[2];
  Extent before[2];
};

// The state before the first key.
template <u32 Features>
DEVICE void begin(Running<Features>& running) {
  UNROLL for (u32 h = 0; h < 2; h++) {
    running.largest[h] = running.before[h].largest = -infinity();
    running.before[h].sum = 0.0f;
  }
  UNROLL for (u32 i = 0; i < 4; i++) {
    running.weights_sum[i] = 0.0f;
    UNROLL for (u32 n = 0; n < Features / 8; n++) running.sums[n][i] = 0.0f;
  }
}

// Takes these as the largest scores, rescales the sums to them, and returns the number to subtract from scores.
template <u32 Features>
DEVICE void raise(Running<Features>& running, const float (&most)[2], float (&subtracted)[2]) {
  float factor[2];
  UNROLL for (u32 h = 0; h < 2; h++) {
    subtracted[h] = most[h] == -infinity() ? 0.0f : most[h];
    factor[h] = exponential(running.largest[h] - subtracted[h]);
    running.largest[h] = most[h];
  }
  UNROLL for (u32 i = 0; i < 4; i++) {
    running.weights_sum[i] *= factor[i / 2];
    UNROLL for (u32 n = 0; n < Features / 8; n++) running.sums[n][i] *= factor[i / 2];
  }
}

// Adds the rounded weights of 16 keys to their sum, as if every value were 1; every column gets the same sum.
template <u32 Features>
DEVICE void add_weights(Running<Features>& running, const u32 (&weights)[4]) {
  const u32 ones[2] = {0x3f803f80, 0x3f803f80};
  mma(running.weights_sum, weights, ones);
}

// Merges the split's extents into those before it. The returned factors are for the sums too, which the caller merges.
template <u32 Features>
DEVICE void end_split(Running<Features>& running, Factors (&by)[2]) {
  UNROLL for (u32 h = 0; h < 2; h++) {
    by[h] = join(running.before[h], {running.largest[h], running.weights_sum[2 * h]});
    running.largest[h] = -infinity();
  }
  UNROLL for (u32 i = 0; i < 4; i++) running.weights_sum[i] = 0.0f;
}

// Writes the results of 16 rows of a block, from a feature on: outputs if the block has all splits, else the split's partial
// result.
template <u32 Features>
DEVICE void write_rows(const Operands& of, const Block& block, u32 first_row, u32 first_feature,
                       const float (&sums)[Features / 8][4], const Extent (&extents)[2]) {
  const u32 g = lane_index() / 4, t = lane_index() % 4;
  UNROLL for (u32 h = 0; h < 2; h++) {
    const u32 row = first_row + g + 8 * h, pair = block.tile.first + row;
    if (pair >= block.pairs) continue;
    const u64 place = ((u64)block.tile.place * of.kv_heads + block.kv_head) * block.rows + row;
    bf16* to = of.out + (u64)(block.tile.row + pair / block.group) * of.out_stride +
               (block.kv_head * block.group + pair % block.group) * of.head_dim;
    UNROLL for (u32 n = 0; n < Features / 8; n++) {
      UNROLL for (u32 i = 0; i < 2; i++) {
        const u32 feature = first_feature + n * 8 + 2 * t + i;
        if (feature >= of.head_dim) continue;
        const float sum = sums[n][2 * h + i];
        if (block.tile.split == ALL) {
          // Removes the sign of zeros, which would show which blocks were left out.
          store(to + feature, divide(sum, extents[h].sum) + 0.0f);
        } else {
          of.partial_sums[place * of.head_dim + feature] = sum;
        }
      }
    }
    if (block.tile.split != ALL && first_feature == 0 && t == 0) {
      of.partial_extents[place * 2] = extents[h].largest;
      of.partial_extents[place * 2 + 1] = extents[h].sum;
    }
  }
}
