// Linear layers with bf16 storage, in all three directions: d[i, j] = sum over k of a[i, k] b[j, k] by the tensor core, whose
// mma.m16n8k16 adds the exact products of 16 neighbours along k to the sum so far (MMA-Sim, arXiv:2511.10909). A sum is one chain
// over such blocks in ascending order. It is never split, so neither the tile nor the other rows change a bit. Zeros pad the last
// block, which changes nothing.
//
// A block computes a tile of d, and each of its warps a part of the tile. Asynchronous copies bring tiles of both operands along k.
// Several copies are under way while one tile is multiplied: with few rows, the number of bytes under way decides how fast weights
// arrive, and the multiplications do not. Rows are padded by 8 numbers in shared memory, so that the eight rows of a matrix lie in
// different banks. With many rows the kernel is bound by arithmetic, 2 rows columns depth FLOP on the tensor cores, and a tile of
// Rows by Columns reads (1/Rows + 1/Columns) numbers of global memory per product of two. With few rows it is bound by memory.
//
// Few other instructions may stand between those of the tensor cores. So a warp loads the fragments of the next 16 numbers along k
// before it multiplies the present ones, the addresses of copies are computed once, and the loop has no branches: parts of a tile
// beyond the matrix are zeros, which are multiplied too.
#include "numbers.h"

#define PAD 8

// The sizes of a tile of d, of its warps' parts, and of Stages tiles of Depth along k in shared memory. The host knows the same
// sizes.
template <u32 Rows, u32 Columns, u32 WarpRows, u32 WarpColumns, u32 Depth, u32 Stages>
struct Tile {
  static constexpr u32 rows = Rows, columns = Columns, warp_rows = WarpRows, warp_columns = WarpColumns;
  static constexpr u32 depth = Depth, stages = Stages;
  static constexpr u32 across = Columns / WarpColumns;
  static constexpr u32 threads = Rows / WarpRows * across * 32;
  // Numbers of a stage in shared memory: a's tile, then b's. Those that are transposed must be no larger.
  static constexpr u32 of_a = Rows * (Depth + PAD), of_b = Columns * (Depth + PAD), stage = of_a + of_b;
};
typedef Tile<64, 64, 32, 32, 32, 4> Small;
// Large tiles: each operand is read half as often.
typedef Tile<128, 128, 64, 64, 32, 4> Large;
// Small tiles, if large ones are too few blocks to keep memory busy: fewer columns, and more copies under way.
typedef Tile<64, 32, 16, 32, 64, 7> Narrow;

// One operand's tile in its order in memory: [side, Depth along k], or [Depth along k, side] if the operand is transposed.
template <u32 Side, u32 Depth, bool Transposed>
struct Shape {
  static constexpr u32 rows = Transposed ? Depth : Side;
  static constexpr u32 columns = Transposed ? Side : Depth;
  static constexpr u32 stride = columns + PAD;
};
// A thread's sums: for parts of 16 rows of its warp, and for parts of 8 columns.
#define SUMS(sums, T) float (&sums)[T::warp_rows / 16][T::warp_columns / 8][4]

// Rows of an operand in a tile: first .. of `rows`. If outputs are gated, the operand's rows are two halves, gates and ups. In the
// tile, 16 rows of ups follow each 16 gates: a thread of the tensor core then has both of a pair.
template <bool Gated>
struct Rows {
  u32 first, rows;
};
// The operand's row for row i of the tile; `rows` or more if there is no such row.
template <bool Gated>
DEVICE u32 row_of(Rows<Gated> of, u32 i) {
  if (!Gated) return of.first + i;
  const u32 gate = of.first + i / 32 * 16 + i % 16;
  return gate >= of.rows / 2 ? of.rows : i % 32 < 16 ? gate : of.rows / 2 + gate;
}

// A thread's share of the copies of an operand's tiles: pieces of 8 numbers. The first piece is at line `line` and position
// `column` of the stored tile; the next ones follow `apart` lines further each.
template <u32 Side, u32 Depth, u32 Threads, bool Transposed, bool Gated>
struct Copies {
  typedef Shape<Side, Depth, Transposed> S;
  static constexpr u32 in_a_row = S::columns / 8, pieces = S::rows * in_a_row / Threads, apart = Threads / in_a_row;
  static_assert(Threads % in_a_row == 0 && S::rows % apart == 0, "each thread copies as much");
  static_assert(!Gated || (!Transposed && apart % 16 == 0), "below a gate are gates, or gates and the other half in turn");
  u32 line, column;
  // The address of the first piece in the next tile.
  const bf16* from;
  // Numbers from one row in memory to the next, and from a gate to its up.
  u64 stride, half;
  // The rest of the matrix from the first piece on: rows, or if it is transposed, numbers of a row, up to 8.
  u32 inside;
};
template <u32 Side, u32 Depth, u32 Threads, bool Transposed, bool Gated>
DEVICE void begin_copies(Copies<Side, Depth, Threads, Transposed, Gated>& copies, const bf16* matrix, u32 stride,
                         Rows<Gated> of) {
  typedef Copies<Side, Depth, Threads, Transposed, Gated> C;
  const u32 line = thread_index() / C::in_a_row, column = thread_index() % C::in_a_row * 8;
  copies.line = line;
  copies.column = column;
  copies.stride = stride;
  copies.half = (u64)(of.rows / 2) * stride;
  if (Transposed) {
    const u32 first = of.first + column;
    copies.from = matrix + (u64)line * stride + first;
    copies.inside = first >= of.rows ? 0 : of.rows - first < 8 ? of.rows - first : 8;
  } else {
    const u32 row = row_of(of, line), end = Gated && line % 32 < 16 ? of.rows / 2 : of.rows;
    copies.from = matrix + (u64)row * stride + column;
    copies.inside = row < end ? end - row : 0;
  }
}
// Starts the copies of the next tile. The matrix has `left` numbers or more along k from there. Beyond them the tile gets zeros.
template <u32 Side, u32 Depth, u32 Threads, bool Transposed, bool Gated>
DEVICE void start_copies(Copies<Side, Depth, Threads, Transposed, Gated>& copies, bf16* tile, u32 left) {
  typedef Copies<Side, Depth, Threads, Transposed, Gated> C;
  const u32 along_k = left > copies.column ? left - copies.column : 0;
  UNROLL for (u32 n = 0; n < C::pieces; n++) {
    const u32 below = n * C::apart, rows = Gated ? below / 32 * 16 : below;
    u32 count = Transposed ? (copies.line + below < left ? copies.inside : 0) : rows < copies.inside ? along_k : 0;
    if (count > 8) count = 8;
    const bf16* source = copies.from + rows * copies.stride + (Gated && below % 32 ? copies.half : 0);
    copy_async16(tile + (copies.line + below) * C::S::stride + copies.column, source, count * 2);
  }
  copies.from += Transposed ? Depth * copies.stride : Depth;
}

// The copies of both operands, their position along k, and their stage.
template <typename T, bool TransposedA, bool TransposedB, bool Gated>
struct Supply {
  Copies<T::rows, T::depth, T::threads, TransposedA, false> a;
  Copies<T::columns, T::depth, T::threads, TransposedB, Gated> b;
  u32 left, stage;
};
// The offset of the stage after this one.
template <typename T>
DEVICE u32 next_stage(u32 stage) {
  return stage == (T::stages - 1) * T::stage ? 0 : stage + T::stage;
}
// Starts the copies of the next tiles as one group. Beyond the depth they are zeros, which are not multiplied: without a branch
// here, the compiler puts copies between products.
template <typename T, bool TransposedA, bool TransposedB, bool Gated>
DEVICE void bring_tiles(bf16* tiles, Supply<T, TransposedA, TransposedB, Gated>& supply) {
  start_copies(supply.a, tiles + supply.stage, supply.left);
  start_copies(supply.b, tiles + supply.stage + T::of_a, supply.left);
  commit_copies();
  supply.left = supply.left > T::depth ? supply.left - T::depth : 0;
  supply.stage = next_stage<T>(supply.stage);
}

// The fragments that a warp multiplies together: 16 numbers along k of its rows and of its columns.
template <typename T>
struct Fragments {
  u32 a[T::warp_rows / 16][4], b[T::warp_columns / 16][4];
};
// The offsets of a lane's row of its warp's first matrices, in a tile of a and in a tile of b.
template <typename T, bool Transposed>
DEVICE u32 lane_in_a(u32 row) {
  typedef Shape<T::rows, T::depth, Transposed> S;
  const u32 matrix = lane_index() / 8, line = lane_index() % 8;
  if (Transposed) return (matrix / 2 * 8 + line) * S::stride + row + matrix % 2 * 8;
  return (row + matrix % 2 * 8 + line) * S::stride + matrix / 2 * 8;
}
template <typename T, bool Transposed>
DEVICE u32 lane_in_b(u32 row) {
  typedef Shape<T::columns, T::depth, Transposed> S;
  const u32 matrix = lane_index() / 8, line = lane_index() % 8;
  if (Transposed) return (matrix % 2 * 8 + line) * S::stride + row + matrix / 2 * 8;
  return (row + matrix / 2 * 8 + line) * S::stride + matrix % 2 * 8;
}
// Loads the fragments at k .. + 16 of tiles; a and b are the offsets of the lane's row in them.
template <typename T, bool TransposedA, bool TransposedB>
DEVICE void load_fragments(Fragments<T>& fragments, const bf16* a, const bf16* b, u32 k) {
  typedef Shape<T::rows, T::depth, TransposedA> A;
  typedef Shape<T::columns, T::depth, TransposedB> B;
  UNROLL for (u32 m = 0; m < T::warp_rows / 16; m++) {
    if (TransposedA) {
      load_matrices_transposed(fragments.a[m], a + k * A::stride + m * 16);
    } else {
      load_matrices(fragments.a[m], a + m * 16 * A::stride + k);
    }
  }
  UNROLL for (u32 n = 0; n < T::warp_columns / 16; n++) {
    if (TransposedB) {
      load_matrices_transposed(fragments.b[n], b + k * B::stride + n * 16);
    } else {
      load_matrices(fragments.b[n], b + n * 16 * B::stride + k);
    }
  }
}
template <typename T>
DEVICE void multiply(SUMS(sums, T), const Fragments<T>& fragments) {
  UNROLL for (u32 m = 0; m < T::warp_rows / 16; m++) {
    UNROLL for (u32 n = 0; n < T::warp_columns / 8; n++) {
      const u32 pair[2] = {fragments.b[n / 2][n % 2 * 2], fragments.b[n / 2][n % 2 * 2 + 1]};
      mma(sums[m][n], fragments.a[m], pair);
    }
  }
}

// The position in the tile of one of the thread's sums: part m of its rows, part n of its columns, number i of the fragment.
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

// The block's tile. This number of rows of tiles is computed column by column: blocks that run at the same time then share most of
// their reads, and the device's cache has them.
#define TOGETHER 16
DEVICE Place tile_of_block() {
  if (blocks_x() <= TOGETHER) return {block_x(), block_y()};
  const u32 block = block_y() * blocks_x() + block_x(), first = block / (TOGETHER * blocks_y()) * TOGETHER;
  const u32 rows = blocks_x() - first < TOGETHER ? blocks_x() - first : TOGETHER, i = block - first * blocks_y();
  return {first + i % rows, i / rows};
}

// Adds the products of a tile to each thread's sums.
template <typename T, bool TransposedA, bool TransposedB, bool Gated>
DEVICE void add_products(SUMS(sums, T), const bf16* a, const bf16* b, Rows<false> of_a, Rows<Gated> of_b, u32 depth, u32 a_stride,
                         u32 b_stride) {
  static_assert(Shape<T::rows, T::depth, TransposedA>::rows * Shape<T::rows, T::depth, TransposedA>::stride <= T::of_a, "a's tile");
  static_assert(Shape<T::columns, T::depth, TransposedB>::rows * Shape<T::columns, T::depth, TransposedB>::stride <= T::of_b, "b's");
  static_assert(T::depth % 32 == 0, "fragments change places an even number of times");
  DYNAMIC_SHARED(memory);
  bf16* const tiles = (bf16*)memory;
  Supply<T, TransposedA, TransposedB, Gated> supply;
  begin_copies(supply.a, a, a_stride, of_a);
  begin_copies(supply.b, b, b_stride, of_b);
  supply.left = depth;
  supply.stage = 0;
  for (u32 step = 0; step < T::stages - 1; step++) bring_tiles(tiles, supply);
  const bf16* const of_lane_a = tiles + lane_in_a<T, TransposedA>(warp_row<T>());
  const bf16* const of_lane_b = tiles + T::of_a + lane_in_b<T, TransposedB>(warp_column<T>());
  Fragments<T> fragments[2];
  wait_copies<T::stages - 2>();
  sync();
  load_fragments<T, TransposedA, TransposedB>(fragments[0], of_lane_a, of_lane_b, 0);
  u32 stage = 0, left = depth;
  for (; left >= T::depth; left -= T::depth) {
    const u32 next = next_stage<T>(stage);
    UNROLL for (u32 k = 0; k < T::depth; k += 16) {
      const u32 from = k + 16 < T::depth ? stage : next, next_k = (k + 16) % T::depth;
      if (k + 16 == T::depth) {
        wait_copies<T::stages - 2>();
        // This step's last fragments are with all threads as well: in their place the next step brings tiles.
        sync();
      }
      load_fragments<T, TransposedA, TransposedB>(fragments[(k / 16 + 1) % 2], of_lane_a + from, of_lane_b + from, next_k);
      // These copies overwrite the tiles of the step before.
      if (k == 0) bring_tiles(tiles, supply);
      multiply<T>(sums, fragments[k / 16 % 2]);
    }
    stage = next;
  }
  // A last tile that is not whole. Blocks of 16 beyond the depth are skipped: adding zeros would turn -0 into 0.
  for (u32 k = 0; k < left; k += 16) {
    if (k > 0) load_fragments<T, TransposedA, TransposedB>(fragments[0], of_lane_a + stage, of_lane_b + stage, k);
    multiply<T>(sums, fragments[0]);
  }
}

// A thin product of the same a, computed beside d by the first tiles, so that their chains begin first: the rounded sums of a b^T,
// multiplied by one factor a column. b has the stride of the other b. Without columns there is none.
template <typename Out>
struct Beside {
  const bf16* b;
  const float* factors;
  Out* d;
  u32 columns, d_stride;
};

// Grid: x and y are tiles along the rows and the columns of what is beside d, and then of d. Strides are numbers from one row in
// memory to the next, multiples of 8 for a and b, which lie at multiples of 16 bytes. If it accumulates, sums continue from d. The
// bias is one number a column. If it adds, the values of d are added last, and there is one rounding.
template <typename T, bool TransposedA, bool TransposedB, typename Out>
DEVICE void product(const bf16* a, const bf16* b, const bf16* bias, Out* d, u32 rows, u32 columns, u32 depth, u32 a_stride,
                    u32 b_stride, u32 d_stride, bool accumulates, bool adds, Beside<Out> beside = {}) {
  const Place tile = tile_of_block();
  const u32 end = (beside.columns + T::columns - 1) / T::columns * T::columns;
  u32 first_row = tile.row * T::rows, first_column = tile.column * T::columns - end;
  const auto is_beside = [&] { return beside.columns > 0 && (i32)first_column < 0; };
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
  const Rows<false> of_a = {first_row, rows};
  Rows<false> of_b = {first_column, columns};
  if (is_beside()) {
    of_b = {first_column + end, beside.columns};
    b = beside.b;
  }
  add_products<T, TransposedA, TransposedB>(sums, a, b, of_a, of_b, depth, a_stride, b_stride);
  // The destinations are computed anew here, so that no registers keep them during the products.
  first_row = forgotten(first_row);
  first_column = forgotten(first_column);
  const float* factors = nullptr;
  if (is_beside()) {
    first_column += end;
    d = beside.d;
    columns = beside.columns;
    d_stride = beside.d_stride;
    factors = beside.factors;
    bias = nullptr;
    adds = false;
  }
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
          if (factors) {
            Out rounded;
            store(&rounded, y);
            y = load(&rounded) * factors[column];
          }
          store(out, y);
        }
      }
    }
  }
}

// A kernel for each size of tiles; with narrow ones if the product is part of a decoding step.
#define TILED(KERNEL_OF, name)  \
  KERNEL_OF(name##_64, Small)   \
  EXPORT(name##_64)             \
  KERNEL_OF(name##_128, Large)  \
  EXPORT(name##_128)
#define TILED_OR_NARROW(KERNEL_OF, name)  \
  TILED(KERNEL_OF, name)                  \
  KERNEL_OF(name##_narrow, Narrow)        \
  EXPORT(name##_narrow)

// y = x W^T + b, or added to y; and beside it s * (x A^T), [tokens, ranks], of an adapter. a: x [tokens, inputs], b: W [outputs,
// inputs], thin: A [ranks, inputs].
#define LINEAR(name, T)                                                                                                \
  KERNEL(name, T::threads)(const bf16* a, const bf16* b, const bf16* bias, bf16* d, u32 rows, u32 columns, u32 depth,  \
                           u32 a_stride, u32 b_stride, u32 d_stride, u32 adds, const bf16* thin, const float* factors, \
                           bf16* reduced, u32 ranks, u32 reduced_stride) {                                             \
    const Beside<bf16> beside = {thin, factors, reduced, ranks, reduced_stride};                                       \
    product<T, false, false>(a, b, bias, d, rows, columns, depth, a_stride, b_stride, d_stride, false, adds != 0, beside); \
  }
TILED_OR_NARROW(LINEAR, linear_bf16)

// y = f(gate) * up. gate and up are the halves of x W^T + b, or of gate_up + x W^T + b if it adds; each of their numbers is rounded
// as if it were stored, and is stored in gate_up, [rows, 2 features], if that memory is given. a: x [tokens, inputs], b: W [2 features, inputs]. Grid: x is tiles of rows,
// y tiles of half as many features.
template <typename T>
DEVICE void linear_glu(const bf16* a, const bf16* b, const bf16* bias, bf16* gate_up, bf16* y, u32 rows, u32 features, u32 depth,
                          u32 a_stride, u32 b_stride, u32 gate_up_stride, u32 y_stride, u32 is_gelu, u32 adds) {
  const Place tile = tile_of_block();
  const u32 first_row = tile.row * T::rows, first_feature = tile.column * (T::columns / 2);
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
    // Two parts of ups follow two parts of gates.
    UNROLL for (u32 part = 0; part < T::warp_columns / 16; part++) {
      const u32 n = part / 2 * 4 + part % 2;
      UNROLL for (u32 i = 0; i < 4; i++) {
        const Place at = place_of<T>(m, n, i);
        const u32 row = first_row + at.row, feature = row_of(of_b, at.column);
        if (row < rows && feature < features) {
          bf16 pair[2];
          UNROLL for (u32 half = 0; half < 2; half++) {
            const u64 at = (u64)row * gate_up_stride + half * features + feature;
            float sum = sums[m][n + 2 * half][i];
            if (bias) sum = sum + load(bias + half * features + feature);
            if (adds) sum = load(gate_up + at) + sum;
            store(&pair[half], sum);
            if (gate_up) gate_up[at] = pair[half];
          }
          store(y + (u64)row * y_stride + feature, gated(load(&pair[0]), load(&pair[1]), is_gelu));
        }
      }
    }
  }
}
#define LINEAR_GLU(name, T)                                                                                                    \
  KERNEL(name, T::threads)(const bf16* a, const bf16* b, const bf16* bias, bf16* gate_up, bf16* y, u32 rows, u32 features,     \
                           u32 depth, u32 a_stride, u32 b_stride, u32 gate_up_stride, u32 y_stride, u32 is_gelu, u32 adds) {   \
    linear_glu<T>(a, b, bias, gate_up, y, rows, features, depth, a_stride, b_stride, gate_up_stride, y_stride, is_gelu, adds); \
  }
TILED_OR_NARROW(LINEAR_GLU, linear_glu_bf16)

#define PLAIN(name, T, Out, transposed_a, transposed_b, accumulates)                                                            \
  KERNEL(name, T::threads)(const bf16* a, const bf16* b, Out* d, u32 rows, u32 columns, u32 depth, u32 a_stride, u32 b_stride,  \
                              u32 d_stride) {                                                                                   \
    product<T, transposed_a, transposed_b>(a, b, nullptr, d, rows, columns, depth, a_stride, b_stride, d_stride, accumulates,   \
                                              false);                                                                           \
  }

// y = x W^T in f32, not rounded: the head's logits.
#define LOGITS(name, T) PLAIN(name, T, float, false, false, false)
TILED_OR_NARROW(LOGITS, logits_bf16)

// dx = dy W. a: dy [tokens, outputs], b: W [outputs, inputs], transposed.
#define BACKWARD_INPUT(name, T) PLAIN(name, T, bf16, false, true, false)
TILED(BACKWARD_INPUT, linear_backward_input_bf16)

// dx in f32; its sums continue from dx. The head's gradient, over a part of the vocabulary.
#define HEAD_BACKWARD_INPUT(name, T)                                                                                              \
  KERNEL(name, T::threads)(const bf16* a, const bf16* b, float* d, u32 rows, u32 columns, u32 depth, u32 a_stride, u32 b_stride,  \
                              u32 d_stride, u32 resumes) {                                                                        \
    product<T, false, true>(a, b, nullptr, d, rows, columns, depth, a_stride, b_stride, d_stride, resumes != 0, false);           \
  }
TILED(HEAD_BACKWARD_INPUT, head_backward_input_bf16)

// dW += dy^T x; sums continue from dW. a: dy [tokens, outputs], b: x [tokens, inputs], both transposed.
#define BACKWARD_WEIGHT(name, T) PLAIN(name, T, float, true, true, true)
TILED(BACKWARD_WEIGHT, linear_backward_weight_bf16)
