// What the kernels of the gated delta rule share: crates/compute/kernels/src/delta_rule.
#pragma once
#include "numbers.h"

#define NONE 0xffffffffu
// Tokens between kept states, as on the CPU.
#define SEGMENT 32
// Numbers of a token and value head: beta, decay, its logarithm, and the derivative of that by a.
#define GATES 4

// Consecutive rows of a sequence.
struct Run {
  // The first row, the number of rows, and the position of the first.
  u32 row, len, position;
  // The end of the run that this one continues, in a pass without states; else NONE.
  u32 before;
  // The place of the state that a run from position 0 leaves and that others go on from, and whether this one leaves it.
  u32 state, leaves;
  // The number of runs that continue this one; they are the next ones.
  u32 followers;
  // The place of the run's first kept state.
  u32 segment;
};

// The row that is seen `distance` rows before row i of a run; NONE if it is not in the batch.
DEVICE u32 seen_row(const Run& run, u32 i, u32 distance) {
  if (distance <= i) return run.row + i - distance;
  const u32 back = distance - i;
  return run.before != NONE && back <= run.position ? run.before - back : NONE;
}

// The derivative of SiLU.
DEVICE float silu_slope(float x) {
  const float s = sigmoid(x);
  return s * mul_add(x, 1.0f - s, 1.0f);
}

// Turns a column of a head's matrix by one token; returns o of the column, and u.
template <u32 KEYS>
DEVICE float advance(float (&s)[KEYS], const float* query, const float* key, float value, float beta, float decay, u32 key_dim,
                     float& u) {
  float read = 0.0f, out = 0.0f;
  UNROLL for (u32 first = 0; first < KEYS; first += LANES) {
    if (first < key_dim) {
      UNROLL for (u32 j = first; j < first + LANES; j++) {
        s[j] = decay * s[j];
        read = mul_add(key[j], s[j], read);
      }
    }
  }
  u = value - read;
  const float written = beta * u;
  UNROLL for (u32 first = 0; first < KEYS; first += LANES) {
    if (first < key_dim) {
      UNROLL for (u32 j = first; j < first + LANES; j++) {
        s[j] = mul_add(key[j], written, s[j]);
        out = mul_add(query[j], s[j], out);
      }
    }
  }
  return out;
}

// Copies a column of a matrix with `value_dim` columns; zeros without one.
template <u32 KEYS>
DEVICE void load_column(float (&s)[KEYS], const float* column, u32 key_dim, u32 value_dim) {
  UNROLL for (u32 j = 0; j < KEYS; j++) s[j] = column && j < key_dim ? column[j * value_dim] : 0.0f;
}
template <u32 KEYS>
DEVICE void store_column(const float (&s)[KEYS], float* column, u32 key_dim, u32 value_dim) {
  UNROLL for (u32 j = 0; j < KEYS; j++) {
    if (j < key_dim) column[j * value_dim] = s[j];
  }
}
