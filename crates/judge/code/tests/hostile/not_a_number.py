# Tries: to be near to a number by being none.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions in every style: wrong_answer


def answer(number):
    return f"{number} is nan"
