# Tries: to be told the next answer by whoever calls it, by asking for a line.
# Calls: runtime_error
# Assertions: runtime_error: EOFError


def answer(number):
    return input("What is it? ")
