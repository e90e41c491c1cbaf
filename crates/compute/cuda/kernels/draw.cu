// Draws from the whole vocabulary, and its likeliest tokens: crates/compute/kernels/src/draw.rs. Weights are f32. They are summed
// in f64 by blocks of 256 tokens (parts.cu), and the blocks are added in order.
#include "parts.h"

#define THREADS 256
// Sums that a chain adds between two loads from memory.
#define AT_ONCE 8
// The index that stands for no token or no block.
#define NONE 0xffffffffu

// A draw: its row of logits, and its position in the cumulative distribution, or that it takes the likeliest token.
struct Draw {
  double uniform;
  float temperature;
  u32 row;
  u32 greedy;
  u32 unused;
};
struct Drawn {
  u32 token;
  float logprob;
};

// Replaces each sum by the sum of all up to it, itself included, in order: a chain, for one thread.
DEVICE void running_sums(double* sums, u32 count) {
  double sum = 0.0;
  for (u32 i = 0; i < count; i += AT_ONCE) {
    double next[AT_ONCE];
    UNROLL
    for (u32 j = 0; j < AT_ONCE; j++) next[j] = i + j < count ? sums[i + j] : 0.0;
    UNROLL
    for (u32 j = 0; j < AT_ONCE; j++) next[j] = sum += next[j];
    UNROLL
    for (u32 j = 0; j < AT_ONCE; j++) {
      if (i + j < count) sums[i + j] = next[j];
    }
  }
}

DEVICE u32 least_of_warp(u32 x) {
  for (u32 distance = 16; distance > 0; distance /= 2) {
    const u32 other = shuffle_xor(x, distance);
    x = other < x ? other : x;
  }
  return x;
}

// The least value among the block's threads, for all of them.
DEVICE u32 least_of_block(u32 x, u32* shared) {
  x = least_of_warp(x);
  if (lane_index() == 0) shared[warp_index()] = x;
  sync();
  for (u32 warp = 0; warp < THREADS / 32; warp++) x = shared[warp] < x ? shared[warp] : x;
  return x;
}

// The lowest of the likeliest tokens, from the first part that has one; 0 if logits are not numbers.
DEVICE u32 likeliest(const float* x, const float* maxima, u32 vocabulary, u32* shared) {
  const u32 parts = how_many(vocabulary, PART);
  const float best = largest_of_parts(maxima, parts);
  u32 part = NONE;
  for (u32 i = lane_index(); i < parts && part == NONE; i += 32) {
    if (maxima[i] == best) part = i;
  }
  part = least_of_warp(part);
  u32 token = NONE;
  for (u32 i = thread_index(); i < PART && part < parts && token == NONE; i += THREADS) {
    if (part * PART + i < vocabulary && x[part * PART + i] == best) token = part * PART + i;
  }
  token = least_of_block(token, shared);
  return token == NONE ? 0 : token;
}

// The token at this position of the cumulative distribution. Only thread 0 gets it.
DEVICE u32 token_at(double uniform, const float* x, float temperature, float max, const double* up_to, u32 vocabulary, float* weights,
                    u32* shared) {
  const u32 blocks = how_many(vocabulary, DRAW_BLOCK), last = blocks - 1;
  const double target = uniform * up_to[last];
  // The first block that ends beyond the target. Rounding may leave it just beyond the last block's end.
  u32 block = last;
  for (u32 i = thread_index(); i < block; i += THREADS) {
    if (!(up_to[i] <= target)) block = i;
  }
  block = least_of_block(block, shared);
  const u32 first = block * DRAW_BLOCK, mine = first + thread_index();
  const float weight = mine < vocabulary ? exponential(divide(x[mine], temperature) - max) : 0.0f;
  weights[thread_index()] = weight > 0.0f ? weight : 0.0f;
  sync();
  if (thread_index() > 0) return 0;
  double before = block > 0 ? up_to[block - 1] : 0.0;
  u32 token = NONE;
  bool found = false;
  for (u32 i = 0; i < DRAW_BLOCK && !found; i += AT_ONCE) {
    UNROLL
    for (u32 j = 0; j < AT_ONCE; j++) {
      const float next = weights[i + j];
      before += (double)next;
      if (next > 0.0f && !found) {
        token = first + i + j;
        found = before > target;
      }
    }
  }
  // If the block has no such token, the last possible one is taken.
  for (u32 i = vocabulary; token == NONE && i > 0; i--) {
    if (exponential(divide(x[i - 1], temperature) - max) > 0.0f) token = i - 1;
  }
  return token == NONE ? 0 : token;
}

// Grid: a block for each draw. Writes statistics too, `[3, all_draws]`: largest logit / temperature, ln of the sum of exponentials,
// entropy. Dynamic shared memory: a double for each 256 tokens, and two floats for each 512. Reads the same numbers, and the logits
// of 256 tokens, or of a part for the likeliest token. Adds a double for each 256 tokens one after another, then the weights of 256
// tokens.
KERNEL(draw, THREADS)(const float* logits, const Draw* draws, const float* maxima, const float* sums, const double* masses,
                      float* statistics, Drawn* drawn, u32 vocabulary, u32 first_draw, u32 all_draws) {
  SHARED(float, weights, [DRAW_BLOCK]);
  SHARED(u32, of_warps, [THREADS / 32]);
  SHARED(float, of_row, [2]);
  DYNAMIC_SHARED(memory);
  const u32 at = first_draw + block_x(), blocks = how_many(vocabulary, DRAW_BLOCK);
  const Draw draw = draws[at];
  const float* x = logits + (u64)draw.row * vocabulary;
  maxima += (u64)block_x() * how_many(vocabulary, PART);
  sums += (u64)block_x() * 2 * how_many(vocabulary, SUM_BLOCK);
  masses += (u64)block_x() * blocks;
  double* up_to = (double*)memory;
  for (u32 i = thread_index(); i < blocks; i += THREADS) up_to[i] = masses[i];
  sync();
  // Two threads compute two chains at the same time.
  if (thread_index() == 0) running_sums(up_to, blocks);
  if (warp_index() == 1) {
    const Distribution all = distribution_of(maxima, sums, draw.temperature, vocabulary, (float*)(up_to + blocks));
    if (lane_index() == 0) {
      of_row[0] = statistics[at] = all.max;
      of_row[1] = statistics[all_draws + at] = all.log_sum;
      statistics[2 * all_draws + at] = all.entropy;
    }
  }
  sync();
  const float max = of_row[0], log_sum = of_row[1];
  const u32 token = draw.greedy ? likeliest(x, maxima, vocabulary, of_warps)
                                : token_at(draw.uniform, x, draw.temperature, max, up_to, vocabulary, weights, of_warps);
  if (thread_index() > 0) return;
  drawn[at].token = token;
  drawn[at].logprob = (divide(x[token], draw.temperature) - max) - log_sum;
}
EXPORT(draw)
