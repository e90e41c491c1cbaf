# Tries: to end with success by a system call, in the middle of a call.
# Scripts: wrong_answer
# Calls: runtime_error: it ended itself in the middle of a call
# Assertions in every style: runtime_error: it ended itself in the middle of a call
import ctypes


def answer(number):
    ctypes.CDLL(None)._exit(0)
