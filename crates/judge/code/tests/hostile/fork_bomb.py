# Tries: to start processes that start processes.
# Scripts: time_limit or memory_limit
# Calls: time_limit or memory_limit
# Assertions: time_limit or memory_limit
# Greedy: yes
import os


def answer(number):
    while True:
        try:
            os.fork()
        except OSError:
            pass
