// Copies, sums and row selection: crates/compute/kernels/src/{rows,embedding}.rs. All are bound by memory; each comment has the
// bytes read and written per element.
#include "numbers.h"

// Elements of a thread. They are a block's width apart, so that neighbouring threads touch neighbouring elements.
#define PER_THREAD 4
#define THREADS 256

// Calls body with the index of each of this thread's elements.
#define EACH(i, count)                                                                               \
  for (u64 i = (u64)block_x() * (THREADS * PER_THREAD) + thread_index(), i##_end_ = i + THREADS * PER_THREAD; \
       i < i##_end_ && i < (count); i += THREADS)

// Sets words. Grid: 1024 words a block. Writes 4 bytes per word.
KERNEL(fill_words, THREADS)(u32* to, u64 words, u32 value) { EACH(i, words) to[i] = value; }
EXPORT(fill_words)

// Sets halves of words. Grid: 1024 a block. Writes 2 bytes per half.
KERNEL(fill_halves, THREADS)(u16* to, u64 halves, u32 value) { EACH(i, halves) to[i] = (u16)value; }
EXPORT(fill_halves)

// Sets halves to random bf16, evenly in [-range, range): each from 24 bits of splitmix64 at its index. Grid: 1024 a block. Writes 2
// bytes per half.
KERNEL(fill_random, THREADS)(bf16* to, u64 halves, u64 seed, float range) {
  EACH(i, halves) {
    u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    const float unit = (float)(u32)((z ^ (z >> 31)) >> 40) * 1.1920928955078125e-7f - 1.0f;
    to[i] = to_bf16(unit * range);
  }
}
EXPORT(fill_random)

// to[slots ? slots[i] : i] = from[rows ? rows[i] : i], unless the slot is NO_SLOT. Grid: 1024 numbers a block. Reads and writes a
// number.
template <typename Word>
DEVICE void copy_rows(const Word* from, const u32* rows, Word* to, const u32* slots, u32 count, u32 features, u32 from_stride,
                      u32 to_stride) {
  EACH(i, (u64)count * features) {
    const Cell cell = cell_of(i, features);
    const u32 row = cell.row, feature = cell.column;
    const u64 source = rows ? rows[row] : row, target = slots ? slots[row] : row;
    if (target != NO_SLOT) to[target * to_stride + feature] = from[source * from_stride + feature];
  }
}
KERNEL(copy_rows_f32, THREADS)(const u32* from, const u32* rows, u32* to, const u32* slots, u32 count, u32 features, u32 from_stride,
                               u32 to_stride) {
  copy_rows(from, rows, to, slots, count, features, from_stride, to_stride);
}
KERNEL(copy_rows_bf16, THREADS)(const u16* from, const u32* rows, u16* to, const u32* slots, u32 count, u32 features,
                                u32 from_stride, u32 to_stride) {
  copy_rows(from, rows, to, slots, count, features, from_stride, to_stride);
}
EXPORT(copy_rows_f32)
EXPORT(copy_rows_bf16)

// Exact rows to activations, rounded. Grid: 1024 numbers a block. Reads 4 bytes, writes 2.
KERNEL(round_rows, THREADS)(const float* from, bf16* to, u32 count, u32 features, u32 from_stride, u32 to_stride) {
  EACH(i, (u64)count * features) {
    const Cell cell = cell_of(i, features);
    const u32 row = cell.row, feature = cell.column;
    store(to + (u64)row * to_stride + feature, from[(u64)row * from_stride + feature]);
  }
}
EXPORT(round_rows)

// d = sums + bias, or d += sums + bias, with one rounding: the end of a layer whose sums, [rows, columns], are not rounded yet.
// Columns and the stride are multiples of 8, and sums and rows of d lie at multiples of 16 bytes. Grid: 1024 numbers a block, 4 a
// thread. Reads 4 bytes, 2 more if it adds, writes 2.
KERNEL(add_and_round, THREADS)(const float* sums, const bf16* bias, bf16* d, u32 rows, u32 columns, u32 d_stride, u32 adds) {
  const u32 pieces = columns / 4, i = block_x() * THREADS + thread_index();
  const u32 row = i / pieces, column = i % pieces * 4;
  if (row >= rows) return;
  bf16* const to = d + (u64)row * d_stride + column;
  store_words2(to, finished(sums + (u64)row * columns + column, bias ? bias + column : nullptr, adds ? to : nullptr));
}
EXPORT(add_and_round)

// to += from, number by number. Grid: 1024 numbers a block. Reads two numbers, writes one.
template <typename T>
DEVICE void add_numbers(const T* from, T* to, u64 count) {
  EACH(i, count) store(to + i, load(to + i) + load(from + i));
}
KERNEL(add_f32, THREADS)(const float* from, float* to, u64 count) { add_numbers(from, to, count); }
KERNEL(add_bf16, THREADS)(const bf16* from, bf16* to, u64 count) { add_numbers(from, to, count); }
EXPORT(add_f32)
EXPORT(add_bf16)

// x *= factors, row by row. Grid: 1024 numbers of x a block. Reads and writes a number of x; a factor comes from the cache.
template <typename T>
DEVICE void scale_rows(const float* factors, T* x, u32 rows, u32 features, u32 stride) {
  EACH(i, (u64)rows * features) {
    const Cell cell = cell_of(i, features);
    T* const at = x + (u64)cell.row * stride + cell.column;
    store(at, load(at) * factors[cell.column]);
  }
}
KERNEL(scale_rows_f32, THREADS)(const float* factors, float* x, u32 rows, u32 features, u32 stride) {
  scale_rows(factors, x, rows, features, stride);
}
KERNEL(scale_rows_bf16, THREADS)(const float* factors, bf16* x, u32 rows, u32 features, u32 stride) {
  scale_rows(factors, x, rows, features, stride);
}
EXPORT(scale_rows_f32)
EXPORT(scale_rows_bf16)

// For each group of rows of `from`, which are added to one row of `to`: one chain in their order, in f32, which continues from
// `to`. Group g is order[starts[g] .. starts[g + 1]]. Grid: 1024 numbers of `to` a block. Reads each number of `from` once, and
// reads and writes one of `to` for each group.
template <typename From, typename To>
DEVICE void add_rows(const From* from, const u32* keys, const u32* starts, const u32* order, To* to, u32 groups, u32 features,
                     u32 from_stride, u32 to_stride) {
  EACH(i, (u64)groups * features) {
    const Cell cell = cell_of(i, features);
    const u32 group = cell.row, feature = cell.column;
    To* target = to + (u64)keys[group] * to_stride + feature;
    float sum = load(target);
    for (u32 n = starts[group]; n < starts[group + 1]; n++) sum += load(from + (u64)order[n] * from_stride + feature);
    store(target, sum);
  }
}
#define ADD_ROWS(name, From, To)                                                                                         \
  KERNEL(name, THREADS)(const From* from, const u32* keys, const u32* starts, const u32* order, To* to, u32 groups, u32 features, \
                        u32 from_stride, u32 to_stride) {                                                                 \
    add_rows(from, keys, starts, order, to, groups, features, from_stride, to_stride);                                   \
  }                                                                                                                       \
  EXPORT(name)
ADD_ROWS(scatter_rows_f32, float, float)
ADD_ROWS(scatter_rows_bf16, bf16, bf16)
ADD_ROWS(embed_backward_bf16, bf16, float)

// This bit marks a token that a draw leaves on the device; the other bits are the draw's index.
#define DRAWN 0x80000000u

// y[t] = embedding[tokens[t]] from packed weights. Drawn tokens are pairs of a token and its log-prob. Grid: 1024 numbers a block.
// Reads and writes a number.
template <typename T>
DEVICE void embed(const T* packed, const u32* tokens, const u32* drawn, T* y, u32 count, u32 inputs, u32 outputs, u32 stride,
                  u32 y_stride) {
  EACH(i, (u64)count * inputs) {
    const Cell cell = cell_of(i, inputs);
    const u32 row = cell.row, input = cell.column;
    const u32 known = tokens[row], token = known & DRAWN ? drawn[2 * (known & ~DRAWN)] : known;
    y[(u64)row * y_stride + input] = packed[weight_at(token, input, inputs, outputs, stride)];
  }
}
KERNEL(embed_f32, THREADS)(const float* packed, const u32* tokens, const u32* drawn, float* y, u32 count, u32 inputs, u32 outputs,
                           u32 stride, u32 y_stride) {
  embed(packed, tokens, drawn, y, count, inputs, outputs, stride, y_stride);
}
KERNEL(embed_bf16, THREADS)(const bf16* packed, const u32* tokens, const u32* drawn, bf16* y, u32 count, u32 inputs, u32 outputs,
                            u32 stride, u32 y_stride) {
  embed(packed, tokens, drawn, y, count, inputs, outputs, stride, y_stride);
}
EXPORT(embed_f32)
EXPORT(embed_bf16)

// packed[tokens[slot]] += rows[slot] in a gradient; tokens are distinct. Grid: 1024 numbers a block. Reads 8 bytes, writes 4.
KERNEL(add_embedding_rows, THREADS)(const float* rows, const u32* tokens, float* packed, u32 count, u32 inputs, u32 outputs,
                                    u32 stride) {
  EACH(i, (u64)count * inputs) {
    const Cell cell = cell_of(i, inputs);
    const u32 row = cell.row, input = cell.column;
    float* p = packed + weight_at(tokens[row], input, inputs, outputs, stride);
    *p = *p + rows[(u64)row * inputs + input];
  }
}
EXPORT(add_embedding_rows)
