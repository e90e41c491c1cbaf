// The gradient of biases: `backward_bias` of crates/kernels/src/linear/weight_gradient.rs.
#include "numbers.h"

// db += sum of dy over tokens, one after another, going on from what db holds. Grid: 32 outputs a block, a warp. Reads each number of
// dy once; its chain is as long as there are tokens, so that latency, not bandwidth, bounds it where outputs are few.
template <typename T>
DEVICE void bias_gradient(const T* dy, float* db, u32 tokens, u32 outputs, u32 stride) {
  const u32 output = block_x() * 32 + thread_index();
  if (output >= outputs) return;
  float sum = db[output];
  for (u32 token = 0; token < tokens; token++) sum += load(dy + (u64)token * stride + output);
  db[output] = sum;
}
KERNEL(bias_gradient_f32, 32)(const float* dy, float* db, u32 tokens, u32 outputs, u32 stride) {
  bias_gradient(dy, db, tokens, outputs, stride);
}
KERNEL(bias_gradient_bf16, 32)(const bf16* dy, float* db, u32 tokens, u32 outputs, u32 stride) {
  bias_gradient(dy, db, tokens, outputs, stride);
}
EXPORT(bias_gradient_f32)
EXPORT(bias_gradient_bf16)
