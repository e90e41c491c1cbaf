# Tries: to print without end.
# Scripts: output_limit
# Calls: time_limit
# Assertions: time_limit


def answer(number):
    while True:
        print("x" * 1000)
