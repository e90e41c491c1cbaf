# Tries: to end with success instead of an answer.
# Scripts: wrong_answer
# Calls: runtime_error
# Assertions in every style: runtime_error
import sys


def answer(number):
    sys.exit(0)
