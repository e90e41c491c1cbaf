# Tries: to print one byte more than is allowed.
# Scripts: output_limit
# Calls: output_limit
# Assertions: output_limit
import sys


def answer(number):
    sys.stdout.write("x" * ((1 << 20) - 1))
    sys.stdout.flush()
    return "x" * (1 << 20)
