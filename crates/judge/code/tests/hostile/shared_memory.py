# Tries: to leave something where other processes would find it: semaphores, shared memory, locks.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions: wrong_answer
import fcntl
import mmap
import os
from multiprocessing import Lock, shared_memory


def answer(number):
    for leave in (lambda: Lock().acquire(), lambda: shared_memory.SharedMemory("@TRACE@.trace", True, 1 << 20)):
        try:
            leave()
        except OSError:
            pass
    file = os.open("/tmp/@TRACE@.trace", os.O_RDWR | os.O_CREAT)
    os.truncate(file, 1 << 20)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        pass
    mmap.mmap(file, 1 << 20).write(b"x" * (1 << 20))
    return "left"
