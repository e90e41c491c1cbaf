# Tries: to print exactly what is allowed.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions: wrong_answer
import sys


def answer(number):
    sys.stdout.write("x" * ((1 << 20) - 5))
    return "done"
