# Tries: to return a text of half a megabyte that is in it ten thousand times.
# Scripts: memory_limit or time_limit
# Calls: output_limit
# Assertions: wrong_answer


def answer(number):
    text = "x" * 500_000
    return [[text]] * 10_000
