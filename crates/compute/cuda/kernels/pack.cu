// Parameters between the host's rows, `[rows, inputs]` in f32, and the order and type of buffers: `Linear::pack` and
// `Linear::unpack` of crates/compute/kernels/src/linear/mod.rs. Bound by memory: 4 bytes on either side of each number.
#include "numbers.h"

#define THREADS 256

// Packs f32, in panels or row by row. Grid: 256 numbers a block.
KERNEL(pack_exact, THREADS)(const float* rows, float* packed, u32 first, u32 count, u32 inputs, u32 outputs, u32 stride) {
  const u64 i = (u64)block_x() * THREADS + thread_index();
  if (i >= (u64)count * inputs) return;
  const u32 row = (u32)(i / inputs), input = (u32)(i % inputs);
  packed[weight_at(first + row, input, inputs, outputs, stride)] = rows[i];
}
EXPORT(pack_exact)

// Its inverse.
KERNEL(unpack_exact, THREADS)(const float* packed, float* rows, u32 first, u32 count, u32 inputs, u32 outputs, u32 stride) {
  const u64 i = (u64)block_x() * THREADS + thread_index();
  if (i >= (u64)count * inputs) return;
  const u32 row = (u32)(i / inputs), input = (u32)(i % inputs);
  rows[i] = packed[weight_at(first + row, input, inputs, outputs, stride)];
}
EXPORT(unpack_exact)

// Packs a bf16 and, unless it is null, the rest of each number, row by row. Grid: 256 numbers a block.
KERNEL(pack_split, THREADS)(const float* rows, bf16* upper, u16* rest, u64 first, u32 count, u32 inputs, u32 stride) {
  const u64 i = (u64)block_x() * THREADS + thread_index();
  if (i >= (u64)count * inputs) return;
  const u64 at = (first + i / inputs) * stride + i % inputs;
  const u32 image = settled_image(bits_of(rows[i]));
  upper[at].bits = upper_half(image);
  if (rest) rest[at] = rest_of(image);
}
EXPORT(pack_split)

// Its inverse.
KERNEL(unpack_split, THREADS)(const bf16* upper, const u16* rest, float* rows, u64 first, u32 count, u32 inputs, u32 stride) {
  const u64 i = (u64)block_x() * THREADS + thread_index();
  if (i >= (u64)count * inputs) return;
  const u64 at = (first + i / inputs) * stride + i % inputs;
  rows[i] = joined(upper[at], rest ? rest[at] : 0);
}
EXPORT(unpack_split)
