// What several kernels share: the functions of crates/compute/kernels/src/math.rs and the trees of crates/compute/kernels/src/simd,
// to the last bit; the parts of a weight; and the order of weights in memory.
#pragma once
#include "device.h"

// Partial sums of a reduction: element i goes to partial i mod 16.
#define LANES 16

// Numbers that a lane loads before it computes with them, so that it waits for memory only once.
#define LOADED_AHEAD 16

// The slot of rows that are stored nowhere: `NO_SLOT` of crates/compute/kernels/src/backend.rs.
#define NO_SLOT 0xffffffffu

// Row and column of element i, row by row. Indices below 2^32 are divided in 32 bits, which takes a fraction of the time.
struct Cell {
  u32 row, column;
};
DEVICE Cell cell_of(u64 i, u32 columns) {
  if (i >> 32 == 0) {
    const u32 row = (u32)i / columns;
    return {row, (u32)i - row * columns};
  }
  const u64 row = i / columns;
  return {(u32)row, (u32)(i - row * columns)};
}

// The larger number, as the CPU defines it: the second operand if either is NaN.
DEVICE float larger(float a, float b) { return a > b ? a : b; }

// Replaces every argument whose exponential is 0. It is finite, so that products with that 0 are 0.
#define EXP_ZERO (-88.0f)

// e^x for x <= 0 (and, within rounding, a little above); exactly 0 below -87.336; NaN for NaN. `exp` of math.rs: Cody and Waite's
// reduction, a Taylor series of degree 7.
DEVICE float exponential(float x) {
  const float low = -87.33654f;
  const float magic_number = 12582912.0f;
  const float inside = larger(low, x);
  const float magic = mul_add(inside, 1.44269504f, magic_number);
  const float n = magic - magic_number;
  float r = mul_add(n, -0.693359375f, inside);
  r = mul_add(n, 2.1219444e-4f, r);
  float p = 1.0f / 5040.0f;
  p = mul_add(p, r, 1.0f / 720.0f);
  p = mul_add(p, r, 1.0f / 120.0f);
  p = mul_add(p, r, 1.0f / 24.0f);
  p = mul_add(p, r, 1.0f / 6.0f);
  p = mul_add(p, r, 0.5f);
  p = mul_add(p, r, 1.0f);
  p = mul_add(p, r, 1.0f);
  const float e = p * float_of((bits_of(magic) << 23) + 0x3f800000);
  return x < low ? 0.0f : e;
}

// 1 / (1 + e^-x), by the one of two equal forms that takes the exponential of a negative number.
DEVICE float sigmoid(float x) {
  const float e = exponential(x < 0.0f ? x : 0.0f - x);
  return divide(x < 0.0f ? e : 1.0f, 1.0f + e);
}

// `ln_of_f64` of math.rs: by the series of 2 artanh((m-1)/(m+1)).
DEVICE double logarithm_of(double x) {
  const u64 bits = bits_of(x);
  i32 exponent = (i32)((bits >> 52) & 0x7ff) - 1023;
  double m = double_of((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    exponent += 1;
  }
  const double s = divide(m - 1.0, m + 1.0);
  const double s2 = s * s;
  double series = 0.0;
  for (i32 k = 8; k >= 0; k--) series = series * s2 + divide(1.0, (double)(2 * k + 1));
  return (double)exponent * 0.6931471805599453 + 2.0 * s * series;
}

// `ln` of math.rs: in f64. NaN if x is not positive.
DEVICE float logarithm(float x) {
  if (!(x > 0.0f)) return float_of(0x7fc00000);
  return bits_of(x) == 0x7f800000 ? x : (float)logarithm_of((double)x);
}

// `ln_1p` of math.rs: the logarithm of 1 + x, for a finite x from 0 on.
DEVICE float logarithm_1p(float x) { return (float)logarithm_of(1.0 + (double)x); }

// Combines the partial sums of the 16 lanes of each half warp: neighbours at distance 8, then 4, 2, 1. All lanes get the sum.
DEVICE float sum_lanes(float x) {
  x += shuffle_xor(x, 8);
  x += shuffle_xor(x, 4);
  x += shuffle_xor(x, 2);
  return x + shuffle_xor(x, 1);
}

// 1 / sqrt(mean(x^2) + eps) of a group: crates/compute/kernels/src/norm.rs. A half warp computes it, and all of its lanes get it.
template <typename T>
DEVICE float inverse_rms(const T* x, u32 features, float eps) {
  float squares = 0.0f;
  ROLL for (u32 first = thread_index() % LANES; first < features; first += LANES * LOADED_AHEAD) {
    float v[LOADED_AHEAD];
    // Beyond the end, lanes load the last element, so that no load waits for a branch.
    UNROLL for (u32 k = 0; k < LOADED_AHEAD; k++) {
      const u32 n = first + k * LANES;
      v[k] = load(x + (n < features ? n : features - 1));
    }
    UNROLL for (u32 k = 0; k < LOADED_AHEAD; k++) {
      if (first + k * LANES < features) squares = mul_add(v[k], v[k], squares);
    }
  }
  return divide(1.0f, square_root(divide(sum_lanes(squares), (float)features) + eps));
}

// Four numbers of a layer's sums with their bias, and with what is there before, with one rounding. Either may be missing.
DEVICE Words2 finished(const float* sums, const bf16* bias, const bf16* before) {
  const Words4 four = load_words4(sums);
  const Words2 halves = before ? load_words2(before) : Words2{{0, 0}};
  float y[4];
  UNROLL for (u32 n = 0; n < 4; n++) {
    y[n] = float_of(four.words[n]);
    if (bias) y[n] = y[n] + load(bias + n);
    if (before) y[n] = float_of(halves.words[n / 2] >> n % 2 * 16 << 16) + y[n];
  }
  return {{pack_bf16(y[0], y[1]), pack_bf16(y[2], y[3])}};
}

// A pair of numbers turned by an angle: crates/compute/kernels/src/rope.rs.
struct Turned {
  float first, second;
};
DEVICE Turned turned(float a, float b, float cos, float sin) {
  return {mul_add(a, cos, b * (0.0f - sin)), mul_add(b, cos, a * sin)};
}

// A gate's function is g sigmoid(u(g)): u and its slope, crates/compute/kernels/src/glu.rs.
struct Argument {
  float u, slope;
};
DEVICE Argument argument_of(float g, u32 is_gelu) {
  if (!is_gelu) return {g, 1.0f};
  const float square = g * g, linear = 1.5957692f, cubic = 0.071354814f;
  return {g * mul_add(square, cubic, linear), mul_add(square, 3.0f * cubic, linear)};
}
DEVICE float gated(float gate, float up, u32 is_gelu) { return gate * sigmoid(argument_of(gate, is_gelu).u) * up; }

// A factor of a norm: the weight, with the norm's shift if that is not 0. crates/compute/kernels/src/norm.rs.
DEVICE float factor(float weight, float shift) { return shift == 0.0f ? weight : weight + shift; }

// A weight with bf16 storage: the f32 image, rounded to its upper half (nearest, ties away from zero), and a signed rest. Each f32
// has exactly one such pair. A NaN keeps its upper half, because rounding could turn it into a number.
DEVICE bool is_nan_image(u32 image) { return (image & 0x7fffffff) > 0x7f800000; }
DEVICE u32 settled_image(u32 image) { return is_nan_image(image) ? (image | 0x400000) & 0xffff0000 : image; }
DEVICE u16 upper_half(u32 image) { return (u16)((image + 0x8000) >> 16); }
DEVICE u16 rest_of(u32 image) { return (u16)image; }
DEVICE float joined(bf16 upper, u16 rest) { return float_of(((u32)upper.bits << 16) + (u32)(i32)(short)rest); }

// The position of the weight from `input` to `output`. With a stride, outputs lie row by row. With stride 0 they lie in panels of
// 64, as on the CPU (crates/compute/kernels/src/linear/mod.rs): for each input the outputs of the panel, the last panel padded to a
// multiple of 16.
DEVICE u32 panel_width(u32 output, u32 outputs) {
  const u32 rest = outputs - output / 64 * 64;
  return rest < 64 ? (rest + 15) / 16 * 16 : 64;
}
DEVICE u64 weight_at(u32 output, u32 input, u32 inputs, u32 outputs, u32 stride) {
  if (stride) return (u64)output * stride + input;
  return (u64)(output / 64 * 64) * inputs + (u64)input * panel_width(output, outputs) + output % 64;
}
