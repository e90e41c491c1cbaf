# Tries: to take memory in files without names, by mapping them.
# Scripts: runtime_error or memory_limit
# Calls: runtime_error or memory_limit
# Assertions: runtime_error or memory_limit
import mmap
import os


def answer(number):
    taken = []
    while True:
        file = os.open("/tmp/file", os.O_RDWR | os.O_CREAT)
        os.unlink("/tmp/file")
        os.ftruncate(file, 16 << 20)
        os.posix_fallocate(file, 0, 16 << 20)
        taken.append(mmap.mmap(file, 16 << 20))
