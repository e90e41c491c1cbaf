# Tries: to return a list in a list in a list, five thousand deep.
# Scripts: wrong_answer or runtime_error
# Calls: runtime_error
# Assertions in every style: wrong_answer or runtime_error


def answer(number):
    value = []
    for _ in range(5_000):
        value = [value]
    return value
