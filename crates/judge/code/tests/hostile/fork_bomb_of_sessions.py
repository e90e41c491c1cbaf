# Tries: to start processes that compute, each in a session of its own.
# Scripts: time_limit or memory_limit
# Calls: time_limit or memory_limit
# Assertions: time_limit or memory_limit
# Greedy: yes
import os


def answer(number):
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
        except OSError:
            pass
