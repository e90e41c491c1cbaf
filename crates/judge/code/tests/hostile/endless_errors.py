# Tries: to write without end to standard error.
# Scripts: time_limit
# Calls: time_limit
# Assertions: time_limit
import sys


def answer(number):
    while True:
        sys.__stderr__.write("x" * 65536)
