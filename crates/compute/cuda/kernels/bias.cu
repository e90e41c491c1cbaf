// The gradient of biases: `backward_bias` of crates/compute/kernels/src/linear/weight_gradient.rs.
#include "ahead.h"

// db += sum of dy over tokens, one after another; sums continue from db. Grid: 32 outputs a block. Reads each number of dy once.
// The chain has a step for each token, so with few outputs latency bounds it, not bandwidth.
template <typename T>
DEVICE void bias_gradient(const T* dy, float* db, u32 tokens, u32 outputs, u32 stride) {
  if (tokens == 0) return;
  const u32 output = block_x() * 32 + lane_index(), column = output < outputs ? output : outputs - 1;
  u32 next = first_step();
  const auto bring = [&] {
    const u32 token = next < tokens ? next : tokens - 1;
    next += BRINGING;
    return load(dy + (u64)token * stride + column);
  };
  const float sum = chain<float>(db[column], tokens, bring, [](float sum, float number) { return sum + number; });
  if (warp_index() == 0 && output < outputs) db[output] = sum;
}
KERNEL(bias_gradient_f32, CHAIN_THREADS)(const float* dy, float* db, u32 tokens, u32 outputs, u32 stride) {
  bias_gradient(dy, db, tokens, outputs, stride);
}
KERNEL(bias_gradient_bf16, CHAIN_THREADS)(const bf16* dy, float* db, u32 tokens, u32 outputs, u32 stride) {
  bias_gradient(dy, db, tokens, outputs, stride);
}
EXPORT(bias_gradient_f32)
EXPORT(bias_gradient_bf16)
