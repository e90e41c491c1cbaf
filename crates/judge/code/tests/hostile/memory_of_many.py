# Tries: to take memory in many processes, none of which takes too much.
# Scripts: memory_limit
# Calls: memory_limit
# Assertions: memory_limit
import os
import time


def answer(number):
    for _ in range(20):
        if os.fork() == 0:
            taken = bytearray(b"x" * (60 << 20))
            time.sleep(60)
    time.sleep(60)
