# Tries: to compute in one call of C, where no signal is heard but the last.
# Scripts: time_limit
# Calls: time_limit
# Assertions: time_limit


def answer(number):
    return str(pow(7, 10 ** 8))
