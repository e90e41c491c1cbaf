// Rotary position embedding, in place: crates/compute/kernels/src/rope.rs. Bound by memory.
#include "numbers.h"

#define THREADS 256

// Turns the pairs (x[i], x[i + half]) of each head by the angle of the row's position. Grid: 256 pairs a block. Reads and writes
// two numbers a pair; cosines and sines, 8 bytes a pair, come from the cache for all heads of a row but the first.
template <typename T>
DEVICE void rope(T* x, const float* cos, const float* sin, const u32* positions, u32 rows, u32 stride, u32 offset, u32 groups,
                 u32 half, float sign) {
  const u64 i = (u64)block_x() * THREADS + thread_index();
  if (i >= (u64)rows * groups * half) return;
  const u32 n = (u32)(i % half), group = (u32)(i / half % groups);
  const u64 row = i / half / groups;
  const u64 angle = (u64)positions[row] * half + n;
  T* first = x + row * stride + offset + group * (2 * half) + n;
  T* second = first + half;
  const Turned pair = turned(load(first), load(second), cos[angle], sin[angle] * sign);
  store(first, pair.first);
  store(second, pair.second);
}
#define ROPE(name, T)                                                                                                      \
  KERNEL(name, THREADS)(T* x, const float* cos, const float* sin, const u32* positions, u32 rows, u32 stride, u32 offset,       \
                        u32 groups, u32 half, float sign) {                                                                      \
    rope(x, cos, sin, positions, rows, stride, offset, groups, half, sign);                                                 \
  }                                                                                                                          \
  EXPORT(name)
ROPE(rope_f32, float)
ROPE(rope_bf16, bf16)
