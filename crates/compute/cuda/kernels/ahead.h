// Chains of thousands of sums, whose order nothing may change. One warp adds, one chain a lane; other warps load the terms for it,
// so that loads are always under way.
#pragma once
#include "numbers.h"

// Warps that load, and steps of the chain that each of them loads at a time.
#define BRINGING 8
#define AT_A_TIME 16
#define AHEAD (BRINGING * AT_A_TIME)
#define CHAIN_THREADS (32 * (1 + BRINGING))

// Steps that the adding warp reads before it adds the first of them.
#define READ_AT_ONCE 16

// The first step that a thread loads; its other steps follow at distances of BRINGING.
DEVICE u32 first_step() { return warp_index() == 0 ? 0 : warp_index() - 1; }

// Continues the first warp's `sum` by this number of steps, `sum = add(sum, step)`, and returns it there. `bring()` returns the
// thread's next step of its lane's chain, and any value beyond the end. All threads of a block call it.
template <typename Step, typename Bring, typename Add>
DEVICE float chain(float sum, u64 steps, Bring bring, Add add) {
  SHARED(Step, brought, [AHEAD][32]);
  const u32 lane = lane_index();
  const bool brings = warp_index() > 0;
  Step mine[AT_A_TIME];
  if (brings) {
    UNROLL
    for (u32 k = 0; k < AT_A_TIME; k++) mine[k] = bring();
  }
  for (u64 first = 0; first < steps; first += AHEAD) {
    if (brings) {
      UNROLL
      for (u32 k = 0; k < AT_A_TIME; k++) brought[first_step() + k * BRINGING][lane] = mine[k];
    }
    sync();
    if (brings) {
      UNROLL
      for (u32 k = 0; k < AT_A_TIME; k++) mine[k] = bring();
    } else {
      const u32 here = steps - first < AHEAD ? (u32)(steps - first) : AHEAD;
      u32 k = 0;
      for (; k + READ_AT_ONCE <= here; k += READ_AT_ONCE) {
        Step read[READ_AT_ONCE];
        UNROLL
        for (u32 j = 0; j < READ_AT_ONCE; j++) read[j] = brought[k + j][lane];
        UNROLL
        for (u32 j = 0; j < READ_AT_ONCE; j++) sum = add(sum, read[j]);
      }
      for (; k < here; k++) sum = add(sum, brought[k][lane]);
    }
    sync();
  }
  return sum;
}
