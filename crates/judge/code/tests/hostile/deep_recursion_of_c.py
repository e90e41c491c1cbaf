# Tries: to have the interpreter's own functions call themselves until the stack is full.
# Scripts: runtime_error or memory_limit
# Calls: runtime_error or memory_limit
# Assertions: runtime_error or memory_limit
import sys


def answer(number):
    sys.setrecursionlimit(1 << 30)
    return list(map(answer, [number]))
