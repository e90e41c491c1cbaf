# Tries: to make directories until there can be no more.
# Scripts: runtime_error: No space left
# Calls: runtime_error: No space left
# Assertions: runtime_error: No space left
import itertools
import os


def answer(number):
    for name in itertools.count():
        os.mkdir(f"/tmp/{name}")
