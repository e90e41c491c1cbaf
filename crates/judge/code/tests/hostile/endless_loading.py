# Tries: never to be loaded.
# Scripts: time_limit
# Calls: time_limit
# Assertions: time_limit

while True:
    pass


def answer(number):
    return ""
