# Tries: to take memory without end.
# Scripts: memory_limit
# Calls: memory_limit
# Assertions: memory_limit
# Greedy: yes


def answer(number):
    taken = []
    while True:
        taken.append(bytearray(1 << 20))
