#include "device.h"

template <typename T>
DEVICE void scale(const T* x, T* y, u32 n, float by) {
  const u32 i = block_x() * block_threads() + thread_index();
  if (i < n) store(y + i, load(x + i) * by);
}
KERNEL(scale_f32, 128)(const float* x, float* y, u32 n, float by) { scale(x, y, n, by); }
KERNEL(scale_bf16, 128)(const bf16* x, bf16* y, u32 n, float by) { scale(x, y, n, by); }
EXPORT(scale_f32)
EXPORT(scale_bf16)

// Each block reverses its 128 numbers through shared memory, and adds the sum of its thread's warp.
KERNEL(reverse, 128)(const float* x, float* y) {
  SHARED(float, tile, [128]);
  const u32 t = thread_index();
  const u64 at = (u64)block_x() * 128;
  tile[t] = x[at + t];
  sync();
  float sum = tile[127 - t];
  for (u32 mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  y[at + t] = tile[127 - t] + sum;
}
EXPORT(reverse)

// Waits n times.
KERNEL(wait, 1024)(u32 n) {
  for (u32 i = 0; i < n; i++) sync();
}
EXPORT(wait)
