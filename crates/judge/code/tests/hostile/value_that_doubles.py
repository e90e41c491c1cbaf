# Tries: to return a few hundred bytes that are 2**60 lists to whoever unfolds them.
# Scripts: memory_limit or time_limit or output_limit
# Calls: output_limit or runtime_error
# Assertions: wrong_answer


def answer(number):
    value = []
    for _ in range(60):
        value = [value, value]
    return value
