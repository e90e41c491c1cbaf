// Correct kernels. planted.rs makes mistakes in them.
#include "device.h"

// y[block, t] = sum over tiles i of x[block, i, 127 - t]: 4 tiles of 128 numbers a block go through shared memory.
KERNEL(tiles, 128)(const float* x, float* y) {
  SHARED(float, tile, [128]);
  const u32 t = thread_index();
  const float* from = x + (u64)block_x() * 512;
  float sum = 0;
  for (u32 i = 0; i < 4; i++) {
    tile[t] = from[i * 128 + t];
    sync();  // written
    sum += tile[127 - t];
    sync();  // read
  }
  y[(u64)block_x() * 128 + t] = sum;
}
EXPORT(tiles)

// As `tiles`, in dynamic shared memory.
KERNEL(dynamic, 128)(const float* x, float* y) {
  DYNAMIC_SHARED(bytes);
  float* tile = (float*)bytes;
  const u32 t = thread_index();
  const float* from = x + (u64)block_x() * 512;
  float sum = 0;
  for (u32 i = 0; i < 4; i++) {
    tile[t] = from[i * 128 + t];
    sync();
    sum += tile[127 - t];
    sync();
  }
  y[(u64)block_x() * 128 + t] = sum;
}
EXPORT(dynamic)

// y[i] = sum over the warp of x, plus x of the lane that is opposite, by shared memory of the warp.
KERNEL(warps, 64)(const float* x, float* y) {
  SHARED(float, values, [64]);
  const u32 t = thread_index(), lane = lane_index();
  const u64 at = (u64)block_x() * 64 + t;
  float sum = x[at];
  for (u32 mask = 16; mask > 0; mask /= 2) {
    sum += shuffle_xor(sum, mask);
  }
  values[t] = x[at];
  sync_warp();
  const float opposite = values[t - lane + 31 - lane];
  y[at] = sum + opposite;
}
EXPORT(warps)

// y[block, t] = x[block, 255 - t] + x[block, t] of 256 numbers, which come by asynchronous copies in two groups.
KERNEL(copies, 64)(const float* x, float* y, u32 n) {
  SHARED(float, tile, [256]);
  const u32 t = thread_index();
  const u32 first = block_x() * 256;
  for (u32 half = 0; half < 2; half++) {
    if (t % 2 == half) {
      const u32 at = first + 4 * t;
      const u32 left = at < n ? n - at : 0;
      copy_async16(tile + 4 * t, left ? x + at : x, 4 * (left < 4 ? left : 4));
    }
    commit_copies();
  }
  wait_copies<0>();
  sync();  // copied
  for (u32 i = t; i < 256; i += 64) {
    if (first + i < n) y[first + i] = tile[255 - i] + tile[i];
  }
}
EXPORT(copies)

// d = c + a b^T of one warp. a: [16, 16], b: [8, 16], c and d: [16, 8].
KERNEL(fragments, 32)(const bf16* a, const bf16* b, const float* c, float* d) {
  SHARED(bf16, rows, [24][24]);
  const u32 lane = lane_index(), g = lane / 4, t = lane % 4;
  for (u32 i = lane; i < 24 * 16; i += 32) rows[i / 16][i % 16] = i < 256 ? a[i] : b[i - 256];
  sync_warp();
  u32 of_a[4], of_b[2];
  load_matrices(of_a, &rows[lane % 16][lane / 16 * 8]);
  load_matrices(of_b, &rows[16 + lane % 8][lane / 8 % 2 * 8]);
  float sums[4];
  for (u32 i = 0; i < 4; i++) sums[i] = c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  mma(sums, of_a, of_b);
  for (u32 i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
}
EXPORT(fragments)

// y = 2 x, four numbers at once. n is a multiple of 4.
KERNEL(vectors, 32)(const float* x, float* y, u32 n) {
  const u32 i = block_x() * 32 + thread_index();
  const u32 every = n / 4;
  if (4 * i < n && every > 0) {
    Words4 four = load_words4(x + 4 * i);
    for (u32 k = 0; k < 4; k++) four.words[k] = bits_of(float_of(four.words[k]) * 2.0f);
    store_words4(y + 4 * i, four);
  }
}
EXPORT(vectors)
