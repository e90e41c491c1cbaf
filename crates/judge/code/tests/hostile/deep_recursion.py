# Tries: to call itself without end.
# Scripts: runtime_error: RecursionError
# Calls: runtime_error: RecursionError
# Assertions: runtime_error: RecursionError


def answer(number):
    return answer(number + 1)
