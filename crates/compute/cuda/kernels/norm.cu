// RMSNorm over whole rows or over the heads inside a row: crates/compute/kernels/src/norm.rs, with sums in 16 lanes. Storage f32 or bf16,
// f32 inside. Bound by memory.
#include "ahead.h"

#define THREADS 128
// Numbers, and their weights, that a lane loads before it stores results. For more, registers would not suffice.
#define BOTH_LOADED_AHEAD 8

// A half warp's group: its start in memory, and whether there is one.
struct Group {
  u64 at;
  bool exists;
};
DEVICE Group group_of(u64 i, u32 rows, u32 stride, u32 offset, u32 groups, u32 features) {
  Group group;
  group.exists = i < (u64)rows * groups;
  group.at = group.exists ? i / groups * stride + offset + i % groups * features : 0;
  return group;
}
DEVICE u64 half_warp() { return (u64)block_x() * (THREADS / LANES) + thread_index() / LANES; }

// y = x / rms(x) * (w + shift). Grid: 8 groups a block, a half warp each. Reads each number of x (twice, the second time from the cache),
// writes one of y.
template <typename T>
DEVICE void rms_norm(const T* x, const T* weight, T* y, u32 rows, u32 x_stride, u32 y_stride, u32 offset, u32 groups, u32 features,
                     float eps, float shift) {
  const u64 i = half_warp();
  const Group from = group_of(i, rows, x_stride, offset, groups, features);
  const Group to = group_of(i, rows, y_stride, offset, groups, features);
  const u32 mine = from.exists ? features : 0;
  const float scale = inverse_rms(x + from.at, mine, eps);
  ROLL for (u32 first = thread_index() % LANES; first < mine; first += LANES * BOTH_LOADED_AHEAD) {
    float v[BOTH_LOADED_AHEAD], w[BOTH_LOADED_AHEAD];
    UNROLL for (u32 k = 0; k < BOTH_LOADED_AHEAD; k++) {
      const u32 n = first + k * LANES, at = n < mine ? n : mine - 1;
      v[k] = load(x + from.at + at);
      w[k] = factor(load(weight + at), shift);
    }
    UNROLL for (u32 k = 0; k < BOTH_LOADED_AHEAD; k++) {
      const u32 n = first + k * LANES;
      if (n < mine) store(y + to.at + n, v[k] * scale * w[k]);
    }
  }
}
#define RMS_NORM(name, T)                                                                                                     \
  KERNEL(name, THREADS)(const T* x, const T* weight, T* y, u32 rows, u32 x_stride, u32 y_stride, u32 offset, u32 groups,          \
                        u32 features, float eps, float shift) {                                                                   \
    rms_norm(x, weight, y, rows, x_stride, y_stride, offset, groups, features, eps, shift);                                    \
  }                                                                                                                             \
  EXPORT(name)
RMS_NORM(rms_norm_f32, float)
RMS_NORM(rms_norm_bf16, bf16)

#define ROW_THREADS 256
// x += sums + bias with one rounding, and y = x / rms(x) * (w + shift): the end of a layer whose sums, [rows, features], are not
// rounded yet, and the norm behind it. Features and strides are multiples of 8, and rows lie at multiples of 16 bytes. Grid: a row a
// block. Dynamic shared memory: the row in bf16. Reads 6 bytes a number, writes 4.
KERNEL(add_and_norm, ROW_THREADS)(const float* sums, const bf16* bias, bf16* x, const bf16* weight, bf16* y, u32 features,
                                  u32 x_stride, u32 y_stride, float eps, float shift) {
  DYNAMIC_SHARED(memory);
  SHARED(float, of_row, [1]);
  bf16* const row = (bf16*)memory;
  sums += (u64)block_x() * features;
  x += (u64)block_x() * x_stride;
  y += (u64)block_x() * y_stride;
  for (u32 n = thread_index() * 4; n < features; n += ROW_THREADS * 4) {
    const Words2 four = finished(sums + n, bias ? bias + n : nullptr, x + n);
    store_words2(x + n, four);
    store_words2(row + n, four);
  }
  sync();
  if (warp_index() == 0) {
    const float scale = inverse_rms(row, features, eps);
    if (lane_index() == 0) of_row[0] = scale;
  }
  sync();
  const float scale = of_row[0];
  for (u32 n = thread_index() * 4; n < features; n += ROW_THREADS * 4) {
    float v[4];
    UNROLL for (u32 k = 0; k < 4; k++) v[k] = load(row + n + k) * scale * factor(load(weight + n + k), shift);
    store_words2(y + n, {{pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3])}});
  }
}
EXPORT(add_and_norm)

// The scale of each group, `[rows, groups]`, for both gradients. Grid: 8 groups a block. Reads each number of x.
template <typename T>
DEVICE void rms_norm_scales(const T* x, float* scales, u32 rows, u32 stride, u32 offset, u32 groups, u32 features, float eps) {
  const u64 i = half_warp();
  const Group group = group_of(i, rows, stride, offset, groups, features);
  const float scale = inverse_rms(x + group.at, group.exists ? features : 0, eps);
  if (group.exists && thread_index() % LANES == 0) scales[i] = scale;
}
#define RMS_NORM_SCALES(name, T)                                                                                           \
  KERNEL(name, THREADS)(const T* x, float* scales, u32 rows, u32 stride, u32 offset, u32 groups, u32 features, float eps) { \
    rms_norm_scales(x, scales, rows, stride, offset, groups, features, eps);                                               \
  }                                                                                                                         \
  EXPORT(name)
RMS_NORM_SCALES(rms_norm_scales_f32, float)
RMS_NORM_SCALES(rms_norm_scales_bf16, bf16)

// A step of a feature's chain.
struct alignas(8) Slope {
  float dy, normed;
};

// dw continues over rows, and over groups within a row, in order. Grid: 32 features a block. Reads each number of x and dy. A chain
// has a step for each group, so with few features latency bounds it, not bandwidth.
template <typename T>
DEVICE void rms_norm_weight_gradient(const T* x, const T* dy, const float* scales, float* dw, u32 rows, u32 x_stride, u32 dy_stride,
                                     u32 offset, u32 groups, u32 features) {
  if (rows == 0 || groups == 0) return;
  const u32 feature = block_x() * 32 + lane_index(), column = feature < features ? feature : features - 1;
  u32 row = first_step() / groups, group = first_step() % groups;
  const u32 rows_on = BRINGING / groups, groups_on = BRINGING % groups;
  const auto bring = [&]() -> Slope {
    const u64 from = row < rows ? row : rows - 1;
    const u32 at = offset + group * features + column;
    const float normed = load(x + from * x_stride + at) * scales[from * groups + group];
    const Slope slope = {load(dy + from * dy_stride + at), normed};
    row += rows_on;
    group += groups_on;
    if (group >= groups) {
      group -= groups;
      row += 1;
    }
    return slope;
  };
  const auto add = [](float sum, Slope slope) { return mul_add(slope.dy, slope.normed, sum); };
  const float sum = chain<Slope>(dw[column], (u64)rows * groups, bring, add);
  if (warp_index() == 0 && feature < features) dw[feature] = sum;
}
#define RMS_NORM_WEIGHT_GRADIENT(name, T)                                                                                     \
  KERNEL(name, CHAIN_THREADS)(const T* x, const T* dy, const float* scales, float* dw, u32 rows, u32 x_stride, u32 dy_stride, \
                              u32 offset, u32 groups, u32 features) {                                                          \
    rms_norm_weight_gradient(x, dy, scales, dw, rows, x_stride, dy_stride, offset, groups, features);                           \
  }                                                                                                                             \
  EXPORT(name)
RMS_NORM_WEIGHT_GRADIENT(rms_norm_weight_gradient_f32, float)
RMS_NORM_WEIGHT_GRADIENT(rms_norm_weight_gradient_bf16, bf16)

// With s = 1/rms, and w with the shift: d = s (w dy) - x s^3 mean(w dy x). It is added to dx, or replaces dx if dy is dx itself. Grid: 8 groups a block.
// Reads each number of x and dy (twice, the second time from the cache) and, if it adds, of dx; writes each of dx.
template <typename T>
DEVICE void rms_norm_input_gradient(const T* x, const T* weight, const T* dy, const float* scales, T* dx, u32 rows, u32 x_stride,
                                    u32 dy_stride, u32 dx_stride, u32 offset, u32 groups, u32 features, u32 adds,
                                    float shift) {
  const u64 i = half_warp();
  const Group at_x = group_of(i, rows, x_stride, offset, groups, features);
  const Group at_dy = group_of(i, rows, dy_stride, offset, groups, features);
  const Group at_dx = group_of(i, rows, dx_stride, offset, groups, features);
  const u32 mine = at_x.exists ? features : 0;
  const float scale = at_x.exists ? scales[i] : 0.0f;
  float dot = 0.0f;
  for (u32 n = thread_index() % LANES; n < mine; n += LANES) {
    dot = mul_add(factor(load(weight + n), shift) * load(dy + at_dy.at + n), load(x + at_x.at + n), dot);
  }
  const float pull = -divide(sum_lanes(dot), (float)features) * scale * scale * scale;
  for (u32 n = thread_index() % LANES; n < mine; n += LANES) {
    const float wd = factor(load(weight + n), shift) * load(dy + at_dy.at + n);
    const float d = mul_add(load(x + at_x.at + n), pull, wd * scale);
    T* out = dx + at_dx.at + n;
    store(out, adds ? load(out) + d : d);
  }
}
#define RMS_NORM_INPUT_GRADIENT(name, T)                                                                                       \
  KERNEL(name, THREADS)(const T* x, const T* weight, const T* dy, const float* scales, T* dx, u32 rows, u32 x_stride,              \
                        u32 dy_stride, u32 dx_stride, u32 offset, u32 groups, u32 features, u32 adds, float shift) {               \
    rms_norm_input_gradient(x, weight, dy, scales, dx, rows, x_stride, dy_stride, dx_stride, offset, groups, features, adds,    \
                            shift);                                                                                             \
  }                                                                                                                              \
  EXPORT(name)
RMS_NORM_INPUT_GRADIENT(rms_norm_input_gradient_f32, float)
RMS_NORM_INPUT_GRADIENT(rms_norm_input_gradient_bf16, bf16)
