// Causal grouped-query attention over a paged cache, forward, and the kernels that fill the cache:
// crates/compute/kernels/src/attention. A score is one chain over head_dim. The softmax first takes the true maximum; its sum goes
// into 16 partial sums by position. An output is one chain over the keys in order. Storage is f32 or bf16, arithmetic f32. The
// tensor core is not used: bound by arithmetic on the CUDA cores, 6 head_dim FLOP per query and key (scores are computed twice).
//
// A page of a layer is keys [kv heads, 16, head_dim], then values likewise.
#include "numbers.h"

#define PAGE 16
// Rows of a block (pairs of a token and a head of the group), one a warp; and keys in shared memory at a time, one a lane.
#define ROWS 8
#define KEYS 32
#define THREADS (ROWS * 32)
// The most features of a head, in widths of a warp.
#define CHUNKS 8

DEVICE u32 first_visible(u32 position, u32 window) { return window && position + 1 > window ? position + 1 - window : 0; }

// The address of a number of queries, keys or values: in its row and, for keys and values, in the cache.
template <typename T>
struct Places {
  T *in_row, *in_cache;
};
template <typename T>
DEVICE void put(Places<T> to, u32 feature, T number) {
  if (to.in_row) to.in_row[feature] = number;
  if (to.in_cache) to.in_cache[feature] = number;
}

// Makes a layer's product ready for attention. Heads of queries and keys are normed if there are weights, and turned if there are
// angles; keys and values of rows go to their slots (16 page + position in it), if they have one. Rows are in `qkv`, or in `raw` if
// that is another memory; without angles they are only stored. Between norm and angle, numbers are rounded as in memory. Grid: 8
// heads a block, a half warp each. Reads each number (twice if heads are normed, the second time from the cache), writes it to its
// row and, for keys and values, to the cache.
template <typename T>
DEVICE void prepare_qkv(const T* raw, T* qkv, const T* query_norm, const T* key_norm, const float* cos, const float* sin,
                        const u32* positions, const u32* rows, const u32* slots, T* layer, u32 count, u32 heads, u32 kv_heads,
                        u32 head_dim, u32 stride, float eps, float shift) {
  const u32 all = heads + 2 * kv_heads, lane = thread_index() % LANES;
  const u64 i = (u64)block_x() * (128 / LANES) + thread_index() / LANES;
  const bool exists = i < (u64)count * all;
  const u32 n = exists ? (u32)(i / all) : 0, head = (u32)(i % all), row = rows[n], slot = slots[n];
  const u64 at = (u64)row * stride + head * head_dim;
  const T* from = raw + at;
  const bool is_value = head >= heads + kv_heads;
  const T* norm = is_value ? nullptr : head < heads ? query_norm : key_norm;
  const float scale = inverse_rms(from, exists && norm ? head_dim : 0, eps);
  if (!exists) return;
  Places<T> to = {raw == qkv && (is_value || !cos) ? nullptr : qkv + at, nullptr};
  if (head >= heads && slot != NO_SLOT) {
    const u64 page = (u64)(slot / PAGE) * PAGE * (2 * kv_heads * head_dim);
    to.in_cache = layer + page + ((u64)(head - heads) * PAGE + slot % PAGE) * head_dim;
  }
  if (is_value || !cos) {
    for (u32 feature = lane; feature < head_dim; feature += LANES) put(to, feature, from[feature]);
    return;
  }
  const u32 half = head_dim / 2;
  const u64 angles = (u64)positions[row] * half;
  for (u32 feature = lane; feature < half; feature += LANES) {
    T first = from[feature], second = from[feature + half];
    if (norm) {
      store(&first, load(&first) * scale * factor(load(norm + feature), shift));
      store(&second, load(&second) * scale * factor(load(norm + feature + half), shift));
    }
    const Turned pair = turned(load(&first), load(&second), cos[angles + feature], sin[angles + feature]);
    store(&first, pair.first);
    store(&second, pair.second);
    put(to, feature, first);
    put(to, feature + half, second);
  }
}
#define PREPARE_QKV(name, T)                                                                                                      \
  KERNEL(name, 128)(const T* raw, T* qkv, const T* query_norm, const T* key_norm, const float* cos, const float* sin,               \
                    const u32* positions, const u32* rows, const u32* slots, T* layer, u32 count, u32 heads, u32 kv_heads,          \
                    u32 head_dim, u32 stride, float eps, float shift) {                                                             \
    prepare_qkv(raw, qkv, query_norm, key_norm, cos, sin, positions, rows, slots, layer, count, heads, kv_heads, head_dim, stride, \
                eps, shift);                                                                                                     \
  }                                                                                                                               \
  EXPORT(name)
PREPARE_QKV(prepare_qkv_f32, float)
PREPARE_QKV(prepare_qkv_bf16, bf16)

// Copies pages (from, to) in every layer. Grid: x 256 words of a page a block, y pairs, z layers. Reads and writes 4 bytes a word.
KERNEL(copy_pages, 256)(u32* cache, const u32* pairs, u64 page_words, u64 layer_words) {
  const u64 i = (u64)block_x() * 256 + thread_index();
  if (i >= page_words) return;
  u32* layer = cache + block_z() * layer_words;
  layer[pairs[2 * block_y() + 1] * page_words + i] = layer[pairs[2 * block_y()] * page_words + i];
}
EXPORT(copy_pages)

// Rows of a block: pairs of a run, numbered token by token and within a token head by head. A tile without rows does nothing.
struct Tile {
  // The run's first row, its position and its number of rows, the index of its first page, and the first pair.
  u32 row, position, len, pages, first;
};

// Grid: x tiles, y key-value heads. Dynamic shared memory: keys [32, head_dim + 1], values [32, head_dim], queries [8, head_dim],
// weights [8, 32], in f32. Reads the keys of a tile's rows twice and their values once per tile; writes each output once.
template <typename T>
DEVICE void attention(const T* qkv, const T* layer, const Tile* tiles, const u32* pages, T* out, u32 heads, u32 kv_heads,
                      u32 head_dim, u32 window, float scale, u32 stride, u32 out_stride) {
  DYNAMIC_SHARED(memory);
  float* keys = (float*)memory;
  float* values = keys + KEYS * (head_dim + 1);
  float* queries = values + KEYS * head_dim;
  float* weights = queries + ROWS * head_dim;
  const Tile tile = tiles[block_x()];
  if (tile.len == 0) return;
  const u32 kv_head = block_y(), group = heads / kv_heads, pairs = tile.len * group, warp = warp_index(), lane = lane_index();
  const u32 pair = tile.first + warp, position = tile.position + pair / group;
  const bool exists = pair < pairs;
  const u32 last = tile.first + ROWS < pairs ? tile.first + ROWS - 1 : pairs - 1;
  const u32 from = first_visible(tile.position + tile.first / group, window) / LANES * LANES;
  const u32 to = tile.position + last / group + 1;
  const u32 visible_from = first_visible(position, window), visible_to = exists ? position + 1 : 0;
  const u64 page_numbers = (u64)2 * kv_heads * PAGE * head_dim;

  for (u32 i = thread_index(); i < ROWS * head_dim; i += THREADS) {
    const u32 of = tile.first + i / head_dim;
    const u32 feature = (kv_head * group + of % group) * head_dim + i % head_dim;
    queries[i] = of < pairs ? load(qkv + (u64)(tile.row + of / group) * stride + feature) : 0.0f;
  }
  float largest = -infinity(), sum = 0.0f, result[CHUNKS];
  UNROLL for (u32 c = 0; c < CHUNKS; c++) result[c] = 0.0f;
  // The maximum comes first, then weights, their sum and the result.
  for (u32 pass = 0; pass < 2; pass++) {
    for (u32 base = from; base < to; base += KEYS) {
      sync();
      for (u32 i = thread_index(); i < KEYS * head_dim; i += THREADS) {
        const u32 key = i / head_dim, feature = i % head_dim, at = base + key;
        float k = 0.0f, v = 0.0f;
        if (at < to) {
          const T* page = layer + pages[tile.pages + at / PAGE] * page_numbers;
          const u64 place = ((u64)kv_head * PAGE + at % PAGE) * head_dim + feature;
          k = load(page + place);
          if (pass == 1) v = load(page + page_numbers / 2 + place);
        }
        keys[key * (head_dim + 1) + feature] = k;
        values[i] = v;
      }
      sync();
      const u32 at = base + lane;
      const bool visible = at >= visible_from && at < visible_to;
      float score = 0.0f;
      if (visible) {
        for (u32 d = 0; d < head_dim; d++) score = mul_add(queries[warp * head_dim + d], keys[lane * (head_dim + 1) + d], score);
      }
      const float z = score * scale;
      if (pass == 0) {
        if (visible) largest = larger(largest, z);
      } else {
        const float weight = visible ? exponential(z - largest) : 0.0f;
        weights[warp * KEYS + lane] = weight;
        // Lane i has partial sum i: its own key's weight, then that of the key 16 positions on.
        const float next = shuffle_xor(weight, 16);
        if (lane < LANES) sum = sum + weight + next;
        sync_warp();
        const u32 begin = visible_from > base ? visible_from - base : 0;
        const u32 rest = visible_to > base ? visible_to - base : 0, end = rest < KEYS ? rest : KEYS;
        UNROLL for (u32 c = 0; c < CHUNKS; c++) {
          const u32 d = c * 32 + lane;
          if (d < head_dim) {
            for (u32 key = begin; key < end; key++) {
              result[c] = mul_add(weights[warp * KEYS + key], values[key * head_dim + d], result[c]);
            }
          }
        }
      }
    }
    if (pass == 0) {
      for (u32 distance = 16; distance > 0; distance /= 2) largest = larger(largest, shuffle_xor(largest, distance));
    }
  }
  sum = shuffle(sum_lanes(sum), 0);
  UNROLL for (u32 c = 0; c < CHUNKS; c++) {
    const u32 d = c * 32 + lane;
    if (exists && d < head_dim) {
      const u32 head = kv_head * group + pair % group;
      store(out + (u64)(tile.row + pair / group) * out_stride + head * head_dim + d, divide(result[c], sum));
    }
  }
}
#define ATTENTION(name, T)                                                                                                       \
  KERNEL(name, THREADS)(const T* qkv, const T* layer, const Tile* tiles, const u32* pages, T* out, u32 heads, u32 kv_heads,          \
                        u32 head_dim, u32 window, float scale, u32 stride, u32 out_stride) {                                         \
    attention(qkv, layer, tiles, pages, out, heads, kv_heads, head_dim, window, scale, stride, out_stride);                       \
  }                                                                                                                                \
  EXPORT(name)
ATTENTION(attention_f32, float)
ATTENTION(attention_bf16, bf16)
