// The gradient of attention over whole sequences, some of which may share a beginning:
// crates/compute/kernels/src/attention/backward.rs. There are two kernels, without atomics. The first computes the gradients of
// queries, each one chain over the keys. The second computes those of keys and values, each one chain over the runs that see them,
// within a run over the heads of the group, within a head over the queries. Softmax weights are computed again from three numbers
// per query. Arithmetic is f32. Bound by arithmetic on the CUDA cores.
#include "numbers.h"

#define ROWS 8
#define KEYS 32
#define THREADS (ROWS * 32)
#define CHUNKS 8

DEVICE u32 first_visible(u32 position, u32 window) { return window && position + 1 > window ? position + 1 - window : 0; }

// Pairs of a token and a head of a run; a warp has one pair.
struct QueryTile {
  // The run's first row, position and number of rows; the first row of its beginning (its own, if it starts at 0); and the first
  // pair.
  u32 row, position, len, beginning, first;
};

// Dot product of two rows in shared memory, one chain.
DEVICE float chain(const float* a, const float* b, u32 len) {
  float sum = 0.0f;
  for (u32 d = 0; d < len; d++) sum = mul_add(a[d], b[d], sum);
  return sum;
}

// dq, and statistics [rows, heads, 3]: the maximum, the sum of exponentials, and the sum of p dp. Grid: x tiles, y key-value heads.
// Dynamic shared memory: keys and values [32, head_dim + 1], queries and their gradients' counterparts [8, head_dim], [8, 32]. Reads
// the keys of a tile's rows four times and their values twice; 14 head_dim FLOP per query and key.
template <typename T>
DEVICE void attention_backward_queries(const T* qkv, const T* d_out, const QueryTile* tiles, T* d_qkv, float* statistics, u32 heads,
                                       u32 kv_heads, u32 head_dim, u32 window, float scale, u32 stride, u32 out_stride) {
  DYNAMIC_SHARED(memory);
  const u32 padded = head_dim + 1;
  float* keys = (float*)memory;
  float* values = keys + KEYS * padded;
  float* queries = values + KEYS * padded;
  float* outs = queries + ROWS * head_dim;
  float* gradients = outs + ROWS * head_dim;
  const QueryTile tile = tiles[block_x()];
  const u32 kv_head = block_y(), group = heads / kv_heads, pairs = tile.len * group, warp = warp_index(), lane = lane_index();
  const u32 pair = tile.first + warp, position = tile.position + pair / group, head = kv_head * group + pair % group;
  const bool exists = pair < pairs;
  const u32 last = tile.first + ROWS < pairs ? tile.first + ROWS - 1 : pairs - 1;
  const u32 from = first_visible(tile.position + tile.first / group, window) / LANES * LANES;
  const u32 to = tile.position + last / group + 1;
  const u32 visible_from = first_visible(position, window), visible_to = exists ? position + 1 : 0;
  const u32 key_at = (heads + kv_head) * head_dim, value_at = (heads + kv_heads + kv_head) * head_dim;

  for (u32 i = thread_index(); i < ROWS * head_dim; i += THREADS) {
    const u32 of = tile.first + i / head_dim;
    const u32 feature = (kv_head * group + of % group) * head_dim + i % head_dim;
    const u64 row = tile.row + of / group;
    queries[i] = of < pairs ? load(qkv + row * stride + feature) : 0.0f;
    outs[i] = of < pairs ? load(d_out + row * out_stride + feature) : 0.0f;
  }
  float largest = -infinity(), sum = 0.0f, dot = 0.0f, result[CHUNKS];
  UNROLL for (u32 c = 0; c < CHUNKS; c++) result[c] = 0.0f;
  // The maximum, the sum, the sum of p dp, the gradient.
  for (u32 pass = 0; pass < 4; pass++) {
    for (u32 base = from; base < to; base += KEYS) {
      sync();
      for (u32 i = thread_index(); i < KEYS * head_dim; i += THREADS) {
        const u32 key = i / head_dim, feature = i % head_dim, at = base + key;
        const u64 row = at < tile.position ? tile.beginning + at : tile.row + (at - tile.position);
        keys[key * padded + feature] = at < to ? load(qkv + row * stride + key_at + feature) : 0.0f;
        if (pass >= 2) values[key * padded + feature] = at < to ? load(qkv + row * stride + value_at + feature) : 0.0f;
      }
      sync();
      const u32 at = base + lane;
      const bool visible = at >= visible_from && at < visible_to;
      const float z = visible ? chain(queries + warp * head_dim, keys + lane * padded, head_dim) * scale : 0.0f;
      if (pass == 0) {
        if (visible) largest = larger(largest, z);
        continue;
      }
      const float e = visible ? exponential(z - largest) : 0.0f;
      if (pass == 1) {
        const float next = shuffle_xor(e, 16);
        if (lane < LANES) sum = sum + e + next;
        continue;
      }
      const float p = visible ? divide(e, sum) : 0.0f;
      const float dp = visible ? chain(outs + warp * head_dim, values + lane * padded, head_dim) : 0.0f;
      if (pass == 2) {
        const float next_p = shuffle_xor(p, 16), next_dp = shuffle_xor(dp, 16);
        if (lane < LANES) dot = mul_add(next_p, next_dp, mul_add(p, dp, dot));
        continue;
      }
      gradients[warp * KEYS + lane] = p * (dp - dot) * scale;
      sync_warp();
      const u32 begin = visible_from > base ? visible_from - base : 0;
      const u32 rest = visible_to > base ? visible_to - base : 0, end = rest < KEYS ? rest : KEYS;
      UNROLL for (u32 c = 0; c < CHUNKS; c++) {
        const u32 d = c * 32 + lane;
        if (d < head_dim) {
          for (u32 key = begin; key < end; key++) {
            result[c] = mul_add(gradients[warp * KEYS + key], keys[key * padded + d], result[c]);
          }
        }
      }
    }
    if (pass == 0) {
      for (u32 distance = 16; distance > 0; distance /= 2) largest = larger(largest, shuffle_xor(largest, distance));
    }
    if (pass == 1) sum = shuffle(sum_lanes(sum), 0);
    if (pass == 2) dot = shuffle(sum_lanes(dot), 0);
  }
  if (!exists) return;
  const u64 row = tile.row + pair / group;
  UNROLL for (u32 c = 0; c < CHUNKS; c++) {
    const u32 d = c * 32 + lane;
    if (d < head_dim) store(d_qkv + row * stride + head * head_dim + d, result[c]);
  }
  if (lane == 0) {
    float* of_query = statistics + (row * heads + head) * 3;
    of_query[0] = largest;
    of_query[1] = sum;
    of_query[2] = dot;
  }
}
#define ATTENTION_BACKWARD_QUERIES(name, T)                                                                                       \
  KERNEL(name, THREADS)(const T* qkv, const T* d_out, const QueryTile* tiles, T* d_qkv, float* statistics, u32 heads,               \
                        u32 kv_heads, u32 head_dim, u32 window, float scale, u32 stride, u32 out_stride) {                          \
    attention_backward_queries(qkv, d_out, tiles, d_qkv, statistics, heads, kv_heads, head_dim, window, scale, stride, out_stride); \
  }                                                                                                                               \
  EXPORT(name)
ATTENTION_BACKWARD_QUERIES(attention_backward_queries_f32, float)
ATTENTION_BACKWARD_QUERIES(attention_backward_queries_bf16, bf16)

// Up to 32 keys of a run.
struct KeyTile {
  // Row and position of the first key, the number of keys, and the runs that see them: run .. run_end.
  u32 row, position, count, run, run_end;
};
struct Run {
  u32 row, position, len;
};

// dk and dv. Grid: x tiles of keys, y key-value heads. Dynamic shared memory: keys and values [32, head_dim + 1], queries and d_out
// [8, head_dim], weights and gradients of scores [8, 32]. Reads a row of queries and one of d_out per tile that they see; 8 head_dim
// FLOP per query and key.
template <typename T>
DEVICE void attention_backward_keys(const T* qkv, const T* d_out, const KeyTile* tiles, const Run* runs, const float* statistics,
                                    T* d_qkv, u32 heads, u32 kv_heads, u32 head_dim, u32 window, float scale, u32 stride,
                                    u32 out_stride) {
  DYNAMIC_SHARED(memory);
  const u32 padded = head_dim + 1;
  float* keys = (float*)memory;
  float* values = keys + KEYS * padded;
  float* queries = values + KEYS * padded;
  float* outs = queries + ROWS * head_dim;
  float* weights = outs + ROWS * head_dim;
  float* gradients = weights + ROWS * KEYS;
  const KeyTile tile = tiles[block_x()];
  const u32 kv_head = block_y(), group = heads / kv_heads, warp = warp_index(), lane = lane_index();
  const u32 key_at = (heads + kv_head) * head_dim, value_at = (heads + kv_heads + kv_head) * head_dim;

  for (u32 i = thread_index(); i < KEYS * head_dim; i += THREADS) {
    const u32 key = i / head_dim, feature = i % head_dim;
    const u64 row = (u64)(tile.row + key) * stride + feature;
    keys[key * padded + feature] = key < tile.count ? load(qkv + row + key_at) : 0.0f;
    values[key * padded + feature] = key < tile.count ? load(qkv + row + value_at) : 0.0f;
  }
  // This thread has the features lane, lane + 32, ... of the keys warp, warp + 8, ...
  float d_keys[KEYS / ROWS][CHUNKS], d_values[KEYS / ROWS][CHUNKS];
  UNROLL for (u32 n = 0; n < KEYS / ROWS; n++) {
    UNROLL for (u32 c = 0; c < CHUNKS; c++) d_keys[n][c] = d_values[n][c] = 0.0f;
  }
  for (u32 of = tile.run; of < tile.run_end; of++) {
    const Run run = runs[of];
    // The queries that see some of these keys.
    const u32 begin = tile.position > run.position ? tile.position - run.position : 0;
    const u32 beyond = tile.position + tile.count - 1 + window;
    u32 end = run.len;
    if (window && beyond < run.position + run.len) end = beyond > run.position ? beyond - run.position : 0;
    for (u32 in_group = 0; in_group < group; in_group++) {
      const u32 head = kv_head * group + in_group;
      for (u32 first = begin; first < end; first += ROWS) {
        sync();
        for (u32 i = thread_index(); i < ROWS * head_dim; i += THREADS) {
          const u32 query = first + i / head_dim, feature = head * head_dim + i % head_dim;
          const u64 row = run.row + query;
          queries[i] = query < end ? load(qkv + row * stride + feature) : 0.0f;
          outs[i] = query < end ? load(d_out + row * out_stride + feature) : 0.0f;
        }
        sync();
        const u32 query = first + warp, position = run.position + query, at = tile.position + lane;
        const bool visible = query < end && lane < tile.count && at <= position && at >= first_visible(position, window);
        float p = 0.0f, gradient = 0.0f;
        if (visible) {
          const float* of_query = statistics + ((u64)(run.row + query) * heads + head) * 3;
          const float z = chain(queries + warp * head_dim, keys + lane * padded, head_dim) * scale;
          p = divide(exponential(z - of_query[0]), of_query[1]);
          const float dp = chain(outs + warp * head_dim, values + lane * padded, head_dim);
          gradient = p * (dp - of_query[2]) * scale;
        }
        weights[warp * KEYS + lane] = p;
        gradients[warp * KEYS + lane] = gradient;
        sync();
        UNROLL for (u32 n = 0; n < KEYS / ROWS; n++) {
          const u32 key = warp + n * ROWS;
          UNROLL for (u32 c = 0; c < CHUNKS; c++) {
            const u32 d = c * 32 + lane;
            if (d < head_dim) {
              UNROLL for (u32 q = 0; q < ROWS; q++) {
                d_values[n][c] = mul_add(weights[q * KEYS + key], outs[q * head_dim + d], d_values[n][c]);
                d_keys[n][c] = mul_add(gradients[q * KEYS + key], queries[q * head_dim + d], d_keys[n][c]);
              }
            }
          }
        }
      }
    }
  }
  UNROLL for (u32 n = 0; n < KEYS / ROWS; n++) {
    const u32 key = warp + n * ROWS;
    UNROLL for (u32 c = 0; c < CHUNKS; c++) {
      const u32 d = c * 32 + lane;
      if (key < tile.count && d < head_dim) {
        T* row = d_qkv + (u64)(tile.row + key) * stride + d;
        store(row + key_at, d_keys[n][c]);
        store(row + value_at, d_values[n][c]);
      }
    }
  }
}
#define ATTENTION_BACKWARD_KEYS(name, T)                                                                                         \
  KERNEL(name, THREADS)(const T* qkv, const T* d_out, const KeyTile* tiles, const Run* runs, const float* statistics, T* d_qkv,      \
                        u32 heads, u32 kv_heads, u32 head_dim, u32 window, float scale, u32 stride, u32 out_stride) {                \
    attention_backward_keys(qkv, d_out, tiles, runs, statistics, d_qkv, heads, kv_heads, head_dim, window, scale, stride, out_stride); \
  }                                                                                                                              \
  EXPORT(name)
ATTENTION_BACKWARD_KEYS(attention_backward_keys_f32, float)
ATTENTION_BACKWARD_KEYS(attention_backward_keys_bf16, bf16)
