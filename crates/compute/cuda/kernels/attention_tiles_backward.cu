// The gradient of attention over whole sequences, some of which may share a beginning, with bf16 storage, by the tensor core:
// docs/concepts/numerics.md, rule 3 of bf16. For heads of at most 128 features; attention_backward.cu has larger ones.
//
// There are two kernels, without atomics. In the first a warp has 16 rows, pairs of a token and a head, and goes over the keys
// twice: for three numbers of each row, and for the gradient of the queries, one chain over the keys. In the second a warp has 16
// keys, and goes over the runs that see them, within a run over the heads of the group, within a head over blocks of 16 queries,
// counted from the run's first: one chain each for keys and values. Scores are computed three times, and so are p's gradients, so
// that the forward pass keeps nothing. Blocks in which no query sees a key are left out: they would change nothing.
//
// Bound by the tensor core: 18 head_dim FLOP per query and key seen.
#include "tiles.h"

#define KEYS 64
#define STAGES 2
// Queries of a tile of the second kernel.
#define QUERIES 32
// Numbers of a row's statistics: the maximum, one over the sum of exponentials, the sum of p dp, and one number to fill 16 bytes.
#define NUMBERS 4

// Pairs of a token and a head of a run.
struct QueryTile {
  // The run's first row, position and number of rows; the first row of its beginning (its own, if it starts at 0); and the first
  // pair.
  u32 row, position, len, beginning, first;
};

// Adds the values of the four lanes of a row: neighbours, then pairs.
DEVICE float sum_of_row(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
}

// dq, and statistics [rows, heads, 4]. Grid: x tiles, y key-value heads; 32 threads for each 16 rows. Dynamic shared memory: two stages
// of keys and values [64, D] in bf16.
template <u32 D>
DEVICE void attention_backward_queries(const bf16* qkv, const bf16* d_out, const QueryTile* tiles, bf16* d_qkv, float* statistics,
                                       u32 heads, u32 kv_heads, u32 head_dim, u32 window, float scale, u32 stride,
                                       u32 out_stride) {
  DYNAMIC_SHARED(memory);
  bf16* const stages = (bf16*)memory;
  const QueryTile tile = tiles[block_x()];
  const u32 kv_head = block_y(), group = heads / kv_heads, pairs = tile.len * group;
  const u32 rows = block_threads() / 2, end_pair = tile.first + rows < pairs ? tile.first + rows : pairs;
  const u32 seen_from = visible_to(tile.position + tile.first / group, window, true).from;
  const u32 seen_to = tile.position + (end_pair - 1) / group + 1, begin = seen_from / KEYS * KEYS;

  const u32 g = lane_index() / 4, t = lane_index() % 4, first = tile.first + warp_index() * 16;
  const bool has_rows = first < pairs;
  const u32 last = first + 16 < pairs ? first + 15 : pairs - 1;
  const u32 warp_from = has_rows ? visible_to(tile.position + first / group, window, true).from : 0;
  const u32 warp_to = has_rows ? tile.position + last / group + 1 : 0;
  Visible visible[2];
  const bf16 *query_rows[2], *out_rows[2];
  UNROLL for (u32 h = 0; h < 2; h++) {
    const u32 pair = first + g + 8 * h;
    const bool exists = pair < pairs;
    visible[h] = visible_to(tile.position + pair / group, window, exists);
    const u64 row = tile.row + pair / group;
    const u32 head = kv_head * group + pair % group;
    query_rows[h] = exists ? qkv + row * stride + head * head_dim : nullptr;
    out_rows[h] = exists ? d_out + row * out_stride + head * head_dim : nullptr;
  }
  u32 queries[D / 16][4], outs[D / 16][4];
  load_fragments<D>(queries, query_rows, head_dim);
  load_fragments<D>(outs, out_rows, head_dim);

  const auto copy = [&](u32 base, u32 stage) {
    bf16* to = stages + stage * 2 * KEYS * D;
    UNROLL for (u32 of_values = 0; of_values < 2; of_values++) {
      const u32 column = (heads + of_values * kv_heads + kv_head) * head_dim;
      copy_tile_rows<D>(to + of_values * KEYS * D, KEYS, head_dim, qkv, [&](u32 key) -> const bf16* {
        const u32 at = base + key;
        if (at < seen_from || at >= seen_to) return nullptr;
        const u64 row = at < tile.position ? tile.beginning + at : tile.row + (at - tile.position);
        return qkv + row * stride + column;
      });
    }
  };
  const auto is_seen = [&](u32 key) { return key < warp_to && key + 16 > warp_from; };

  // Tile by tile; the sums so far have the scale of the largest score so far.
  float largest[2], sum[2], dot[2];
  UNROLL for (u32 h = 0; h < 2; h++) {
    largest[h] = -infinity();
    sum[h] = dot[h] = 0.0f;
  }
  over_tiles<KEYS, STAGES>(begin, seen_to, copy, [&](u32 base, u32 stage) {
    const bf16* keys = stages + stage * 2 * KEYS * D;
    const bf16* values = keys + KEYS * D;
    if (base >= warp_to || base + KEYS <= warp_from) return;
    float z[KEYS / 8][4];
    float most[2] = {largest[0], largest[1]};
    UNROLL for (u32 n = 0; n < KEYS / 16; n++) {
      float scores[2][4];
      const bool seen = is_seen(base + n * 16);
      if (seen) dot_rows<D>(scores, queries, keys, n * 16);
      UNROLL for (u32 i = 0; i < 8; i++) {
        const u32 key = base + n * 16 + i / 4 * 8 + 2 * t + i % 2, h = i / 2 % 2;
        const float score = seen && is_visible(visible[h], key) ? scores[i / 4][i % 4] * scale : -infinity();
        z[2 * n + i / 4][i % 4] = score;
        most[h] = larger(most[h], score);
      }
    }
    float subtracted[2], more[2], more_dot[2];
    UNROLL for (u32 h = 0; h < 2; h++) {
      most[h] = larger(most[h], shuffle_xor(most[h], 1));
      most[h] = larger(most[h], shuffle_xor(most[h], 2));
      subtracted[h] = most[h] == -infinity() ? 0.0f : most[h];
      more[h] = more_dot[h] = 0.0f;
    }
    UNROLL for (u32 n = 0; n < KEYS / 16; n++) {
      if (is_seen(base + n * 16)) {
        float dp[2][4];
        dot_rows<D>(dp, outs, values, n * 16);
        UNROLL for (u32 i = 0; i < 8; i++) {
          const u32 h = i / 2 % 2;
          const float e = exponential(z[2 * n + i / 4][i % 4] - subtracted[h]);
          more[h] += e;
          more_dot[h] = mul_add(e, dp[i / 4][i % 4], more_dot[h]);
        }
      }
    }
    UNROLL for (u32 h = 0; h < 2; h++) {
      const float factor = exponential(largest[h] - subtracted[h]);
      sum[h] = mul_add(sum[h], factor, sum_of_row(more[h]));
      dot[h] = mul_add(dot[h], factor, sum_of_row(more_dot[h]));
      largest[h] = most[h];
    }
  });
  float inverse[2];
  UNROLL for (u32 h = 0; h < 2; h++) {
    inverse[h] = divide(1.0f, sum[h]);
    dot[h] *= inverse[h];
  }

  float gradient[D / 8][4];
  UNROLL for (u32 n = 0; n < D / 8; n++) {
    UNROLL for (u32 i = 0; i < 4; i++) gradient[n][i] = 0.0f;
  }
  over_tiles<KEYS, STAGES>(begin, seen_to, copy, [&](u32 base, u32 stage) {
    const bf16* keys = stages + stage * 2 * KEYS * D;
    const bf16* values = keys + KEYS * D;
    for (u32 n = 0; n < KEYS / 16; n++) {
      const u32 block = base + n * 16;
      if (!is_seen(block)) continue;
      float z[2][4], dp[2][4];
      dot_rows<D>(z, queries, keys, n * 16);
      dot_rows<D>(dp, outs, values, n * 16);
      UNROLL for (u32 i = 0; i < 8; i++) {
        const u32 key = block + i / 4 * 8 + 2 * t + i % 2, h = i / 2 % 2;
        float& d = dp[i / 4][i % 4];
        const float p = exponential(z[i / 4][i % 4] * scale - largest[h]) * inverse[h];
        d = is_visible(visible[h], key) ? p * (d - dot[h]) : 0.0f;
      }
      u32 a[4];
      as_a(a, dp[0], dp[1]);
      add_rows<D>(gradient, a, keys, n * 16);
    }
  });
  UNROLL for (u32 h = 0; h < 2; h++) {
    const u32 pair = first + g + 8 * h;
    if (pair >= pairs) continue;
    const u64 row = tile.row + pair / group;
    const u32 head = kv_head * group + pair % group;
    UNROLL for (u32 n = 0; n < D / 8; n++) {
      UNROLL for (u32 i = 0; i < 2; i++) {
        const u32 feature = n * 8 + 2 * t + i;
        if (feature < head_dim) store(d_qkv + row * stride + head * head_dim + feature, gradient[n][2 * h + i] * scale);
      }
    }
    if (t == 0) {
      float* of_query = statistics + (row * heads + head) * NUMBERS;
      of_query[0] = largest[h];
      of_query[1] = inverse[h];
      of_query[2] = dot[h];
      of_query[3] = 0.0f;
    }
  }
}
#define ATTENTION_BACKWARD_QUERIES(name, D)                                                                                       \
  KERNEL(name, 128)(const bf16* qkv, const bf16* d_out, const QueryTile* tiles, bf16* d_qkv, float* statistics, u32 heads,            \
                    u32 kv_heads, u32 head_dim, u32 window, float scale, u32 stride, u32 out_stride) {                             \
    attention_backward_queries<D>(qkv, d_out, tiles, d_qkv, statistics, heads, kv_heads, head_dim, window, scale, stride,           \
                                  out_stride);                                                                                    \
  }                                                                                                                               \
  EXPORT(name)
ATTENTION_BACKWARD_QUERIES(attention_backward_queries_16, 16)
ATTENTION_BACKWARD_QUERIES(attention_backward_queries_32, 32)
ATTENTION_BACKWARD_QUERIES(attention_backward_queries_64, 64)
ATTENTION_BACKWARD_QUERIES(attention_backward_queries_128, 128)

// Keys of a run.
struct KeyTile {
  // Row and position of the first key, the number of keys, and the runs that see them: run .. run_end.
  u32 row, position, count, run, run_end;
};
struct Run {
  u32 row, position, len;
};

// The position of the second kernel: a tile of queries of one head of one run. Each run's tiles begin at multiples of 32 of its
// rows.
struct Cursor {
  u32 index, in_group, first, begin, end;
  Run run;
};
// Enters runs until one has a query that sees some of the keys.
DEVICE void enter(Cursor& at, const KeyTile& tile, const Run* runs, u32 window) {
  for (; at.index < tile.run_end; at.index++) {
    at.run = runs[at.index];
    const u32 end = at.run.position + at.run.len, beyond = tile.position + tile.count - 1 + window;
    at.begin = tile.position > at.run.position ? (tile.position - at.run.position) / QUERIES * QUERIES : 0;
    at.end = at.run.len;
    if (window && beyond < end) at.end = beyond > at.run.position ? beyond - at.run.position : 0;
    at.in_group = 0;
    at.first = at.begin;
    if (at.begin < at.end) return;
  }
}
DEVICE void advance(Cursor& at, const KeyTile& tile, const Run* runs, u32 group, u32 window) {
  at.first += QUERIES;
  if (at.first < at.end) return;
  at.first = at.begin;
  at.in_group++;
  if (at.in_group < group) return;
  at.index++;
  enter(at, tile, runs, window);
}

// dk and dv. Grid: x tiles of keys, y key-value heads; 32 threads for each 16 keys. Dynamic shared memory: keys and values [threads / 2,
// D] in bf16, two stages of queries and of d_out [32, D] in bf16, two stages of statistics [32, 4] in f32.
template <u32 D>
DEVICE void attention_backward_keys(const bf16* qkv, const bf16* d_out, const KeyTile* tiles, const Run* runs,
                                    const float* statistics, bf16* d_qkv, u32 heads, u32 kv_heads, u32 head_dim, u32 window,
                                    float scale, u32 stride, u32 out_stride) {
  DYNAMIC_SHARED(memory);
  const u32 rows = block_threads() / 2;
  bf16* const stages = (bf16*)memory;
  float* const numbers = (float*)(stages + STAGES * 2 * QUERIES * D);
  bf16* const values = (bf16*)(numbers + STAGES * QUERIES * NUMBERS);
  const KeyTile tile = tiles[block_x()];
  const u32 kv_head = block_y(), group = heads / kv_heads;
  const u32 key_at = (heads + kv_head) * head_dim, value_at = (heads + kv_heads + kv_head) * head_dim;
  const u32 g = lane_index() / 4, t = lane_index() % 4, first_key = warp_index() * 16;
  const bool has_keys = first_key < tile.count;

  u32 keys[D / 16][4];
  const bf16* key_rows[2];
  UNROLL for (u32 h = 0; h < 2; h++) {
    const u32 key = first_key + g + 8 * h;
    key_rows[h] = key < tile.count ? qkv + (u64)(tile.row + key) * stride + key_at : nullptr;
  }
  load_fragments<D>(keys, key_rows, head_dim);
  copy_tile_rows<D>(values, rows, head_dim, qkv, [&](u32 key) -> const bf16* {
    return key < tile.count ? qkv + (u64)(tile.row + key) * stride + value_at : nullptr;
  });

  const auto copy = [&](const Cursor& at, u32 stage) {
    bf16* to = stages + stage * 2 * QUERIES * D;
    const u32 head = kv_head * group + at.in_group;
    copy_tile_rows<D>(to, QUERIES, head_dim, qkv, [&](u32 query) -> const bf16* {
      return at.first + query < at.end ? qkv + (u64)(at.run.row + at.first + query) * stride + head * head_dim : nullptr;
    });
    copy_tile_rows<D>(to + QUERIES * D, QUERIES, head_dim, d_out, [&](u32 query) -> const bf16* {
      return at.first + query < at.end ? d_out + (u64)(at.run.row + at.first + query) * out_stride + head * head_dim : nullptr;
    });
    for (u32 query = thread_index(); query < QUERIES; query += block_threads()) {
      const bool exists = at.first + query < at.end;
      const u64 row = at.run.row + at.first + query;
      const float* from = exists ? statistics + (row * heads + head) * NUMBERS : statistics;
      copy_async16(numbers + (stage * QUERIES + query) * NUMBERS, from, exists ? 16 : 0);
    }
  };

  float d_keys[D / 8][4], d_values[D / 8][4];
  UNROLL for (u32 n = 0; n < D / 8; n++) {
    UNROLL for (u32 i = 0; i < 4; i++) d_keys[n][i] = d_values[n][i] = 0.0f;
  }
  Cursor at, next;
  at.index = tile.run;
  enter(at, tile, runs, window);
  next = at;
  if (at.index < tile.run_end) copy(at, 0);
  commit_copies();
  for (u32 stage = 0; at.index < tile.run_end; stage = 1 - stage) {
    advance(next, tile, runs, group, window);
    if (next.index < tile.run_end) copy(next, 1 - stage);
    commit_copies();
    wait_copies<1>();
    sync();
    const bf16* queries = stages + stage * 2 * QUERIES * D;
    const bf16* outs = queries + QUERIES * D;
    for (u32 block = 0; block < QUERIES; block += 16) {
      // Positions of the first query and the first key of the block of 16 by 16.
      const u32 query = at.run.position + at.first + block, key = tile.position + first_key;
      const bool seen = has_keys && at.first + block < at.end && query + 15 >= key && (!window || query < key + 15 + window);
      if (!seen) continue;
      float p[2][4], d[2][4];
      dot_rows<D>(p, keys, queries, block);
      UNROLL for (u32 i = 0; i < 4; i++) d[0][i] = d[1][i] = 0.0f;
      UNROLL for (u32 k = 0; k < D / 16; k++) {
        u32 a[4], b[4];
        load_rows_a<D>(a, values, first_key, k * 16);
        load_rows_b<D>(b, outs, block, k * 16);
        mma_pair(d[0], d[1], a, b);
      }
      UNROLL for (u32 i = 0; i < 8; i++) {
        const u32 column = i / 4 * 8 + 2 * t + i % 2, row = g + i / 2 % 2 * 8;
        const float* of_query = numbers + (stage * QUERIES + block + column) * NUMBERS;
        const bool visible = at.first + block + column < at.end && first_key + row < tile.count &&
                             is_visible(visible_to(query + column, window, true), key + row);
        float& weight = p[i / 4][i % 4];
        float& gradient = d[i / 4][i % 4];
        weight = visible ? exponential(weight * scale - of_query[0]) * of_query[1] : 0.0f;
        gradient = visible ? weight * (gradient - of_query[2]) : 0.0f;
      }
      u32 a[4];
      as_a(a, p[0], p[1]);
      add_rows<D>(d_values, a, outs, block);
      as_a(a, d[0], d[1]);
      add_rows<D>(d_keys, a, queries, block);
    }
    sync();
    at = next;
  }
  UNROLL for (u32 h = 0; h < 2; h++) {
    const u32 key = first_key + g + 8 * h;
    if (key >= tile.count) continue;
    bf16* row = d_qkv + (u64)(tile.row + key) * stride;
    UNROLL for (u32 n = 0; n < D / 8; n++) {
      UNROLL for (u32 i = 0; i < 2; i++) {
        const u32 feature = n * 8 + 2 * t + i;
        if (feature < head_dim) {
          store(row + key_at + feature, d_keys[n][2 * h + i] * scale);
          store(row + value_at + feature, d_values[n][2 * h + i]);
        }
      }
    }
  }
}
#define ATTENTION_BACKWARD_KEYS(name, D)                                                                                         \
  KERNEL(name, 128)(const bf16* qkv, const bf16* d_out, const KeyTile* tiles, const Run* runs, const float* statistics,               \
                    bf16* d_qkv, u32 heads, u32 kv_heads, u32 head_dim, u32 window, float scale, u32 stride, u32 out_stride) {     \
    attention_backward_keys<D>(qkv, d_out, tiles, runs, statistics, d_qkv, heads, kv_heads, head_dim, window, scale, stride,        \
                               out_stride);                                                                                       \
  }                                                                                                                               \
  EXPORT(name)
ATTENTION_BACKWARD_KEYS(attention_backward_keys_16, 16)
ATTENTION_BACKWARD_KEYS(attention_backward_keys_32, 32)
ATTENTION_BACKWARD_KEYS(attention_backward_keys_64, 64)
ATTENTION_BACKWARD_KEYS(attention_backward_keys_128, 128)
