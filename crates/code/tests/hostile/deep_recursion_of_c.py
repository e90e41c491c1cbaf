# Tries: to have the interpreter's own functions call themselves until the stack is full.
# Scripts: runtime_error
# Calls: runtime_error
# Assertions: runtime_error
import sys


def answer(number):
    sys.setrecursionlimit(1 << 30)
    return list(map(answer, [number]))
