// Attention as in attention_tiles.cu, for blocks of 16 rows, as in decoding. One warp could hold them, but four work on them
// together, because such a block mostly waits for its keys. The chains are the same, and so are the bits.
//
// Of each tile of 64 keys a warp computes the scores and the weights of 16 keys, and of the sum of weighted values a quarter of the
// features, over all 64 keys in order. The largest score and the weights go through shared memory. There are three or four stages
// of keys and values, so that more of them is under way. Together with the data that warps exchange they fit in the 99 KiB that a
// block may have on every GPU. Bound by memory: 4 bytes per feature of a key.
#include "splits.h"

#define WARPS 4

// The block's shared memory besides keys and values: for each row the largest score that each warp knows, and the weights of each
// warp's keys as the fragment of a, lane by lane.
struct Told {
  float largest[16][WARPS];
  u32 weights[WARPS][32][4];
};

// Grid: x tiles, y key-value heads; four warps. Dynamic shared memory: stages of keys and values [64, D] in bf16, three if D is
// 128, else four. Partial results: as in attention_tiles.cu.
template <u32 D>
DEVICE void attention_decode(const Operands& of, Told& told) {
  constexpr u32 Stages = D > 64 ? 3 : 4;
  // Features of a warp. Fragments of values have at least 16 features, so that with small heads some warps have none.
  constexpr u32 Features = D / WARPS < 16 ? 16 : D / WARPS;
  DYNAMIC_SHARED(memory);
  bf16* const stages = (bf16*)memory;
  const Tile tile = of.tiles[block_x()];
  if (tile.len == 0) return;
  const Block block = block_of(of, tile, 16);
  const u32 warp = warp_index(), lane = lane_index(), g = lane / 4, t = lane % 4;
  const u32 first_feature = warp * Features;
  const LaneRows rows = lane_rows(of, block, 0);
  u32 queries[D / 16][4];
  load_fragments<D>(queries, rows.queries, of.head_dim);

  // The extents and sums of this split, and the sums of all splits before. All warps know the extents.
  Running<Features> running;
  begin(running);
  float merged[Features / 8][4];
  UNROLL for (u32 i = 0; i < 4; i++) {
    UNROLL for (u32 n = 0; n < Features / 8; n++) merged[n][i] = 0.0f;
  }
  const auto copy = [&](u32 base, u32 stage) {
    copy_keys_and_values<D>(stages + stage * 2 * KEYS * D, of, block, base, WARPS * 32);
  };
  over_tiles<KEYS, Stages>(block.seen.from / KEYS * KEYS, block.seen.to, copy, [&](u32 base, u32 stage) {
    const bf16* keys = stages + stage * 2 * KEYS * D;
    const bf16* values = keys + KEYS * D;
    // Whether some row sees one of these 16 keys.
    const auto is_seen = [&](u32 first_key) {
      return base + first_key < block.seen.to && base + first_key + 16 > block.seen.from;
    };
    const u32 mine = warp * 16;
    const bool seen = is_seen(mine);
    float z[2][4];
    float most[2] = {running.largest[0], running.largest[1]};
    if (seen) dot_rows<D>(z, queries, keys, mine);
    UNROLL for (u32 i = 0; i < 8; i++) {
      const u32 key = base + mine + i / 4 * 8 + 2 * t + i % 2, h = i / 2 % 2;
      float& score = z[i / 4][i % 4];
      score = seen && is_visible(rows.visible[h], key) ? score * of.scale : -infinity();
      most[h] = larger(most[h], score);
    }
    UNROLL for (u32 h = 0; h < 2; h++) {
      most[h] = larger(most[h], shuffle_xor(most[h], 1));
      most[h] = larger(most[h], shuffle_xor(most[h], 2));
      if (t == 0) told.largest[g + 8 * h][warp] = most[h];
    }
    sync();
    UNROLL for (u32 h = 0; h < 2; h++) {
      const Words4 of_warps = load_words4(told.largest[g + 8 * h]);
      UNROLL for (u32 other = 0; other < WARPS; other++) most[h] = larger(most[h], float_of(of_warps.words[other]));
    }
    float subtracted[2];
    raise(running, most, subtracted);
    UNROLL for (u32 i = 0; i < 4; i++) {
      UNROLL for (u32 n = 0; n < 2; n++) z[n][i] = exponential(z[n][i] - subtracted[i / 2]);
    }
    u32 weights[4];
    as_a(weights, z[0], z[1]);
    store_words4(told.weights[warp][lane], {{weights[0], weights[1], weights[2], weights[3]}});
    sync();
    UNROLL for (u32 n = 0; n < KEYS / 16; n++) {
      if (is_seen(n * 16)) {
        const Words4 a = load_words4(told.weights[n][lane]);
        if (first_feature < D) add_rows<D, Features>(running.sums, a.words, values, n * 16, first_feature);
        add_weights(running, a.words);
      }
    }
    // This split ends, and it is not the only one: its sums are merged into those of earlier splits.
    if (ends_split(block, base)) {
      Factors by[2];
      end_split(running, by);
      UNROLL for (u32 i = 0; i < 4; i++) {
        UNROLL for (u32 n = 0; n < Features / 8; n++) {
          merged[n][i] = mul_add(running.sums[n][i], by[i / 2].of_new, merged[n][i] * by[i / 2].of_old);
          running.sums[n][i] = 0.0f;
        }
      }
    }
  });
  if (first_feature >= D) return;
  if (tile.split == ALL) {
    write_rows<Features>(of, block, 0, first_feature, merged, running.before);
  } else {
    const Extent extents[2] = {{running.largest[0], running.weights_sum[0]}, {running.largest[1], running.weights_sum[2]}};
    write_rows<Features>(of, block, 0, first_feature, running.sums, extents);
  }
}
#define ATTENTION_DECODE(name, D)                     \
  KERNEL(name, WARPS * 32)(ATTENTION_OPERANDS) {      \
    SHARED(Told, told, [1]);                          \
    attention_decode<D>(AS_OPERANDS, told[0]);        \
  }                                                   \
  EXPORT(name)
ATTENTION_DECODE(attention_decode_16, 16)
ATTENTION_DECODE(attention_decode_32, 32)
ATTENTION_DECODE(attention_decode_64, 64)
ATTENTION_DECODE(attention_decode_128, 128)
