// AdamW (Loshchilov and Hutter, arXiv:1711.05101) over several tensors in one launch, and the sums of squares of the gradient's
// norm: crates/compute/kernels/src/adamw.rs. Bound by memory.
#include "numbers.h"

// Numbers of a block of the norm, whose squares are summed together, and of an update's block.
#define NORM_BLOCK 4096
#define THREADS 256

// A tensor, as a launch gets it.
struct Tensor {
  u64 weights, rest, gradient, first, second;
  u64 numbers;
  // Blocks of all tensors before this one.
  u64 blocks_before;
};

// The last tensor that begins at this block or before it: all later tensors have more blocks before them.
DEVICE u32 tensor_of(const Tensor* tensors, u32 count, u64 block) {
  u32 low = 0, high = count;
  while (high - low > 1) {
    const u32 middle = (low + high) / 2;
    if (tensors[middle].blocks_before <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Sums of squares of each 4096 numbers of each tensor, in 16 partial sums. If `split`, numbers are weights in two parts. Grid: 8 of
// these blocks to a block, a half warp for each. Reads 4 bytes a number.
KERNEL(square_sums, 128)(const Tensor* tensors, u32 count, float* sums, u64 blocks, u32 split) {
  const u64 block = (u64)block_x() * 8 + thread_index() / LANES;
  float squares = 0.0f;
  if (block < blocks) {
    const Tensor tensor = tensors[tensor_of(tensors, count, block)];
    const u64 first = (block - tensor.blocks_before) * NORM_BLOCK;
    const u64 end = first + NORM_BLOCK < tensor.numbers ? first + NORM_BLOCK : tensor.numbers;
    for (u64 i = first + thread_index() % LANES; i < end; i += LANES) {
      const float v = split ? joined(((const bf16*)tensor.weights)[i], ((const u16*)tensor.rest)[i]) : ((const float*)tensor.weights)[i];
      squares = mul_add(v, v, squares);
    }
  }
  const float sum = sum_lanes(squares);
  if (block < blocks && thread_index() % LANES == 0) sums[block] = sum;
}
EXPORT(square_sums)

// One update, in place. Grid: 4096 numbers a block. Reads 16 bytes a number, writes 12.
KERNEL(adamw, THREADS)(const Tensor* tensors, u32 count, u32 split, float gradient_scale, float keep, float beta1, float take1,
                       float beta2, float take2, float root2, float eps, float rate) {
  const u64 block = block_x();
  const Tensor tensor = tensors[tensor_of(tensors, count, block)];
  const u64 start = (block - tensor.blocks_before) * NORM_BLOCK;
  const u64 end = start + NORM_BLOCK < tensor.numbers ? start + NORM_BLOCK : tensor.numbers;
  const float* gradient = (const float*)tensor.gradient;
  float* first = (float*)tensor.first;
  float* second = (float*)tensor.second;
  for (u64 i = start + thread_index(); i < end; i += THREADS) {
    const float g = gradient[i] * gradient_scale;
    const float m = mul_add(first[i], beta1, g * take1);
    const float v = mul_add(second[i], beta2, g * g * take2);
    first[i] = m;
    second[i] = v;
    // These come before other loads: divisions and roots are functions, and registers go to memory across their calls.
    const float step = divide(m, divide(square_root(v), root2) + eps);
    if (split) {
      bf16* upper = (bf16*)tensor.weights + i;
      u16* rest = (u16*)tensor.rest + i;
      const float w = joined(*upper, *rest) * keep;
      const u32 image = settled_image(bits_of(mul_add(step, rate, w)));
      upper->bits = upper_half(image);
      *rest = rest_of(image);
    } else {
      float* weights = (float*)tensor.weights + i;
      *weights = mul_add(step, rate, *weights * keep);
    }
  }
}
EXPORT(adamw)
