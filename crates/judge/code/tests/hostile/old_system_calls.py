# Tries: to make system calls by the door that programs of 32 bits use, which has other numbers.
# Scripts: runtime_error
# Calls: runtime_error
# Assertions: runtime_error
import ctypes
import mmap
import platform


def answer(number):
    if platform.machine() != "x86_64":
        raise RuntimeError("there is no such door")
    # mov eax, 20; int 0x80; ret: which process is this?
    code = bytes.fromhex("b814000000cd80c3")
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    found = ctypes.CFUNCTYPE(ctypes.c_int)(at)()
    return f"it is {found}"
