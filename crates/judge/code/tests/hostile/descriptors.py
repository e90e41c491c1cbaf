# Tries: to open files until there can be no more.
# Scripts: runtime_error: Too many open files
# Calls: runtime_error: Too many open files
# Assertions: runtime_error: Too many open files
import os


def answer(number):
    while True:
        os.dup(0)
