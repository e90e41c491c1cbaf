// SwiGLU: crates/compute/kernels/src/swiglu.rs. Bound by memory.
#include "numbers.h"

#define PER_THREAD 4
#define THREADS 256
#define EACH(i, count)                                                                               \
  for (u64 i = (u64)block_x() * (THREADS * PER_THREAD) + thread_index(), i##_end_ = i + THREADS * PER_THREAD; \
       i < i##_end_ && i < (count); i += THREADS)

// y = silu(gate) * up. Grid: 1024 numbers of y a block. Reads two numbers, writes one.
template <typename T>
DEVICE void swiglu(const T* gate_up, T* y, u32 rows, u32 features, u32 stride, u32 y_stride) {
  EACH(i, (u64)rows * features) {
    const Cell cell = cell_of(i, features);
    const u64 row = cell.row, n = cell.column;
    const T* gate = gate_up + row * stride + n;
    store(y + row * y_stride + n, gated(load(gate), load(gate + features)));
  }
}
KERNEL(swiglu_f32, THREADS)(const float* gate_up, float* y, u32 rows, u32 features, u32 stride, u32 y_stride) {
  swiglu(gate_up, y, rows, features, stride, y_stride);
}
KERNEL(swiglu_bf16, THREADS)(const bf16* gate_up, bf16* y, u32 rows, u32 features, u32 stride, u32 y_stride) {
  swiglu(gate_up, y, rows, features, stride, y_stride);
}
EXPORT(swiglu_f32)
EXPORT(swiglu_bf16)

// Replaces gate_up by its gradient, and dy by the forward pass's y: silu(g) = g s, silu'(g) = s (1 + g (1 - s)), s = sigmoid(g).
// Grid: 1024 numbers of dy a block. Reads and writes three numbers.
template <typename T>
DEVICE void swiglu_backward(T* dy, T* gate_up, u32 rows, u32 features, u32 stride, u32 dy_stride) {
  EACH(i, (u64)rows * features) {
    const Cell cell = cell_of(i, features);
    const u64 row = cell.row, n = cell.column;
    T* gate = gate_up + row * stride + n;
    T* up = gate + features;
    T* y = dy + row * dy_stride + n;
    const float g = load(gate), u = load(up), d = load(y);
    const float s = sigmoid(g), silu = g * s;
    const float slope = s * mul_add(g, 1.0f - s, 1.0f);
    store(y, silu * u);
    store(gate, d * u * slope);
    store(up, d * silu);
  }
}
KERNEL(swiglu_backward_f32, THREADS)(float* dy, float* gate_up, u32 rows, u32 features, u32 stride, u32 dy_stride) {
  swiglu_backward(dy, gate_up, rows, features, stride, dy_stride);
}
KERNEL(swiglu_backward_bf16, THREADS)(bf16* dy, bf16* gate_up, u32 rows, u32 features, u32 stride, u32 dy_stride) {
  swiglu_backward(dy, gate_up, rows, features, stride, dy_stride);
}
EXPORT(swiglu_backward_f32)
EXPORT(swiglu_backward_bf16)
