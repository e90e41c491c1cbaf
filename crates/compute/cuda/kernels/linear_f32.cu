// Linear layers with f32 storage: every output is one chain of fused multiply-adds, as on the CPU
// (crates/compute/kernels/src/linear), on weights in its panels. No tensor core does that. Tiles of x or dy go through shared
// memory; neighbouring threads read weights from neighbouring addresses. Bound by arithmetic: 2 inputs outputs tokens FLOP on the
// CUDA cores.
#include "numbers.h"

#define THREADS 256
// Outputs of a panel, and a block's extent in the other dimension: 4 for each of 4 groups of threads.
#define PANEL 64
#define OTHERS 16
#define EACH_HAS 4
// Steps of the reduction that are in shared memory at a time.
#define STEPS 32

// y = x W^T + b, or y += if `adds`, for the outputs first_output .. + columns; y has only these, and first_output is a multiple of
// 64. Grid: x 16 tokens, y 64 outputs a block. Each chain starts at the bias or at zero.
KERNEL(linear_f32, THREADS)(const float* x, const float* weights, const float* bias, float* y, u32 tokens, u32 inputs, u32 outputs,
                            u32 first_output, u32 columns, u32 adds) {
  SHARED(float, tile, [OTHERS][STEPS]);
  const u32 column = block_y() * PANEL + thread_index() % PANEL, output = first_output + column;
  const u32 group = thread_index() / PANEL * EACH_HAS, first_token = block_x() * OTHERS;
  const bool mine = column < columns;
  const u32 width = panel_width(mine ? output : first_output, outputs);
  const float* w = weights + (mine ? weight_at(output, 0, inputs, outputs, 0) : 0);
  float sums[EACH_HAS];
  UNROLL for (u32 j = 0; j < EACH_HAS; j++) sums[j] = mine && bias ? bias[output] : 0.0f;
  for (u32 first = 0; first < inputs; first += STEPS) {
    sync();
    for (u32 i = thread_index(); i < OTHERS * STEPS; i += THREADS) {
      const u32 token = first_token + i / STEPS, input = first + i % STEPS;
      tile[i / STEPS][i % STEPS] = token < tokens && input < inputs ? x[(u64)token * inputs + input] : 0.0f;
    }
    sync();
    const u32 steps = inputs - first < STEPS ? inputs - first : STEPS;
    if (mine) {
      for (u32 step = 0; step < steps; step++) {
        const float weight = w[(u64)(first + step) * width];
        UNROLL for (u32 j = 0; j < EACH_HAS; j++) sums[j] = mul_add(tile[group + j][step], weight, sums[j]);
      }
    }
  }
  UNROLL for (u32 j = 0; j < EACH_HAS; j++) {
    const u32 token = first_token + group + j;
    if (mine && token < tokens) {
      float* out = y + (u64)token * columns + column;
      *out = adds ? *out + sums[j] : sums[j];
    }
  }
}
EXPORT(linear_f32)

// dx = dy W over the outputs first_output .. + columns; dy has only these. If `resumes`, chains continue from dx. Grid: x 16
// tokens, y 64 inputs a block.
KERNEL(linear_backward_input_f32, THREADS)(const float* dy, const float* weights, float* dx, u32 tokens, u32 inputs, u32 outputs,
                                           u32 first_output, u32 columns, u32 resumes) {
  SHARED(float, tile, [OTHERS][STEPS]);
  SHARED(float, block, [STEPS][PANEL + 1]);
  const u32 first_input = block_y() * PANEL, input = first_input + thread_index() % PANEL;
  const u32 group = thread_index() / PANEL * EACH_HAS, first_token = block_x() * OTHERS;
  float sums[EACH_HAS];
  UNROLL for (u32 j = 0; j < EACH_HAS; j++) {
    const u32 token = first_token + group + j;
    sums[j] = resumes && input < inputs && token < tokens ? dx[(u64)token * inputs + input] : 0.0f;
  }
  for (u32 first = 0; first < columns; first += STEPS) {
    sync();
    for (u32 i = thread_index(); i < OTHERS * STEPS; i += THREADS) {
      const u32 token = first_token + i / STEPS, column = first + i % STEPS;
      tile[i / STEPS][i % STEPS] = token < tokens && column < columns ? dy[(u64)token * columns + column] : 0.0f;
    }
    for (u32 i = thread_index(); i < PANEL * STEPS; i += THREADS) {
      const u32 column = first + i % STEPS, of = first_input + i / STEPS;
      const bool exists = column < columns && of < inputs;
      block[i % STEPS][i / STEPS] = exists ? weights[weight_at(first_output + column, of, inputs, outputs, 0)] : 0.0f;
    }
    sync();
    const u32 steps = columns - first < STEPS ? columns - first : STEPS;
    for (u32 step = 0; step < steps; step++) {
      const float weight = block[step][thread_index() % PANEL];
      UNROLL for (u32 j = 0; j < EACH_HAS; j++) sums[j] = mul_add(tile[group + j][step], weight, sums[j]);
    }
  }
  UNROLL for (u32 j = 0; j < EACH_HAS; j++) {
    const u32 token = first_token + group + j;
    if (input < inputs && token < tokens) dx[(u64)token * inputs + input] = sums[j];
  }
}
EXPORT(linear_backward_input_f32)

// dW += dy^T x for the outputs first_output .. + columns; dy has only these. Each weight's chain continues over the tokens in
// order. The last panel's padding is not touched. Grid: x 16 inputs, y 64 outputs a block.
KERNEL(linear_backward_weight_f32, THREADS)(const float* dy, const float* x, float* dw, u32 tokens, u32 inputs, u32 outputs,
                                            u32 first_output, u32 columns) {
  SHARED(float, of_outputs, [STEPS][PANEL]);
  SHARED(float, of_inputs, [STEPS][OTHERS]);
  const u32 first_column = block_y() * PANEL, column = first_column + thread_index() % PANEL;
  const u32 group = thread_index() / PANEL * EACH_HAS, first_input = block_x() * OTHERS;
  const bool mine = column < columns;
  const u32 output = mine ? first_output + column : first_output;
  float sums[EACH_HAS];
  UNROLL for (u32 j = 0; j < EACH_HAS; j++) {
    const u32 input = first_input + group + j;
    sums[j] = mine && input < inputs ? dw[weight_at(output, input, inputs, outputs, 0)] : 0.0f;
  }
  for (u32 first = 0; first < tokens; first += STEPS) {
    sync();
    for (u32 i = thread_index(); i < STEPS * PANEL; i += THREADS) {
      const u32 token = first + i / PANEL, at = first_column + i % PANEL;
      of_outputs[i / PANEL][i % PANEL] = token < tokens && at < columns ? dy[(u64)token * columns + at] : 0.0f;
    }
    for (u32 i = thread_index(); i < STEPS * OTHERS; i += THREADS) {
      const u32 token = first + i / OTHERS, input = first_input + i % OTHERS;
      of_inputs[i / OTHERS][i % OTHERS] = token < tokens && input < inputs ? x[(u64)token * inputs + input] : 0.0f;
    }
    sync();
    const u32 steps = tokens - first < STEPS ? tokens - first : STEPS;
    for (u32 step = 0; step < steps; step++) {
      const float d = of_outputs[step][thread_index() % PANEL];
      UNROLL for (u32 j = 0; j < EACH_HAS; j++) sums[j] = mul_add(of_inputs[step][group + j], d, sums[j]);
    }
  }
  UNROLL for (u32 j = 0; j < EACH_HAS; j++) {
    const u32 input = first_input + group + j;
    if (mine && input < inputs) dw[weight_at(output, input, inputs, outputs, 0)] = sums[j];
  }
}
EXPORT(linear_backward_weight_f32)
