# Tries: never to answer.
# Scripts: time_limit
# Calls: time_limit
# Assertions: time_limit

def answer(number):
    while True:
        pass
