# Tries: to return a generator without end.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions: wrong_answer
import itertools


def answer(number):
    return ("x" for _ in itertools.count())
