// Where g++ -fsanitize=thread tells of loads and stores. This is not ThreadSanitizer: the emulator looks at them itself, since it
// knows what is ordered in a block and what is not.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef void (*Access)(const void* address, u64 bytes, u32 writes);

// Constructors of the library run before there is anybody to tell.
static void untold(const void*, u64, u32) {}
static Access access = untold;

extern "C" {
void isentrope_accesses(Access function) { access = function; }

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define SIZE(n)                                                    \
  void __tsan_read##n(void* p) { access(p, n, 0); }              \
  void __tsan_write##n(void* p) { access(p, n, 1); }             \
  void __tsan_unaligned_read##n(void* p) { access(p, n, 0); }    \
  void __tsan_unaligned_write##n(void* p) { access(p, n, 1); }   \
  void __tsan_volatile_read##n(void* p) { access(p, n, 0); }     \
  void __tsan_volatile_write##n(void* p) { access(p, n, 1); }
SIZE(1)
SIZE(2)
SIZE(4)
SIZE(8)
SIZE(16)
void __tsan_read_range(void* p, u64 bytes) { access(p, bytes, 0); }
void __tsan_write_range(void* p, u64 bytes) { access(p, bytes, 1); }
void __tsan_vptr_update(void**, void*) {}
}
