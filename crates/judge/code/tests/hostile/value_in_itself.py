# Tries: to return a list that holds itself.
# Scripts: wrong_answer
# Calls: runtime_error
# Assertions in every style: wrong_answer


def answer(number):
    value = []
    value.append(value)
    return value
