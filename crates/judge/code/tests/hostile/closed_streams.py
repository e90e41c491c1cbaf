# Tries: to close all descriptors, its pipes among them.
# Scripts: runtime_error
# Calls: runtime_error or time_limit
# Assertions: runtime_error or time_limit
import os


def answer(number):
    os.closerange(0, 1 << 10)
    return "closed"
