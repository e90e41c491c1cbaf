// Draws from the whole vocabulary, and its likeliest tokens: crates/kernels/src/draw.rs. Weights in f32, summed in f64 by blocks of
// 256 tokens, 8 partial sums each.
#include "numbers.h"

#define THREADS 256
#define BLOCK 256
#define PARTIALS 8
#define GROUPS (THREADS / PARTIALS)

// What is to be drawn: from which row of logits, at which place of the cumulative distribution, or the likeliest.
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

// Grid: a draw a block. Statistics are those of head_rows for the draws, `[5, all_draws]`. Dynamic shared memory: a double for each
// 256 tokens. Reads each logit once, and those of one block of tokens again. Bound by memory.
KERNEL(draw, THREADS)(const float* logits, const Draw* draws, const float* statistics, Drawn* drawn, u32 vocabulary, u32 first_draw,
                      u32 all_draws) {
  SHARED(float, best_values, [THREADS]);
  SHARED(u32, best_tokens, [THREADS]);
  DYNAMIC_SHARED(memory);
  double* sums = (double*)memory;
  const u32 at = first_draw + block_x();
  const Draw draw = draws[at];
  const float* x = logits + (u64)draw.row * vocabulary;
  const float max = statistics[at], log_sum = statistics[all_draws + at], temperature = draw.temperature;
  u32 token = 0;
  if (draw.greedy) {
    // The likeliest, the lowest of equals: each thread's own, then over all in order of threads and tokens.
    float best = x[0];
    u32 best_token = 0;
    for (u32 i = thread_index(); i < vocabulary; i += THREADS) {
      if (x[i] > best) {
        best = x[i];
        best_token = i;
      }
    }
    best_values[thread_index()] = best;
    best_tokens[thread_index()] = best_token;
    sync();
    if (thread_index() == 0) {
      for (u32 i = 1; i < THREADS; i++) {
        const bool better = best_values[i] > best || (best_values[i] == best && best_tokens[i] < best_token);
        if (better) {
          best = best_values[i];
          best_token = best_tokens[i];
        }
      }
      token = best_token;
    }
  } else {
    const u32 blocks = (vocabulary + BLOCK - 1) / BLOCK;
    for (u32 turn = 0; turn < (blocks + GROUPS - 1) / GROUPS; turn++) {
      const u32 block = turn * GROUPS + thread_index() / PARTIALS;
      const u32 begin = block * BLOCK, end = begin + BLOCK < vocabulary ? begin + BLOCK : vocabulary;
      double partial = 0.0;
      for (u32 i = begin + thread_index() % PARTIALS; block < blocks && i < end; i += PARTIALS) {
        partial += (double)exponential(divide(x[i], temperature) - max);
      }
      double sum = 0.0;
      for (u32 i = 0; i < PARTIALS; i++) sum += shuffle(partial, lane_index() / PARTIALS * PARTIALS + i);
      if (block < blocks && thread_index() % PARTIALS == 0) sums[block] = sum;
    }
    sync();
    if (thread_index() == 0) {
      double total = 0.0;
      for (u32 i = 0; i < blocks; i++) total += sums[i];
      const double target = draw.uniform * total;
      double before = 0.0;
      u32 block = 0;
      while (block + 1 < blocks && before + sums[block] <= target) {
        before += sums[block];
        block += 1;
      }
      // Rounding may leave the target just beyond the last block's end: the last possible token then stands in.
      bool found = false;
      for (u32 i = block * BLOCK; i < vocabulary && i < (block + 1) * BLOCK; i++) {
        const float weight = exponential(divide(x[i], temperature) - max);
        if (weight > 0.0f) {
          token = i;
          found = true;
          before += (double)weight;
          if (before > target) break;
        }
      }
      for (u32 i = vocabulary; !found && i > 0; i--) {
        if (exponential(divide(x[i - 1], temperature) - max) > 0.0f) {
          token = i - 1;
          found = true;
        }
      }
    }
  }
  if (thread_index() == 0) {
    drawn[at].token = token;
    drawn[at].logprob = (divide(x[token], temperature) - max) - log_sum;
  }
}
EXPORT(draw)
