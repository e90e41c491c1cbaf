// Linear layers where storage is bf16, in all three directions: d[i, j] = sum over k of a[i, k] b[j, k] by the tensor core, whose
// mma.m16n8k16 adds the exact products of 16 neighbours along k to what there is (MMA-Sim, arXiv:2511.10909). A chain over such
// blocks in ascending order, never split, so that neither the tile nor the other rows change a bit: what pads a block is zeros,
// which change nothing.
//
// A block computes a tile of d, each of its warps a part of it. What it needs of both operands comes in tiles along k by asynchronous
// copies, several of which are under way while one is multiplied: with few rows it is how much is under way that decides how fast the
// weights come, not how fast they are multiplied. Rows are padded by 8 numbers in shared memory, so that the eight rows of a matrix
// lie in different banks. Bound by arithmetic where there are many rows, 2 rows columns depth FLOP on the tensor cores, and a tile of
// Rows by Columns reads (1/Rows + 1/Columns) numbers of global memory per product of two; by memory where there are few.
#include "numbers.h"

#define PAD 8

// A tile of d, the parts of it that warps have, and Stages tiles of Depth along k in shared memory. The host knows these numbers.
template <u32 Rows, u32 Columns, u32 WarpRows, u32 WarpColumns, u32 Depth, u32 Stages>
struct Tile {
  static constexpr u32 rows = Rows, columns = Columns, warp_rows = WarpRows, warp_columns = WarpColumns;
  static constexpr u32 depth = Depth, stages = Stages;
  static constexpr u32 across = Columns / WarpColumns;
  static constexpr u32 threads = Rows / WarpRows * across * 32;
  // Numbers of a stage in shared memory: a's tile, then b's. Transposed ones are no larger.
  static constexpr u32 of_a = Rows * (Depth + PAD), of_b = Columns * (Depth + PAD);
};
typedef Tile<64, 64, 32, 32, 32, 4> Small;
// Where each operand is read half as often.
typedef Tile<128, 128, 32, 64, 32, 4> Large;
// Where there would be too few blocks to have memory busy: with fewer columns, and more under way.
typedef Tile<64, 32, 16, 32, 64, 7> Narrow;

// One operand's tile, stored as it lies in memory: [side, Depth along k], or [Depth along k, side] where it lies transposed.
template <u32 Side, u32 Depth, bool Transposed>
struct Shape {
  static constexpr u32 rows = Transposed ? Depth : Side;
  static constexpr u32 columns = Transposed ? Side : Depth;
  static constexpr u32 stride = columns + PAD;
};
// A thread's sums: of parts of 16 rows of its warp, and of 8 columns.
#define SUMS(sums, T) float (&sums)[T::warp_rows / 16][T::warp_columns / 8][4]

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
template <u32 Side, u32 Depth, u32 Threads, bool Transposed, bool Gated>
DEVICE void copy_tile(bf16* tile, const bf16* from, u32 stride, Rows<Gated> of, u32 first_k, u32 depth) {
  typedef Shape<Side, Depth, Transposed> S;
  const u32 outers = Transposed ? depth : of.rows;
  const u32 first_inner = Transposed ? of.first : first_k, inners = Transposed ? of.rows : depth;
  constexpr u32 in_a_row = S::columns / 8;
  static_assert(S::rows * in_a_row % Threads == 0, "each thread copies as much");
  UNROLL for (u32 n = 0; n < S::rows * in_a_row / Threads; n++) {
    const u32 i = thread_index() + n * Threads;
    const u32 line = i / in_a_row, outer = Transposed ? first_k + line : row_of(of, line), inner = first_inner + i % in_a_row * 8;
    u32 count = outer < outers && inner < inners ? inners - inner : 0;
    if (count > 8) count = 8;
    const bf16* source = count ? from + (u64)outer * stride + inner : from;
    copy_async16(tile + line * S::stride + i % in_a_row * 8, source, count * 2);
  }
}

// The fragment of a: rows row .. + 16, k .. + 16.
template <typename T, bool Transposed>
DEVICE void load_a(u32 (&a)[4], const bf16* tile, u32 row, u32 k) {
  typedef Shape<T::rows, T::depth, Transposed> S;
  const u32 matrix = lane_index() / 8, line = lane_index() % 8;
  if (Transposed) {
    load_matrices_transposed(a, tile + (k + matrix / 2 * 8 + line) * S::stride + row + matrix % 2 * 8);
  } else {
    load_matrices(a, tile + (row + matrix % 2 * 8 + line) * S::stride + k + matrix / 2 * 8);
  }
}

// Two fragments of b: rows row .. + 8 and the next 8, k .. + 16.
template <typename T, bool Transposed>
DEVICE void load_b(u32 (&b)[4], const bf16* tile, u32 row, u32 k) {
  typedef Shape<T::columns, T::depth, Transposed> S;
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
template <typename T>
DEVICE u32 warp_row() {
  return warp_index() / T::across * T::warp_rows;
}
template <typename T>
DEVICE u32 warp_column() {
  return warp_index() % T::across * T::warp_columns;
}
template <typename T>
DEVICE Place place_of(u32 m, u32 n, u32 i) {
  const u32 g = lane_index() / 4, t = lane_index() % 4;
  return {warp_row<T>() + m * 16 + g + i / 2 * 8, warp_column<T>() + n * 8 + 2 * t + i % 2};
}

// Starts the copies of a step's tiles as one group, which is empty beyond the last step.
template <typename T, bool TransposedA, bool TransposedB, bool Gated>
DEVICE void bring_tiles(bf16* tiles, const bf16* a, const bf16* b, Rows<false> of_a, Rows<Gated> of_b, u32 depth, u32 a_stride,
                        u32 b_stride, u32 step) {
  if (step * T::depth < depth) {
    bf16* const stage = tiles + step % T::stages * (T::of_a + T::of_b);
    copy_tile<T::rows, T::depth, T::threads, TransposedA>(stage, a, a_stride, of_a, step * T::depth, depth);
    copy_tile<T::columns, T::depth, T::threads, TransposedB>(stage + T::of_a, b, b_stride, of_b, step * T::depth, depth);
  }
  commit_copies();
}

// Adds the products of a tile to each thread's sums, going on from what they are.
template <typename T, bool TransposedA, bool TransposedB, bool Gated>
DEVICE void add_products(SUMS(sums, T), const bf16* a, const bf16* b, Rows<false> of_a, Rows<Gated> of_b, u32 depth, u32 a_stride,
                         u32 b_stride) {
  DYNAMIC_SHARED(memory);
  bf16* const tiles = (bf16*)memory;
  const u32 rows_at = warp_row<T>(), columns_at = warp_column<T>();
  const u32 steps = (depth + T::depth - 1) / T::depth;
  for (u32 step = 0; step < T::stages - 1; step++) {
    bring_tiles<T, TransposedA, TransposedB>(tiles, a, b, of_a, of_b, depth, a_stride, b_stride, step);
  }
  for (u32 step = 0; step < steps; step++) {
    wait_copies<T::stages - 2>();
    // Also the step before has been multiplied, in whose place the next tiles come.
    sync();
    bring_tiles<T, TransposedA, TransposedB>(tiles, a, b, of_a, of_b, depth, a_stride, b_stride, step + T::stages - 1);
    const bf16* const a_tile = tiles + step % T::stages * (T::of_a + T::of_b);
    const bf16* const b_tile = a_tile + T::of_a;
    UNROLL for (u32 k = 0; k < T::depth; k += 16) {
      // The same for all lanes of a warp: parts of the tile beyond the matrix are left out.
      if (step * T::depth + k < depth) {
        u32 fragments_b[T::warp_columns / 16][4];
        UNROLL for (u32 n = 0; n < T::warp_columns / 16; n++) {
          if (row_of(of_b, columns_at + n * 16) < of_b.rows) load_b<T, TransposedB>(fragments_b[n], b_tile, columns_at + n * 16, k);
        }
        UNROLL for (u32 m = 0; m < T::warp_rows / 16; m++) {
          if (row_of(of_a, rows_at + m * 16) < of_a.rows) {
            u32 fragment_a[4];
            load_a<T, TransposedA>(fragment_a, a_tile, rows_at + m * 16, k);
            UNROLL for (u32 n = 0; n < T::warp_columns / 8; n++) {
              if (row_of(of_b, columns_at + n * 8) < of_b.rows) {
                const u32 pair[2] = {fragments_b[n / 2][n % 2 * 2], fragments_b[n / 2][n % 2 * 2 + 1]};
                mma(sums[m][n], fragment_a, pair);
              }
            }
          }
        }
      }
    }
  }
}

// Grid: x so many rows, y so many columns of d a block as its tile has. Strides are numbers from one row in memory to the next,
// multiples of 8 for a and b, which lie at multiples of 16 bytes. Where it accumulates, sums go on from what d holds. The bias is one
// number a column; where it adds, what d holds is added last, and there is one rounding.
template <typename T, bool TransposedA, bool TransposedB, typename Out>
DEVICE void product(const bf16* a, const bf16* b, const bf16* bias, Out* d, u32 rows, u32 columns, u32 depth, u32 a_stride,
                    u32 b_stride, u32 d_stride, bool accumulates, bool adds) {
  const u32 first_row = block_x() * T::rows, first_column = block_y() * T::columns;
  float sums[T::warp_rows / 16][T::warp_columns / 8][4];
  UNROLL for (u32 m = 0; m < T::warp_rows / 16; m++) {
    UNROLL for (u32 n = 0; n < T::warp_columns / 8; n++) {
      UNROLL for (u32 i = 0; i < 4; i++) {
        const Place at = place_of<T>(m, n, i);
        const u32 row = first_row + at.row, column = first_column + at.column;
        sums[m][n][i] = accumulates && row < rows && column < columns ? load(d + (u64)row * d_stride + column) : 0.0f;
      }
    }
  }
  const Rows<false> of_a = {first_row, rows}, of_b = {first_column, columns};
  add_products<T, TransposedA, TransposedB>(sums, a, b, of_a, of_b, depth, a_stride, b_stride);
  UNROLL for (u32 m = 0; m < T::warp_rows / 16; m++) {
    UNROLL for (u32 n = 0; n < T::warp_columns / 8; n++) {
      UNROLL for (u32 i = 0; i < 4; i++) {
        const Place at = place_of<T>(m, n, i);
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

// A kernel for each size of tiles; with narrow ones where products are part of a step of decoding.
#define TILED(KERNEL_OF, name)  \
  KERNEL_OF(name##_64, Small)   \
  EXPORT(name##_64)             \
  KERNEL_OF(name##_128, Large)  \
  EXPORT(name##_128)
#define TILED_OR_NARROW(KERNEL_OF, name)  \
  TILED(KERNEL_OF, name)                  \
  KERNEL_OF(name##_narrow, Narrow)        \
  EXPORT(name##_narrow)

// y = x W^T + b, or added to y. a: x [tokens, inputs], b: W [outputs, inputs].
#define LINEAR(name, T)                                                                                                \
  KERNEL(name, T::threads)(const bf16* a, const bf16* b, const bf16* bias, bf16* d, u32 rows, u32 columns, u32 depth,  \
                           u32 a_stride, u32 b_stride, u32 d_stride, u32 adds) {                                       \
    product<T, false, false>(a, b, bias, d, rows, columns, depth, a_stride, b_stride, d_stride, false, adds != 0);     \
  }
TILED_OR_NARROW(LINEAR, linear_bf16)

// y = silu(gate) * up, where gate and up are the halves of x W^T + b, each number of which is rounded as if it were in memory, and is
// put there, [rows, 2 features], where there is room. a: x [tokens, inputs], b: W [2 features, inputs]. Grid: x so many rows a block as
// its tile has, y half as many features.
template <typename T>
DEVICE void linear_swiglu(const bf16* a, const bf16* b, const bf16* bias, bf16* gate_up, bf16* y, u32 rows, u32 features, u32 depth,
                          u32 a_stride, u32 b_stride, u32 gate_up_stride, u32 y_stride) {
  const u32 first_row = block_x() * T::rows, first_feature = block_y() * (T::columns / 2);
  float sums[T::warp_rows / 16][T::warp_columns / 8][4];
  UNROLL for (u32 m = 0; m < T::warp_rows / 16; m++) {
    UNROLL for (u32 n = 0; n < T::warp_columns / 8; n++) {
      UNROLL for (u32 i = 0; i < 4; i++) sums[m][n][i] = 0.0f;
    }
  }
  const Rows<false> of_a = {first_row, rows};
  const Rows<true> of_b = {first_feature, 2 * features};
  add_products<T, false, false>(sums, a, b, of_a, of_b, depth, a_stride, b_stride);
  UNROLL for (u32 m = 0; m < T::warp_rows / 16; m++) {
    // Behind two parts of gates stand the two of what they let through.
    UNROLL for (u32 part = 0; part < T::warp_columns / 16; part++) {
      const u32 n = part / 2 * 4 + part % 2;
      UNROLL for (u32 i = 0; i < 4; i++) {
        const Place at = place_of<T>(m, n, i);
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
#define LINEAR_SWIGLU(name, T)                                                                                              \
  KERNEL(name, T::threads)(const bf16* a, const bf16* b, const bf16* bias, bf16* gate_up, bf16* y, u32 rows, u32 features,  \
                              u32 depth, u32 a_stride, u32 b_stride, u32 gate_up_stride, u32 y_stride) {                    \
    linear_swiglu<T>(a, b, bias, gate_up, y, rows, features, depth, a_stride, b_stride, gate_up_stride, y_stride);          \
  }
TILED_OR_NARROW(LINEAR_SWIGLU, linear_swiglu_bf16)

#define PLAIN(name, T, Out, transposed_a, transposed_b, accumulates)                                                            \
  KERNEL(name, T::threads)(const bf16* a, const bf16* b, Out* d, u32 rows, u32 columns, u32 depth, u32 a_stride, u32 b_stride,  \
                              u32 d_stride) {                                                                                   \
    product<T, transposed_a, transposed_b>(a, b, nullptr, d, rows, columns, depth, a_stride, b_stride, d_stride, accumulates,   \
                                              false);                                                                           \
  }

// y = x W^T in f32, not rounded: the head's logits.
#define LOGITS(name, T) PLAIN(name, T, float, false, false, false)
TILED_OR_NARROW(LOGITS, logits_bf16)

// dx = dy W. a: dy [tokens, outputs], b: W [outputs, inputs], which lies transposed.
#define BACKWARD_INPUT(name, T) PLAIN(name, T, bf16, false, true, false)
TILED(BACKWARD_INPUT, linear_backward_input_bf16)

// The same in f32, going on from dx: the head's, over a part of the vocabulary.
#define HEAD_BACKWARD_INPUT(name, T)                                                                                              \
  KERNEL(name, T::threads)(const bf16* a, const bf16* b, float* d, u32 rows, u32 columns, u32 depth, u32 a_stride, u32 b_stride,  \
                              u32 d_stride, u32 resumes) {                                                                        \
    product<T, false, true>(a, b, nullptr, d, rows, columns, depth, a_stride, b_stride, d_stride, resumes != 0, false);           \
  }
TILED(HEAD_BACKWARD_INPUT, head_backward_input_bf16)

// dW += dy^T x, going on from dW. a: dy [tokens, outputs], b: x [tokens, inputs], which both lie transposed.
#define BACKWARD_WEIGHT(name, T) PLAIN(name, T, float, true, true, true)
TILED(BACKWARD_WEIGHT, linear_backward_weight_bf16)
