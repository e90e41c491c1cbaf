// Causal grouped-query attention over a paged cache with bf16 storage, by the tensor core: docs/concepts/numerics.md, rule 3 of
// bf16. For heads of at most 128 features; attention.cu has larger ones.
//
// Keys are cut into tiles of 64 at multiples of 64, and into splits of 1024 at multiples of 1024, for every query and every batch.
// A key that a query does not see has the weight 0, and changes nothing. So tiles, and blocks of 16 keys, that no row of a warp
// sees are left out. A block may compute the splits of its rows one after the other, or only one of them; attention_merge then
// merges the splits.
//
// A warp has 16 rows, pairs of a token and a head of the group; a block has two or four warps. If there are only 16 rows, the
// kernels of attention_decode.cu share them among warps. Keys and values of the next tile are copied while this tile is multiplied.
// Bound by the tensor core: 4 head_dim FLOP per query and key.
#include "splits.h"

#define STAGES 2

// Grid: x tiles, y key-value heads; 32 threads for each 16 rows. Dynamic shared memory: two stages of keys and values [64, D] in
// bf16, then, if a block has several splits, 2 D bytes a thread for the results of earlier splits. Partial results: for each split
// of its own and each head, [rows of a block, head_dim] sums and [rows of a block, 2] extents.
template <u32 D>
DEVICE void attention(const Operands& of) {
  DYNAMIC_SHARED(memory);
  bf16* const stages = (bf16*)memory;
  float* const merged = (float*)(stages + STAGES * 2 * KEYS * D);
  const Tile tile = of.tiles[block_x()];
  if (tile.len == 0) return;
  const u32 threads = block_threads();
  const Block block = block_of(of, tile, threads / 2);

  // The warp's first row, the keys that some of its rows see, and the two rows of this lane.
  const u32 t = lane_index() % 4, first_row = warp_index() * 16, first = tile.first + first_row;
  const bool has_rows = first < block.pairs;
  const u32 last = first + 16 < block.pairs ? first + 15 : block.pairs - 1;
  const u32 warp_from = has_rows ? visible_to(tile.position + first / block.group, of.window, true).from : 0;
  const u32 warp_to = has_rows ? tile.position + last / block.group + 1 : 0;
  const LaneRows rows = lane_rows(of, block, first_row);
  u32 queries[D / 16][4];
  load_fragments<D>(queries, rows.queries, of.head_dim);

  Running<D> running;
  begin(running);
  bool is_first = true;
  const auto copy = [&](u32 base, u32 stage) {
    copy_keys_and_values<D>(stages + stage * 2 * KEYS * D, of, block, base, threads);
  };
  over_tiles<KEYS, STAGES>(block.seen.from / KEYS * KEYS, block.seen.to, copy, [&](u32 base, u32 stage) {
    const bf16* keys = stages + stage * 2 * KEYS * D;
    const bf16* values = keys + KEYS * D;
    // This is equal for all lanes of a warp.
    if (base < warp_to && base + KEYS > warp_from) {
      float z[KEYS / 8][4];
      float most[2] = {running.largest[0], running.largest[1]};
      UNROLL for (u32 n = 0; n < KEYS / 16; n++) {
        float scores[2][4];
        const bool seen = base + n * 16 < warp_to && base + n * 16 + 16 > warp_from;
        if (seen) dot_rows<D>(scores, queries, keys, n * 16);
        UNROLL for (u32 i = 0; i < 8; i++) {
          const u32 key = base + n * 16 + i / 4 * 8 + 2 * t + i % 2, h = i / 2 % 2;
          const float score = seen && is_visible(rows.visible[h], key) ? scores[i / 4][i % 4] * of.scale : -infinity();
          z[2 * n + i / 4][i % 4] = score;
          most[h] = larger(most[h], score);
        }
      }
      UNROLL for (u32 h = 0; h < 2; h++) {
        most[h] = larger(most[h], shuffle_xor(most[h], 1));
        most[h] = larger(most[h], shuffle_xor(most[h], 2));
      }
      float subtracted[2];
      raise(running, most, subtracted);
      UNROLL for (u32 i = 0; i < 4; i++) {
        UNROLL for (u32 n = 0; n < KEYS / 8; n++) z[n][i] = exponential(z[n][i] - subtracted[i / 2]);
      }
      UNROLL for (u32 n = 0; n < KEYS / 16; n++) {
        if (base + n * 16 < warp_to && base + n * 16 + 16 > warp_from) {
          u32 weights[4];
          as_a(weights, z[2 * n], z[2 * n + 1]);
          add_rows<D>(running.sums, weights, values, n * 16);
          add_weights(running, weights);
        }
      }
    }
    // This split ends, and it is not the only one: its sums are merged into those of earlier splits.
    if (ends_split(block, base)) {
      const bool is_last = base + KEYS >= block.seen.to;
      Factors by[2];
      end_split(running, by);
      UNROLL for (u32 n = 0; n < D / 8; n++) {
        UNROLL for (u32 i = 0; i < 4; i++) {
          float* kept = merged + (n * 4 + i) * threads + thread_index();
          const float old = is_first ? 0.0f : *kept;
          const float sum = mul_add(running.sums[n][i], by[i / 2].of_new, old * by[i / 2].of_old);
          if (!is_last) *kept = sum;
          running.sums[n][i] = is_last ? sum : 0.0f;
        }
      }
      is_first = false;
    }
  });
  // These are computed anew, so that no registers keep them during the loop over keys.
  const Block found = block_of(of, of.tiles[block_x()], block_threads() / 2);
  UNROLL for (u32 h = 0; h < 2; h++) {
    if (found.tile.split != ALL) running.before[h] = {running.largest[h], running.weights_sum[2 * h]};
  }
  write_rows<D>(of, found, warp_index() * 16, 0, running.sums, running.before);
}
#define ATTENTION(name, D)                                             \
  KERNEL(name, 128)(ATTENTION_OPERANDS) { attention<D>(AS_OPERANDS); } \
  EXPORT(name)
ATTENTION(attention_16, 16)
ATTENTION(attention_32, 32)
ATTENTION(attention_64, 64)
ATTENTION(attention_128, 128)

// Rows whose splits were computed by blocks of their own.
struct Merged {
  // As in Tile, then the index of the first split's partial result; those of the other splits follow.
  u32 row, len, first, place, splits;
};

// Merges splits in order. Grid: x tiles, y key-value heads; `rows of a block` pairs each. Reads 4 bytes per number and split.
KERNEL(attention_merge, 128)(const Merged* tiles, const float* partial_sums, const float* partial_extents, bf16* out, u32 heads,
                             u32 kv_heads, u32 head_dim, u32 rows, u32 out_stride) {
  const Merged tile = tiles[block_x()];
  const u32 kv_head = block_y(), group = heads / kv_heads, pairs = tile.len * group;
  for (u32 i = thread_index(); i < rows * head_dim; i += block_threads()) {
    const u32 row = i / head_dim, feature = i % head_dim, pair = tile.first + row;
    if (pair >= pairs) break;
    float sum = 0.0f;
    Extent all = {-infinity(), 0.0f};
    for (u32 split = 0; split < tile.splits; split++) {
      const u64 place = ((u64)(tile.place + split) * kv_heads + kv_head) * rows + row;
      const Factors by = join(all, {partial_extents[place * 2], partial_extents[place * 2 + 1]});
      sum = mul_add(partial_sums[place * head_dim + feature], by.of_new, sum * by.of_old);
    }
    bf16* to = out + (u64)(tile.row + pair / group) * out_stride + (kv_head * group + pair % group) * head_dim;
    store(to + feature, divide(sum, all.sum) + 0.0f);
  }
}
EXPORT(attention_merge)
