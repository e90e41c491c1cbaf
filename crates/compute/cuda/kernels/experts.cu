// Mixtures of experts, as in crates/compute/kernels/src/experts.rs, to the last bit in f32. Experts multiply by the kernels of linear
// layers.
#include "numbers.h"

#define THREADS 256
#define PER_THREAD 4
#define WARP 32

// Calls body with the index of each of this thread's elements, a block's width apart.
#define EACH(i, count)                                                                                               \
  for (u64 i = (u64)block_x() * (THREADS * PER_THREAD) + thread_index(), i##_end_ = i + THREADS * PER_THREAD;       \
       i < i##_end_ && i < (count); i += THREADS)

// Orders probabilities, which are not negative, by their bits. All NaN are equal.
DEVICE u32 order_of(float p) { return p != p ? 0x7fc00000u : bits_of(p); }

// Replaces each row of logits by its softmax, and chooses the likeliest experts, of equally likely ones those with lower numbers:
// their numbers, ascending, and weights, [tokens, chosen]; and the entropy of each softmax, [tokens]. `ranked` is as large, and holds them from the likeliest down. Grid: a
// token a block of one warp. Compares all pairs of a row, which is a few thousand comparisons for a hundred experts: next to
// nothing beside a token's products.
KERNEL(route_experts, WARP)(float* logits, u32* ranked, u32* chosen_experts, float* weights, float* entropies, u32 experts,
                            u32 chosen, u32 normalised) {
  const u32 lane = lane_index();
  float* const row = logits + (u64)block_x() * experts;
  u32* const by_rank = ranked + (u64)block_x() * chosen;
  u32* const to = chosen_experts + (u64)block_x() * chosen;
  float* const weight = weights + (u64)block_x() * chosen;

  float largest = -infinity();
  for (u32 i = lane; i < experts; i += WARP) largest = larger(row[i], largest);
  for (u32 distance = WARP / 2; distance > 0; distance /= 2) largest = larger(shuffle_xor(largest, distance), largest);
  float product = 0.0f;
  for (u32 i = lane % LANES; i < experts; i += LANES) {
    const float d = row[i] - largest;
    product = mul_add(exponential(d), d, product);
  }
  product = sum_lanes(product);
  sync_warp();
  for (u32 i = lane; i < experts; i += WARP) row[i] = exponential(row[i] - largest);
  sync_warp();
  float sum = 0.0f;
  for (u32 i = lane % LANES; i < experts; i += LANES) sum += row[i];
  sum = sum_lanes(sum);
  if (lane == 0) entropies[block_x()] = logarithm(sum) - divide(product, sum);
  sync_warp();
  for (u32 i = lane; i < experts; i += WARP) row[i] = divide(row[i], sum);
  sync_warp();

  for (u32 i = lane; i < experts; i += WARP) {
    const u32 mine = order_of(row[i]);
    u32 likelier = 0;
    for (u32 j = 0; j < experts; j++) {
      const u32 other = order_of(row[j]);
      likelier += other > mine || (other == mine && j < i) ? 1 : 0;
    }
    if (likelier < chosen) by_rank[likelier] = i;
  }
  sync_warp();
  for (u32 k = lane; k < chosen; k += WARP) {
    const u32 expert = by_rank[k];
    u32 place = 0;
    for (u32 other = 0; other < chosen; other++) place += by_rank[other] < expert ? 1 : 0;
    to[place] = expert;
  }
  sync_warp();
  float total = 1.0f;
  if (normalised) {
    total = 0.0f;
    for (u32 k = 0; k < chosen; k++) total += row[to[k]];
  }
  for (u32 k = lane; k < chosen; k += WARP) {
    const float p = row[to[k]];
    weight[k] = normalised ? divide(p, total) : p;
  }
}
EXPORT(route_experts)

// The gradient of the logits from the softmax and the derivatives by the weights of the chosen experts. Grid: a token a block of one
// warp. Reads 4 bytes of each probability, and writes a number.
template <typename T>
DEVICE void route_backward(const float* probabilities, const u32* chosen_experts, const float* weights, const float* d_weights,
                           T* d_logits, u32 experts, u32 chosen, u32 stride, u32 normalised) {
  const u64 token = block_x();
  const u32* const to = chosen_experts + token * chosen;
  const float* const weight = weights + token * chosen;
  const float* const d = d_weights + token * chosen;
  float mean = 0.0f;
  for (u32 k = 0; k < chosen; k++) mean += weight[k] * d[k];
  // Divided by their sum, weights are a softmax of the chosen experts alone.
  const float others = normalised ? 0.0f : mean;
  for (u32 i = lane_index(); i < experts; i += WARP) {
    float gradient = probabilities[token * experts + i] * -others;
    for (u32 k = 0; k < chosen; k++) {
      if (to[k] == i) gradient = weight[k] * (d[k] - mean);
    }
    store(d_logits + token * stride + i, gradient);
  }
}
#define ROUTE_BACKWARD(name, T)                                                                                                    \
  KERNEL(name, WARP)(const float* probabilities, const u32* chosen_experts, const float* weights, const float* d_weights, T* d_logits, \
                     u32 experts, u32 chosen, u32 stride, u32 normalised) {                                                        \
    route_backward(probabilities, chosen_experts, weights, d_weights, d_logits, experts, chosen, stride, normalised);              \
  }                                                                                                                                \
  EXPORT(name)
ROUTE_BACKWARD(route_backward_f32, float)
ROUTE_BACKWARD(route_backward_bf16, bf16)

// sums[rows ? rows[i] : i] += (weights ? weights[i] : 1) from[i], for distinct rows. Grid: 1024 numbers a block. Reads a number and
// 4 bytes, and writes 4.
template <typename T>
DEVICE void add_weighted_rows(const T* from, const u32* rows, const float* weights, float* sums, u32 count, u32 features,
                              u32 from_stride, u32 to_stride) {
  EACH(i, (u64)count * features) {
    const Cell cell = cell_of(i, features);
    float* const to = sums + (u64)(rows ? rows[cell.row] : cell.row) * to_stride + cell.column;
    *to = mul_add(weights ? weights[cell.row] : 1.0f, load(from + (u64)cell.row * from_stride + cell.column), *to);
  }
}
#define ADD_WEIGHTED_ROWS(name, T)                                                                                            \
  KERNEL(name, THREADS)(const T* from, const u32* rows, const float* weights, float* sums, u32 count, u32 features,           \
                        u32 from_stride, u32 to_stride) {                                                                     \
    add_weighted_rows(from, rows, weights, sums, count, features, from_stride, to_stride);                                    \
  }                                                                                                                           \
  EXPORT(name)
ADD_WEIGHTED_ROWS(add_weighted_rows_f32, float)
ADD_WEIGHTED_ROWS(add_weighted_rows_bf16, bf16)

// x[i] *= weights[i]. Grid: 1024 numbers a block. Reads and writes a number.
template <typename T>
DEVICE void weigh_rows(const float* weights, T* x, u32 count, u32 features, u32 stride) {
  EACH(i, (u64)count * features) {
    const Cell cell = cell_of(i, features);
    T* const at = x + (u64)cell.row * stride + cell.column;
    store(at, load(at) * weights[cell.row]);
  }
}
KERNEL(weigh_rows_f32, THREADS)(const float* weights, float* x, u32 count, u32 features, u32 stride) {
  weigh_rows(weights, x, count, features, stride);
}
KERNEL(weigh_rows_bf16, THREADS)(const float* weights, bf16* x, u32 count, u32 features, u32 stride) {
  weigh_rows(weights, x, count, features, stride);
}
EXPORT(weigh_rows_f32)
EXPORT(weigh_rows_bf16)

// products[places[i]] = the scalar product of row i of a with that of b. Grid: 8 rows a block, a half warp each. Reads two numbers.
template <typename T>
DEVICE void row_products(const T* a, const T* b, const u32* places, float* products, u32 count, u32 features, u32 a_stride,
                         u32 b_stride) {
  const u32 row = block_x() * (128 / LANES) + thread_index() / LANES;
  const u32 mine = row < count ? features : 0;
  const T* const of_a = a + (u64)(mine ? row : 0) * a_stride;
  const T* const of_b = b + (u64)(mine ? row : 0) * b_stride;
  float sum = 0.0f;
  for (u32 i = thread_index() % LANES; i < mine; i += LANES) sum = mul_add(load(of_a + i), load(of_b + i), sum);
  sum = sum_lanes(sum);
  if (mine && thread_index() % LANES == 0) products[places[row]] = sum;
}
#define ROW_PRODUCTS(name, T)                                                                                                  \
  KERNEL(name, 128)(const T* a, const T* b, const u32* places, float* products, u32 count, u32 features, u32 a_stride,          \
                    u32 b_stride) {                                                                                             \
    row_products(a, b, places, products, count, features, a_stride, b_stride);                                                  \
  }                                                                                                                             \
  EXPORT(name)
ROW_PRODUCTS(row_products_f32, float)
ROW_PRODUCTS(row_products_bf16, bf16)
