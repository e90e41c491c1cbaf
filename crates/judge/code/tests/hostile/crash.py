# Tries: to crash the interpreter.
# Scripts: runtime_error: SIGSEGV
# Calls: runtime_error: SIGSEGV
# Assertions: runtime_error: SIGSEGV
import ctypes


def answer(number):
    ctypes.memset(1, 0, 1)
