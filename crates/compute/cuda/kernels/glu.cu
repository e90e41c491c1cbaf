// Gated linear units and gates of attention's output: crates/compute/kernels/src/glu.rs and output_gate.rs. Bound by memory.
#include "numbers.h"

#define PER_THREAD 4
#define THREADS 256
#define EACH(i, count)                                                                               \
  for (u64 i = (u64)block_x() * (THREADS * PER_THREAD) + thread_index(), i##_end_ = i + THREADS * PER_THREAD; \
       i < i##_end_ && i < (count); i += THREADS)

// y = f(gate) * up. Grid: 1024 numbers of y a block. Reads two numbers, writes one.
template <typename T>
DEVICE void glu(const T* gate_up, T* y, u32 rows, u32 features, u32 stride, u32 y_stride, u32 is_gelu) {
  EACH(i, (u64)rows * features) {
    const Cell cell = cell_of(i, features);
    const u64 row = cell.row, n = cell.column;
    const T* gate = gate_up + row * stride + n;
    store(y + row * y_stride + n, gated(load(gate), load(gate + features), is_gelu));
  }
}
KERNEL(glu_f32, THREADS)(const float* gate_up, float* y, u32 rows, u32 features, u32 stride, u32 y_stride, u32 is_gelu) {
  glu(gate_up, y, rows, features, stride, y_stride, is_gelu);
}
KERNEL(glu_bf16, THREADS)(const bf16* gate_up, bf16* y, u32 rows, u32 features, u32 stride, u32 y_stride, u32 is_gelu) {
  glu(gate_up, y, rows, features, stride, y_stride, is_gelu);
}
EXPORT(glu_f32)
EXPORT(glu_bf16)

// Replaces gate_up by its gradient, and dy by the forward pass's y: f(g) = g s, f'(g) = s (1 + g u' (1 - s)), s = sigmoid(u(g)).
// Grid: 1024 numbers of dy a block. Reads and writes three numbers.
template <typename T>
DEVICE void glu_backward(T* dy, T* gate_up, u32 rows, u32 features, u32 stride, u32 dy_stride, u32 is_gelu) {
  EACH(i, (u64)rows * features) {
    const Cell cell = cell_of(i, features);
    const u64 row = cell.row, n = cell.column;
    T* gate = gate_up + row * stride + n;
    T* up = gate + features;
    T* y = dy + row * dy_stride + n;
    const float g = load(gate), u = load(up), d = load(y);
    const Argument of_g = argument_of(g, is_gelu);
    const float s = sigmoid(of_g.u), by = g * s;
    const float slope = s * mul_add(g * of_g.slope, 1.0f - s, 1.0f);
    store(y, by * u);
    store(gate, d * u * slope);
    store(up, d * by);
  }
}
KERNEL(glu_backward_f32, THREADS)(float* dy, float* gate_up, u32 rows, u32 features, u32 stride, u32 dy_stride, u32 is_gelu) {
  glu_backward(dy, gate_up, rows, features, stride, dy_stride, is_gelu);
}
KERNEL(glu_backward_bf16, THREADS)(bf16* dy, bf16* gate_up, u32 rows, u32 features, u32 stride, u32 dy_stride, u32 is_gelu) {
  glu_backward(dy, gate_up, rows, features, stride, dy_stride, is_gelu);
}
EXPORT(glu_backward_f32)
EXPORT(glu_backward_bf16)

// y = x * sigmoid(gate). Grid: 1024 numbers a block. Reads two numbers, writes one.
template <typename T>
DEVICE void gate_output(const T* x, const T* gate, T* y, u32 rows, u32 features, u32 stride) {
  EACH(i, (u64)rows * features) {
    const Cell cell = cell_of(i, features);
    const u64 at = (u64)cell.row * stride + cell.column;
    store(y + at, load(x + at) * sigmoid(load(gate + at)));
  }
}
KERNEL(gate_output_f32, THREADS)(const float* x, const float* gate, float* y, u32 rows, u32 features, u32 stride) {
  gate_output(x, gate, y, rows, features, stride);
}
KERNEL(gate_output_bf16, THREADS)(const bf16* x, const bf16* gate, bf16* y, u32 rows, u32 features, u32 stride) {
  gate_output(x, gate, y, rows, features, stride);
}
EXPORT(gate_output_f32)
EXPORT(gate_output_bf16)

// Replaces the gate by its gradient, and dy by that of x. Grid: 1024 numbers a block. Reads three numbers, writes two.
template <typename T>
DEVICE void gate_output_backward(const T* x, T* gate, T* dy, u32 rows, u32 features, u32 stride) {
  EACH(i, (u64)rows * features) {
    const Cell cell = cell_of(i, features);
    const u64 at = (u64)cell.row * stride + cell.column;
    const float s = sigmoid(load(gate + at)), d = load(dy + at);
    store(gate + at, d * load(x + at) * (s * (1.0f - s)));
    store(dy + at, d * s);
  }
}
KERNEL(gate_output_backward_f32, THREADS)(const float* x, float* gate, float* dy, u32 rows, u32 features, u32 stride) {
  gate_output_backward(x, gate, dy, rows, features, stride);
}
KERNEL(gate_output_backward_bf16, THREADS)(const bf16* x, bf16* gate, bf16* dy, u32 rows, u32 features, u32 stride) {
  gate_output_backward(x, gate, dy, rows, features, stride);
}
EXPORT(gate_output_backward_f32)
EXPORT(gate_output_backward_bf16)
