// Parts of rows of logits: their maxima, and the sums of their blocks. Exponentials are summed in f32 in 16 lanes within blocks of
// 512 tokens, as in `Distribution::of` of crates/compute/kernels/src/head.rs, and for draws in f64 in 8 lanes within blocks of 256,
// as in draw.rs. Bound by memory: all loads of a thread are under way together, and each of the two kernels reads each logit once.
#include "parts.h"

#define THREADS 128
#define HALF_WARPS (THREADS / LANES)
#define PARTIALS 8
// Numbers that a thread loads.
#define OF_THREAD (PART / THREADS)
// Numbers whose exponentials a lane computes together.
#define AT_ONCE 8

// The row of logits that a block reads: the next in memory, or the row with the given number.
DEVICE const float* row_of(const float* logits, const u32* row_numbers, u32 vocabulary) {
  return logits + (u64)(row_numbers ? row_numbers[block_x()] : block_x()) * vocabulary;
}

// The largest logit of each part, `[rows, parts]`. Grid: x rows, y parts. Reads 4 bytes a logit.
KERNEL(part_maxima, THREADS)(const float* logits, const u32* row_numbers, float* maxima, u32 vocabulary) {
  SHARED(float, of_warps, [THREADS / 32]);
  const float* x = row_of(logits, row_numbers, vocabulary);
  const u32 first = block_y() * PART + thread_index();
  float loaded[OF_THREAD];
  UNROLL
  for (u32 k = 0; k < OF_THREAD; k++) loaded[k] = first + k * THREADS < vocabulary ? x[first + k * THREADS] : -infinity();
  float largest = loaded[0];
  UNROLL
  for (u32 k = 1; k < OF_THREAD; k++) largest = larger(largest, loaded[k]);
  largest = largest_of_warp(largest);
  if (lane_index() == 0) of_warps[warp_index()] = largest;
  sync();
  if (thread_index() > 0) return;
  for (u32 warp = 1; warp < THREADS / 32; warp++) largest = larger(largest, of_warps[warp]);
  maxima[(u64)block_x() * blocks_y() + block_y()] = largest;
}
EXPORT(part_maxima)

// The position of a half warp's number n in shared memory: two half warps, and two blocks of draws, never use one bank at the same
// time.
#define OF_HALF_WARP (2 * (DRAW_BLOCK + PARTIALS))
DEVICE u32 place(u32 n) { return n + n / DRAW_BLOCK * PARTIALS; }

// With d = logit / temperature - max, the sum of e^d and of d e^d of each block of 512 tokens, `[rows, 2, blocks]`; with `masses`
// also the sum of e^d of each 256 tokens, `[rows, blocks]`. Without `temperatures` all rows have one temperature. Grid: x rows, y
// parts; a half warp has 512 tokens. Reads 4 bytes a logit.
KERNEL(part_sums, THREADS)(const float* logits, const u32* row_numbers, const float* temperatures, float temperature,
                           const float* maxima, float* sums, double* masses, u32 vocabulary) {
  SHARED(float, numbers, [HALF_WARPS * OF_HALF_WARP]);
  const u32 row = block_x(), lane = thread_index() % LANES, half_warp = thread_index() / LANES;
  const u32 block = block_y() * HALF_WARPS + half_warp, blocks = how_many(vocabulary, SUM_BLOCK);
  const u32 begin = block * SUM_BLOCK, end = begin + SUM_BLOCK < vocabulary ? begin + SUM_BLOCK : vocabulary;
  float* mine = numbers + half_warp * OF_HALF_WARP;
  const float* x = row_of(logits, row_numbers, vocabulary) + begin;
  // Beyond the end, tokens are impossible and add nothing.
  float loaded[OF_THREAD];
  UNROLL
  for (u32 k = 0; k < OF_THREAD; k++) loaded[k] = begin + lane + k * LANES < end ? x[lane + k * LANES] : -infinity();
  UNROLL
  for (u32 k = 0; k < OF_THREAD; k++) mine[place(lane + k * LANES)] = loaded[k];
  if (temperatures) temperature = temperatures[row];
  const float max = divide(largest_of_parts(maxima + (u64)row * blocks_y(), blocks_y()), temperature);
  float sum = 0.0f, product = 0.0f;
  for (u32 k = 0; begin + k * LANES < end; k += AT_ONCE) {
    float d[AT_ONCE], e[AT_ONCE];
    UNROLL
    for (u32 j = 0; j < AT_ONCE; j++) {
      float* number = mine + place(lane + (k + j) * LANES);
      // An impossible token adds nothing to the entropy; 0 times -inf would be NaN.
      d[j] = larger(EXP_ZERO, divide(*number, temperature) - max);
      e[j] = exponential(d[j]);
      *number = e[j];
    }
    UNROLL
    for (u32 j = 0; j < AT_ONCE; j++) {
      sum += e[j];
      product = mul_add(e[j], d[j], product);
    }
  }
  sum = sum_lanes(sum);
  product = sum_lanes(product);
  if (lane == 0 && block < blocks) {
    float* of_row = sums + (u64)row * 2 * blocks;
    of_row[block] = sum;
    of_row[blocks + block] = product;
  }
  if (!masses) return;
  sync_warp();
  const u32 first = lane / PARTIALS * DRAW_BLOCK;
  double partial = 0.0;
  for (u32 n = first + lane % PARTIALS; n < first + DRAW_BLOCK && begin + n < end; n += PARTIALS) partial += (double)mine[place(n)];
  double mass = 0.0;
  for (u32 i = 0; i < PARTIALS; i++) mass += shuffle(partial, lane_index() / PARTIALS * PARTIALS + i);
  if (lane % PARTIALS == 0 && begin + first < vocabulary) {
    masses[(u64)row * how_many(vocabulary, DRAW_BLOCK) + (begin + first) / DRAW_BLOCK] = mass;
  }
}
EXPORT(part_sums)
