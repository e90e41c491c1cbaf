// Every instruction of the device that kernels use. NVRTC compiles it to PTX; on the host, the same names call the emulator
// (tools/cuda-emulator), which is how kernels are tested where there is no GPU.
//
// A kernel's file is `#include "device.h"`, device functions, kernels, and one EXPORT for each:
//
//     #include "device.h"
//     template <typename T> DEVICE void scale(const T* x, T* y, u32 n, float by) {
//       const u32 i = block_x() * block_threads() + thread_index();
//       if (i < n) store(y + i, load(x + i) * by);
//     }
//     KERNEL(scale_f32, 128)(const float* x, float* y, u32 n, float by) { scale(x, y, n, by); }
//     KERNEL(scale_bf16, 128)(const bf16* x, bf16* y, u32 n, float by) { scale(x, y, n, by); }
//     EXPORT(scale_f32)
//     EXPORT(scale_bf16)
//
// Rules, which the emulator checks:
// - Blocks have one dimension, a multiple of 32 threads, at most as many as KERNEL says.
// - A barrier is reached by all threads of the block at the same place in the source, a collective by all lanes of the warp.
//   So no thread returns, and no lane branches away, before the last one of them.
// - Vectors of 8 and 16 bytes lie at multiples of their size, in registers, shared and global memory alike.
// - Parameters are pointers and u32, i32, u64, i64, float, double.
// - `a * b + c` is never fused (--fmad=false, -ffp-contract=off); mul_add is.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

// The upper half of a float.
struct bf16 {
  u16 bits;
};
// Vectors that one instruction loads or stores.
struct alignas(8) Words2 {
  u32 words[2];
};
struct alignas(16) Words4 {
  u32 words[4];
};

#ifdef __CUDACC_RTC__
// ---------------------------------------------------------------------------------------------------------- the GPU

#define DEVICE __device__ __forceinline__
// A kernel whose blocks have at most `threads` threads. The 1 asks for one block on a multiprocessor: without it, the compiler
// keeps registers in memory to make room for more blocks.
#define KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads, 1) name
// Makes a kernel known to the emulator.
#define EXPORT(name)
// Shared memory of the block, aligned to 16 bytes: SHARED(float, tile, [16][72]);
#define SHARED(type, name, dimensions) __shared__ __align__(16) type name dimensions
// The launch's dynamic shared memory, as u8*, aligned to 16 bytes.
#define DYNAMIC_SHARED(name)                               \
  extern __shared__ __align__(16) u8 dynamic_shared_[]; \
  u8* const name = dynamic_shared_
// Unrolls the loop that follows.
#define UNROLL _Pragma("unroll")
// Keeps the compiler from unrolling the loop that follows.
#define ROLL _Pragma("unroll 1")

DEVICE u32 thread_index() { return threadIdx.x; }
DEVICE u32 block_threads() { return blockDim.x; }
DEVICE u32 block_x() { return blockIdx.x; }
DEVICE u32 block_y() { return blockIdx.y; }
DEVICE u32 block_z() { return blockIdx.z; }
DEVICE u32 blocks_x() { return gridDim.x; }
DEVICE u32 blocks_y() { return gridDim.y; }

DEVICE float mul_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE double mul_add(double a, double b, double c) { return __fma_rn(a, b, c); }
DEVICE float divide(float a, float b) { return __fdiv_rn(a, b); }
DEVICE double divide(double a, double b) { return __ddiv_rn(a, b); }
DEVICE float square_root(float x) { return __fsqrt_rn(x); }
DEVICE double square_root(double x) { return __dsqrt_rn(x); }
DEVICE float maximum(float a, float b) { return fmaxf(a, b); }

DEVICE u32 bits_of(float x) { return __float_as_uint(x); }
DEVICE u64 bits_of(double x) { return (u64)__double_as_longlong(x); }
DEVICE float float_of(u32 bits) { return __uint_as_float(bits); }
DEVICE double double_of(u64 bits) { return __longlong_as_double((long long)bits); }

DEVICE bf16 to_bf16(float x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
DEVICE u32 pack_bf16(float low, float high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

DEVICE void sync() { __syncthreads(); }
DEVICE void sync_warp() { __syncwarp(); }
template <typename T>
DEVICE T shuffle(T value, u32 from) {
  return __shfl_sync(~0u, value, (int)from);
}
template <typename T>
DEVICE T shuffle_xor(T value, u32 mask) {
  return __shfl_xor_sync(~0u, value, (int)mask);
}

DEVICE u32 forgotten(u32 x) {
  asm volatile("" : "+r"(x));
  return x;
}

// A function instead of assembly, so that the compiler understands it: an address at a constant distance from another becomes an
// instruction's offset.
DEVICE u32 shared_address_(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEVICE void mma(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void load_matrices(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address_(row))
               : "memory");
}
DEVICE void load_matrices_transposed(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address_(row))
               : "memory");
}
DEVICE void load_matrices(u32 (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address_(row))
               : "memory");
}
DEVICE void load_matrices_transposed(u32 (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address_(row))
               : "memory");
}

DEVICE void copy_async16(void* shared, const void* global, u32 bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address_(shared)), "l"(global), "r"(bytes)
               : "memory");
}
DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <u32 Groups>
DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
}

template <typename Vector>
DEVICE Vector load_vector_(const void* p) {
  return *(const Vector*)p;
}
template <typename Vector>
DEVICE void store_vector_(void* p, Vector value) {
  *(Vector*)p = value;
}

#else
// -------------------------------------------------------------------------------------------------------- the emulator

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "emulator.h"

#define DEVICE static inline
#define KERNEL(name, threads)                         \
  static constexpr u32 name##_threads_ = threads; \
  static void name
#define EXPORT(name) static const emulator::Export name##_export_(#name, name, name##_threads_, &emulated_unit_);
#define SHARED(type, name, dimensions)    \
  typedef type name##_array_ dimensions; \
  static const char name##_site_ = 0;     \
  name##_array_& name = *(name##_array_*)emulated_shared(&name##_site_, sizeof(name##_array_), #name)
#define DYNAMIC_SHARED(name) u8* const name = (u8*)emulated_dynamic_shared()
#define UNROLL
#define ROLL

DEVICE u32 thread_index() { return emulated_position->thread; }
DEVICE u32 block_threads() { return emulated_position->threads; }
DEVICE u32 block_x() { return emulated_position->block[0]; }
DEVICE u32 block_y() { return emulated_position->block[1]; }
DEVICE u32 block_z() { return emulated_position->block[2]; }
DEVICE u32 blocks_x() { return emulated_position->blocks[0]; }
DEVICE u32 blocks_y() { return emulated_position->blocks[1]; }

DEVICE float mul_add(float a, float b, float c) { return fmaf(a, b, c); }
DEVICE double mul_add(double a, double b, double c) { return fma(a, b, c); }
DEVICE float divide(float a, float b) { return a / b; }
DEVICE double divide(double a, double b) { return a / b; }
DEVICE float square_root(float x) { return sqrtf(x); }
DEVICE double square_root(double x) { return sqrt(x); }

DEVICE u32 bits_of(float x) {
  u32 bits;
  memcpy(&bits, &x, 4);
  return bits;
}
DEVICE u64 bits_of(double x) {
  u64 bits;
  memcpy(&bits, &x, 8);
  return bits;
}
DEVICE float float_of(u32 bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
DEVICE double double_of(u64 bits) {
  double x;
  memcpy(&x, &bits, 8);
  return x;
}

// As PTX defines it: if one operand is NaN, the other operand; and -0 is below +0.
DEVICE float maximum(float a, float b) {
  if (a != a) return b != b ? float_of(0x7fffffff) : b;
  if (b != b) return a;
  return a > b || (a == b && bits_of(b) >> 31) ? a : b;
}

// Rounds to nearest, ties to even. Every NaN becomes the same NaN.
DEVICE bf16 to_bf16(float x) {
  const u32 bits = bits_of(x);
  bf16 y;
  y.bits = x != x ? 0x7fff : (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  return y;
}
DEVICE u32 pack_bf16(float low, float high) { return to_bf16(low).bits | (u32)to_bf16(high).bits << 16; }

DEVICE void sync(u32 line = __builtin_LINE()) { emulated_sync(line); }
DEVICE void sync_warp(u32 line = __builtin_LINE()) { emulated_warp(emulator::SYNC, 0, 0, 0, 0, line); }
template <typename T>
DEVICE T shuffle(T value, u32 from, u32 line = __builtin_LINE()) {
  emulated_warp(emulator::SHUFFLE, &value, sizeof(T), from, 0, line);
  return value;
}
template <typename T>
DEVICE T shuffle_xor(T value, u32 mask, u32 line = __builtin_LINE()) {
  emulated_warp(emulator::SHUFFLE_XOR, &value, sizeof(T), mask, 0, line);
  return value;
}

DEVICE u32 forgotten(u32 x) { return x; }

DEVICE void mma(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], u32 line = __builtin_LINE()) {
  emulator::Mma operands = {{d[0], d[1], d[2], d[3]}, {a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  emulated_warp(emulator::MMA, &operands, sizeof operands, 0, 0, line);
  for (int i = 0; i < 4; i++) d[i] = operands.d[i];
}
DEVICE void load_matrices(u32 (&r)[4], const void* row, u32 line = __builtin_LINE()) {
  emulated_warp(emulator::LOAD_MATRICES, r, 16, 0, row, line);
}
DEVICE void load_matrices_transposed(u32 (&r)[4], const void* row, u32 line = __builtin_LINE()) {
  emulated_warp(emulator::LOAD_MATRICES_TRANSPOSED, r, 16, 0, row, line);
}
DEVICE void load_matrices(u32 (&r)[2], const void* row, u32 line = __builtin_LINE()) {
  emulated_warp(emulator::LOAD_MATRICES, r, 8, 0, row, line);
}
DEVICE void load_matrices_transposed(u32 (&r)[2], const void* row, u32 line = __builtin_LINE()) {
  emulated_warp(emulator::LOAD_MATRICES_TRANSPOSED, r, 8, 0, row, line);
}

DEVICE void copy_async16(void* shared, const void* global, u32 bytes = 16, u32 line = __builtin_LINE()) {
  emulated_copy(shared, global, 16, bytes, line);
}
DEVICE void commit_copies() { emulated_commit(); }
template <u32 Groups>
DEVICE void wait_copies() {
  emulated_wait(Groups);
}

template <typename Vector>
DEVICE Vector load_vector_(const void* p, u32 line) {
  emulated_aligned(p, sizeof(Vector), line);
  return *(const Vector*)p;
}
template <typename Vector>
DEVICE void store_vector_(void* p, Vector value, u32 line) {
  emulated_aligned(p, sizeof(Vector), line);
  *(Vector*)p = value;
}

#endif
// ---------------------------------------------------------------------------------------------------------------- both

// 32 lanes are a warp.
DEVICE u32 lane_index() { return thread_index() % 32; }
DEVICE u32 warp_index() { return thread_index() / 32; }

DEVICE float infinity() { return float_of(0x7f800000); }
DEVICE float to_float(bf16 x) { return float_of((u32)x.bits << 16); }
DEVICE float to_float(float x) { return x; }
// The two halves of a pair of bf16, as in a word of memory.
DEVICE float low_bf16(u32 pair) { return float_of(pair << 16); }
DEVICE float high_bf16(u32 pair) { return float_of(pair & 0xffff0000); }

// Loads and stores of numbers, of either storage type.
DEVICE float load(const float* p) { return *p; }
DEVICE float load(const bf16* p) { return to_float(*p); }
DEVICE void store(float* p, float x) { *p = x; }
DEVICE void store(bf16* p, float x) { *p = to_bf16(x); }

// Loads and stores of 8 and 16 bytes.
#ifdef __CUDACC_RTC__
DEVICE Words2 load_words2(const void* p) { return load_vector_<Words2>(p); }
DEVICE Words4 load_words4(const void* p) { return load_vector_<Words4>(p); }
DEVICE void store_words2(void* p, Words2 value) { store_vector_(p, value); }
DEVICE void store_words4(void* p, Words4 value) { store_vector_(p, value); }
#else
DEVICE Words2 load_words2(const void* p, u32 line = __builtin_LINE()) { return load_vector_<Words2>(p, line); }
DEVICE Words4 load_words4(const void* p, u32 line = __builtin_LINE()) { return load_vector_<Words4>(p, line); }
DEVICE void store_words2(void* p, Words2 value, u32 line = __builtin_LINE()) { store_vector_(p, value, line); }
DEVICE void store_words4(void* p, Words4 value, u32 line = __builtin_LINE()) { store_vector_(p, value, line); }
#endif

// The names above whose meaning is not plain:
//
// sync                   the block's barrier; memory written before it is seen behind it.
// sync_warp              the same for a warp.
// shuffle(v, lane)       v of that lane, modulo 32; _xor: of the lane with those bits flipped. float, u32, i32, u64, i64, double.
// forgotten(x)           x, as a value that the compiler knows nothing about: what is computed from it is computed anew.
// mma(d, a, b)           d += a b on the tensor core, m16n8k16, bf16 into f32. With g = lane / 4 and t = lane % 4, each word
//                        holds two neighbours along k, the lower one in the low half:
//                          a[i]: row g + 8 (i % 2), k = 2 t + 8 (i / 2) and the next
//                          b[i]: k = 2 t + 8 i and the next, column g
//                          d[i]: row g + 8 (i / 2), column 2 t + i % 2
// load_matrices(r, row)  ldmatrix: lane 8 i + j gives the address of row j, 8 bf16, of matrix i in shared memory; r[i] gets
//                        row g, columns 2 t and 2 t + 1 of matrix i. Transposed: rows 2 t and 2 t + 1 of column g. With two
//                        matrices the addresses of lanes 16 .. are not used.
// copy_async16           16 bytes from global to shared memory, at multiples of 16: the first `bytes` are copied, the others
//                        are zeros. The copying thread has them after wait_copies, the others after a sync behind it.
// commit_copies          makes a group of the copies since the last commit.
// wait_copies<n>()       waits for all of the thread's groups but the last n.
// maximum                the number if the other is NaN; -0 is below +0.
// mul_add, divide, square_root  correctly rounded, with subnormals.
