// Rows of logits in parts, one for each block of threads, and statistics from a row's parts: parts.cu computes the parts, head.cu
// and draw.cu combine them. crates/compute/cuda/src/parts.rs has the same sizes.
#pragma once
#include "numbers.h"

#define PART 4096
// The number of tokens whose exponentials are summed together: in f32 for a row's statistics, in f64 for draws.
#define SUM_BLOCK 512
#define DRAW_BLOCK 256

// The number of groups of this many tokens; the last group may have fewer.
DEVICE u32 how_many(u32 vocabulary, u32 tokens) { return (vocabulary + tokens - 1) / tokens; }

// The largest value among the warp's lanes, for all of them.
DEVICE float largest_of_warp(float x) {
  for (u32 distance = 16; distance > 0; distance /= 2) x = larger(x, shuffle_xor(x, distance));
  return x;
}

// A row's largest logit, from its parts' maxima. A warp computes it, for all its lanes.
DEVICE float largest_of_parts(const float* maxima, u32 parts) {
  float x = -infinity();
  for (u32 part = lane_index(); part < parts; part += 32) x = larger(x, maxima[part]);
  return largest_of_warp(x);
}

// Adds the sums of blocks in f64, in order.
DEVICE double sum_in_order(const float* sums, u32 count) {
  double sum = 0.0;
  for (u32 i = 0; i < count; i++) sum += (double)sums[i];
  return sum;
}

// Statistics of a row of logits: its largest logit / temperature, ln of the sum of exponentials, and entropy.
struct Distribution {
  float max, log_sum, entropy;
};

// The row's statistics, from its parts' maxima and its blocks' sums. A warp computes them, for all its lanes. `shared` has room for
// the sums, which even and odd lanes add at the same time.
DEVICE Distribution distribution_of(const float* maxima, const float* sums, float temperature, u32 vocabulary, float* shared) {
  const u32 blocks = how_many(vocabulary, SUM_BLOCK);
  for (u32 i = lane_index(); i < 2 * blocks; i += 32) shared[i] = sums[i];
  const float max = divide(largest_of_parts(maxima, how_many(vocabulary, PART)), temperature);
  sync_warp();
  const double mine = sum_in_order(shared + lane_index() % 2 * blocks, blocks);
  const double sum = shuffle(mine, 0), weighted = shuffle(mine, 1);
  const float log_sum = logarithm((float)sum);
  return {max, log_sum, log_sum - (float)divide(weighted, sum)};
}
