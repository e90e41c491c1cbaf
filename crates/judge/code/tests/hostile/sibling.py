# Tries: to start a process as a child of the first one, by a raw system call, and to leave it behind.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions: wrong_answer
import ctypes
import os
import platform
import time

CLONE_PARENT = 0x8000


def answer(number):
    libc = ctypes.CDLL(None, use_errno=True)
    call = 56 if platform.machine() == "x86_64" else 220
    for ends_with in (0, 9, 17):
        if libc.syscall(call, CLONE_PARENT | ends_with, None, None, None, None) == 0:
            os.setsid()
            while True:
                time.sleep(1)
    return "left"
