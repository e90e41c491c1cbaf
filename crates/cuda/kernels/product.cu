// Linear layers where storage is bf16, in all three directions: d[i, j] = sum over k of a[i, k] b[j, k] by the tensor core, whose
// mma.m16n8k16 adds the exact products of 16 neighbours along k to what there is (MMA-Sim, arXiv:2511.10909). A chain over such
// blocks in ascending order, never split, so that neither the tile nor the other rows change a bit: what pads a block is zeros,
// which change nothing.
//
// Tiles of d are 64 by 64 numbers, a block of four warps with 32 by 32 each, or 128 by 128, eight warps with 32 by 64; tiles of 32 along
// k come by asynchronous copies, the next ones while these are multiplied. Rows are padded by 8 numbers in shared memory, so that the
// eight rows of a matrix lie in different banks. Bound by arithmetic: 2 rows columns depth FLOP on the tensor cores; a tile reads
// (1/64 + 1/64) or (1/128 + 1/128) numbers of global memory per product of two.
#include "numbers.h"

// Threads of a block whose tile has so many rows and columns.
#define THREADS(side) (2 * (side))
#define DEPTH 32
#define PAD 8

// One operand's tile, stored as it lies in memory: [side, 32 along k], or [32 along k, side] where it lies transposed.
template <u32 Side, bool Transposed>
struct Shape {
  static constexpr u32 rows = Transposed ? DEPTH : Side;
  static constexpr u32 columns = Transposed ? Side : DEPTH;
  static constexpr u32 stride = columns + PAD;
};
// Numbers of the larger of the two.
#define TILE_NUMBERS(side) ((side) * (DEPTH + PAD))
// A thread's sums: of two parts of 16 rows of its warp, and of so many of 8 columns.
#define SUMS(sums, side) float (&sums)[2][(side) / 16][4]

// Rows of an operand in a tile: first .. of `rows`. Where outputs are gated, rows are two halves, gates and what they let through, and
// behind each 16 gates stand the 16 of the other half: a thread of the tensor core then has both of a pair.
template <bool Gated>
struct Rows {
  u32 first, rows;
};
// Row i of the tile; `rows` or more is none.
template <bool Gated>
DEVICE u32 row_of(Rows<Gated> of, u32 i) {
  if (!Gated) return of.first + i;
  const u32 gate = of.first + i / 32 * 16 + i % 16;
  return gate >= of.rows / 2 ? of.rows : i % 32 < 16 ? gate : of.rows / 2 + gate;
}

// Starts the copies of a tile of an operand, from first_k of `depth`. What is beyond is zero.
template <u32 Side, bool Transposed, bool Gated>
DEVICE void copy_tile(bf16* tile, const bf16* from, u32 stride, Rows<Gated> of, u32 first_k, u32 depth) {
  typedef Shape<Side, Transposed> S;
  const u32 outers = Transposed ? depth : of.rows;
  const u32 first_inner = Transposed ? of.first : first_k, inners = Transposed ? of.rows : depth;
  const u32 in_a_row = S::columns / 8;
  UNROLL for (u32 n = 0; n < S::rows * in_a_row / THREADS(Side); n++) {
    const u32 i = thread_index() + n * THREADS(Side);
    const u32 line = i / in_a_row, outer = Transposed ? first_k + line : row_of(of, line), inner = first_inner + i % in_a_row * 8;
    u32 count = outer < outers && inner < inners ? inners - inner : 0;
    if (count > 8) count = 8;
    const bf16* source = count ? from + (u64)outer * stride + inner : from;
    copy_async16(tile + line * S::stride + i % in_a_row * 8, source, count * 2);
  }
}

// The fragment of a: rows row .. + 16, k .. + 16.
template <u32 Side, bool Transposed>
DEVICE void load_a(u32 (&a)[4], const bf16* tile, u32 row, u32 k) {
  typedef Shape<Side, Transposed> S;
  const u32 matrix = lane_index() / 8, line = lane_index() % 8;
  if (Transposed) {
    load_matrices_transposed(a, tile + (k + matrix / 2 * 8 + line) * S::stride + row + matrix % 2 * 8);
  } else {
    load_matrices(a, tile + (row + matrix % 2 * 8 + line) * S::stride + k + matrix / 2 * 8);
  }
}

// Two fragments of b: rows row .. + 8 and the next 8, k .. + 16.
template <u32 Side, bool Transposed>
DEVICE void load_b(u32 (&b)[4], const bf16* tile, u32 row, u32 k) {
  typedef Shape<Side, Transposed> S;
  const u32 matrix = lane_index() / 8, line = lane_index() % 8;
  if (Transposed) {
    load_matrices_transposed(b, tile + (k + matrix % 2 * 8 + line) * S::stride + row + matrix / 2 * 8);
  } else {
    load_matrices(b, tile + (row + matrix / 2 * 8 + line) * S::stride + k + matrix % 2 * 8);
  }
}

// Where a number of the thread's stands in the tile: of part m of its rows and part n of its columns, place i of the fragment.
struct Place {
  u32 row, column;
};
DEVICE u32 warp_row() { return warp_index() / 2 * 32; }
template <u32 Side>
DEVICE u32 warp_column() {
  return warp_index() % 2 * (Side / 2);
}
template <u32 Side>
DEVICE Place place_of(u32 m, u32 n, u32 i) {
  const u32 g = lane_index() / 4, t = lane_index() % 4;
  return {warp_row() + m * 16 + g + i / 2 * 8, warp_column<Side>() + n * 8 + 2 * t + i % 2};
}

// Adds the products of a tile to each thread's sums, going on from what they are.
template <u32 Side, bool TransposedA, bool TransposedB, bool Gated>
DEVICE void add_products(SUMS(sums, Side), const bf16* a, const bf16* b, Rows<false> of_a, Rows<Gated> of_b, u32 depth, u32 a_stride,
                         u32 b_stride) {
  SHARED(bf16, a_tiles, [2][TILE_NUMBERS(Side)]);
  SHARED(bf16, b_tiles, [2][TILE_NUMBERS(Side)]);
  const u32 rows_at = warp_row(), columns_at = warp_column<Side>();
  const u32 steps = (depth + DEPTH - 1) / DEPTH;
  if (steps > 0) {
    copy_tile<Side, TransposedA>(a_tiles[0], a, a_stride, of_a, 0, depth);
    copy_tile<Side, TransposedB>(b_tiles[0], b, b_stride, of_b, 0, depth);
  }
  commit_copies();
  for (u32 step = 0; step < steps; step++) {
    if (step + 1 < steps) {
      const u32 k = (step + 1) * DEPTH;
      copy_tile<Side, TransposedA>(a_tiles[(step + 1) % 2], a, a_stride, of_a, k, depth);
      copy_tile<Side, TransposedB>(b_tiles[(step + 1) % 2], b, b_stride, of_b, k, depth);
    }
    commit_copies();
    wait_copies<1>();
    sync();
    UNROLL for (u32 k = 0; k < DEPTH; k += 16) {
      // The same for all lanes of a warp: parts of the tile beyond the matrix are left out.
      if (step * DEPTH + k < depth) {
        u32 fragments_b[Side / 32][4];
        UNROLL for (u32 n = 0; n < Side / 32; n++) {
          if (row_of(of_b, columns_at + n * 16) < of_b.rows) {
            load_b<Side, TransposedB>(fragments_b[n], b_tiles[step % 2], columns_at + n * 16, k);
          }
        }
        UNROLL for (u32 m = 0; m < 2; m++) {
          if (row_of(of_a, rows_at + m * 16) < of_a.rows) {
            u32 fragment_a[4];
            load_a<Side, TransposedA>(fragment_a, a_tiles[step % 2], rows_at + m * 16, k);
            UNROLL for (u32 n = 0; n < Side / 16; n++) {
              if (row_of(of_b, columns_at + n * 8) < of_b.rows) {
                const u32 pair[2] = {fragments_b[n / 2][n % 2 * 2], fragments_b[n / 2][n % 2 * 2 + 1]};
                mma(sums[m][n], fragment_a, pair);
              }
            }
          }
        }
      }
    }
    sync();
  }
}

// Grid: x so many rows, y so many columns of d a block as its tile has. Strides are numbers from one row in memory to the next,
// multiples of 8 for a and b, which lie at multiples of 16 bytes. Where it accumulates, sums go on from what d holds. The bias is one
// number a column; where it adds, what d holds is added last, and there is one rounding.
template <u32 Side, bool TransposedA, bool TransposedB, typename Out>
DEVICE void product(const bf16* a, const bf16* b, const bf16* bias, Out* d, u32 rows, u32 columns, u32 depth, u32 a_stride,
                    u32 b_stride, u32 d_stride, bool accumulates, bool adds) {
  const u32 first_row = block_x() * Side, first_column = block_y() * Side;
  float sums[2][Side / 16][4];
  UNROLL for (u32 m = 0; m < 2; m++) {
    UNROLL for (u32 n = 0; n < Side / 16; n++) {
      UNROLL for (u32 i = 0; i < 4; i++) {
        const Place at = place_of<Side>(m, n, i);
        const u32 row = first_row + at.row, column = first_column + at.column;
        sums[m][n][i] = accumulates && row < rows && column < columns ? load(d + (u64)row * d_stride + column) : 0.0f;
      }
    }
  }
  const Rows<false> of_a = {first_row, rows}, of_b = {first_column, columns};
  add_products<Side, TransposedA, TransposedB>(sums, a, b, of_a, of_b, depth, a_stride, b_stride);
  UNROLL for (u32 m = 0; m < 2; m++) {
    UNROLL for (u32 n = 0; n < Side / 16; n++) {
      UNROLL for (u32 i = 0; i < 4; i++) {
        const Place at = place_of<Side>(m, n, i);
        const u32 row = first_row + at.row, column = first_column + at.column;
        if (row < rows && column < columns) {
          Out* out = d + (u64)row * d_stride + column;
          float y = sums[m][n][i];
          if (bias) y = y + load(bias + column);
          if (adds) y = load(out) + y;
          store(out, y);
        }
      }
    }
  }
}

// Both sizes of tiles of a kernel.
#define TILED(KERNEL_OF, name)    \
  KERNEL_OF(name##_64, 64)   \
  EXPORT(name##_64)          \
  KERNEL_OF(name##_128, 128) \
  EXPORT(name##_128)

// y = x W^T + b, or added to y. a: x [tokens, inputs], b: W [outputs, inputs].
#define LINEAR(name, side)                                                                                                        \
  KERNEL(name, THREADS(side))(const bf16* a, const bf16* b, const bf16* bias, bf16* d, u32 rows, u32 columns, u32 depth,              \
                              u32 a_stride, u32 b_stride, u32 d_stride, u32 adds) {                                                \
    product<side, false, false>(a, b, bias, d, rows, columns, depth, a_stride, b_stride, d_stride, false, adds != 0);             \
  }
TILED(LINEAR, linear_bf16)

// y = silu(gate) * up, where gate and up are the halves of x W^T + b, each number of which is rounded as if it were in memory, and is
// put there, [rows, 2 features], where there is room. a: x [tokens, inputs], b: W [2 features, inputs]. Grid: x so many rows a block as
// its tile has, y half as many features.
template <u32 Side>
DEVICE void linear_swiglu(const bf16* a, const bf16* b, const bf16* bias, bf16* gate_up, bf16* y, u32 rows, u32 features, u32 depth,
                          u32 a_stride, u32 b_stride, u32 gate_up_stride, u32 y_stride) {
  const u32 first_row = block_x() * Side, first_feature = block_y() * (Side / 2);
  float sums[2][Side / 16][4];
  UNROLL for (u32 m = 0; m < 2; m++) {
    UNROLL for (u32 n = 0; n < Side / 16; n++) {
      UNROLL for (u32 i = 0; i < 4; i++) sums[m][n][i] = 0.0f;
    }
  }
  const Rows<false> of_a = {first_row, rows};
  const Rows<true> of_b = {first_feature, 2 * features};
  add_products<Side, false, false>(sums, a, b, of_a, of_b, depth, a_stride, b_stride);
  UNROLL for (u32 m = 0; m < 2; m++) {
    // Behind two parts of gates stand the two of what they let through.
    UNROLL for (u32 part = 0; part < Side / 32; part++) {
      const u32 n = part / 2 * 4 + part % 2;
      UNROLL for (u32 i = 0; i < 4; i++) {
        const Place at = place_of<Side>(m, n, i);
        const u32 row = first_row + at.row, feature = row_of(of_b, at.column);
        if (row < rows && feature < features) {
          bf16 pair[2];
          UNROLL for (u32 half = 0; half < 2; half++) {
            float sum = sums[m][n + 2 * half][i];
            if (bias) sum = sum + load(bias + half * features + feature);
            store(&pair[half], sum);
            if (gate_up) gate_up[(u64)row * gate_up_stride + half * features + feature] = pair[half];
          }
          store(y + (u64)row * y_stride + feature, gated(load(&pair[0]), load(&pair[1])));
        }
      }
    }
  }
}
#define LINEAR_SWIGLU(name, side)                                                                                                 \
  KERNEL(name, THREADS(side))(const bf16* a, const bf16* b, const bf16* bias, bf16* gate_up, bf16* y, u32 rows, u32 features,         \
                              u32 depth, u32 a_stride, u32 b_stride, u32 gate_up_stride, u32 y_stride) {                           \
    linear_swiglu<side>(a, b, bias, gate_up, y, rows, features, depth, a_stride, b_stride, gate_up_stride, y_stride);             \
  }
TILED(LINEAR_SWIGLU, linear_swiglu_bf16)

#define PLAIN(name, side, Out, transposed_a, transposed_b, accumulates)                                                           \
  KERNEL(name, THREADS(side))(const bf16* a, const bf16* b, Out* d, u32 rows, u32 columns, u32 depth, u32 a_stride, u32 b_stride,     \
                              u32 d_stride) {                                                                                      \
    product<side, transposed_a, transposed_b>(a, b, nullptr, d, rows, columns, depth, a_stride, b_stride, d_stride, accumulates,  \
                                              false);                                                                             \
  }

// y = x W^T in f32, not rounded: the head's logits.
#define LOGITS(name, side) PLAIN(name, side, float, false, false, false)
TILED(LOGITS, logits_bf16)

// dx = dy W. a: dy [tokens, outputs], b: W [outputs, inputs], which lies transposed.
#define BACKWARD_INPUT(name, side) PLAIN(name, side, bf16, false, true, false)
TILED(BACKWARD_INPUT, linear_backward_input_bf16)

// The same in f32, going on from dx: the head's, over a part of the vocabulary.
#define HEAD_BACKWARD_INPUT(name, side)                                                                                           \
  KERNEL(name, THREADS(side))(const bf16* a, const bf16* b, float* d, u32 rows, u32 columns, u32 depth, u32 a_stride, u32 b_stride,   \
                              u32 d_stride, u32 resumes) {                                                                         \
    product<side, false, true>(a, b, nullptr, d, rows, columns, depth, a_stride, b_stride, d_stride, resumes != 0, false);        \
  }
TILED(HEAD_BACKWARD_INPUT, head_backward_input_bf16)

// dW += dy^T x, going on from dW. a: dy [tokens, outputs], b: x [tokens, inputs], which both lie transposed.
#define BACKWARD_WEIGHT(name, side) PLAIN(name, side, float, true, true, true)
TILED(BACKWARD_WEIGHT, linear_backward_weight_bf16)
