# Tries: to return a tuple in a tuple, three thousand deep.
# Scripts: wrong_answer or runtime_error
# Calls: runtime_error
# Assertions in every style: wrong_answer or runtime_error


def answer(number):
    value = ()
    for _ in range(3_000):
        value = (value,)
    return value
