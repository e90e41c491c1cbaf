// The emulator's side of device.h: the functions that kernels call in place of the GPU's
// instructions. They are defined in src/calls.rs; a library of kernels gets their addresses when it
// is loaded.
#pragma once

#include <utility>

namespace emulator {

// Operations of a warp, as in src/collective.rs.
enum Operation : u32 {
  SYNC,
  SHUFFLE,
  SHUFFLE_XOR,
  MMA,
  LOAD_MATRICES,
  LOAD_MATRICES_TRANSPOSED,
};

// A lane's operands of an mma, and its results.
struct Mma {
  float d[4];
  u32 a[4];
  u32 b[2];
};

// A thread's position in the grid, as in src/worker.rs.
struct ThreadPosition {
  u32 thread;
  u32 threads;
  u32 block[3];
  u32 blocks[3];
};

// As in src/calls.rs.
struct Calls {
  void (*sync)(u32 line);
  void (*warp)(u32 operation, void* value, u32 bytes, u32 number, const void* address, u32 line);
  void* (*shared)(const void* site, u64 bytes, const char* name);
  void* (*dynamic_shared)();
  void (*copy)(void* shared, const void* global, u32 bytes, u32 given, u32 line);
  void (*commit)();
  void (*wait)(u32 groups);
  void (*misaligned)(const void* address, u32 bytes, u32 line);
  void (*access)(const void* address, u64 bytes, u32 writes);
};

// Set when the library is loaded.
static const Calls* calls;

// A kernel's stack lies at a multiple of its size and begins with the address of its position, which can so be found without
// thread-local storage; src/fiber.rs says where it begins.
static inline __attribute__((always_inline)) const ThreadPosition* position() {
  const u64 top = ((u64)__builtin_frame_address(0) | (EMULATED_STACK - 1)) + 1;
  return *(const ThreadPosition* const*)(top - 64 - ((top >> 17) & 127) * 64);
}

// Kinds of parameters, as in src/unit.rs.
template <typename T>
struct Kind;
template <typename T>
struct Kind<T*> {
  static constexpr u8 kind = 0;
};
template <>
struct Kind<u32> {
  static constexpr u8 kind = 1;
};
template <>
struct Kind<u64> {
  static constexpr u8 kind = 2;
};
template <>
struct Kind<float> {
  static constexpr u8 kind = 3;
};

template <typename T>
static T argument(u64 bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename... A, size_t... I>
static void call_with(void (*f)(A...), const u64* bits, std::index_sequence<I...>) {
  f(argument<A>(bits[I])...);
}

template <typename... A>
static void call(void (*f)(), const u64* bits) {
  call_with((void (*)(A...))f, bits, std::index_sequence_for<A...>());
}

// A kernel of the library, in a list; as in src/unit.rs.
struct Export {
  const Export* next;
  const char* name;
  void (*function)();
  void (*call)(void (*)(), const u64*);
  u32 threads;
  u32 parameters;
  u8 kinds[32];

  template <typename... A>
  Export(const char* name, void (*f)(A...), u32 threads, const Export** list)
      : next(*list),
        name(name),
        function((void (*)())f),
        call(emulator::call<A...>),
        threads(threads),
        parameters(sizeof...(A)),
        kinds{Kind<A>::kind...} {
    static_assert(sizeof...(A) <= 32, "a kernel takes at most 32 parameters");
    *list = this;
  }
};

}  // namespace emulator

static const emulator::Export* emulated_unit_;

#define emulated_position (emulator::position())
static inline void emulated_sync(u32 line) { emulator::calls->sync(line); }
static inline void emulated_warp(u32 operation, void* value, u32 bytes, u32 number, const void* address, u32 line) {
  emulator::calls->warp(operation, value, bytes, number, address, line);
}
static inline void* emulated_shared(const void* site, u64 bytes, const char* name) {
  return emulator::calls->shared(site, bytes, name);
}
static inline void* emulated_dynamic_shared() { return emulator::calls->dynamic_shared(); }
static inline void emulated_copy(void* shared, const void* global, u32 bytes, u32 given, u32 line) {
  emulator::calls->copy(shared, global, bytes, given, line);
}
static inline void emulated_commit() { emulator::calls->commit(); }
static inline void emulated_wait(u32 groups) { emulator::calls->wait(groups); }
static inline void emulated_aligned(const void* p, u32 bytes, u32 line) {
  if ((u64)p % bytes) emulator::calls->misaligned(p, bytes, line);
}
