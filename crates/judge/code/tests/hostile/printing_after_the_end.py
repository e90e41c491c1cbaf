# Tries: to print after the program has ended, from a process that it has left.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions: wrong_answer
import os
import sys
import time


def answer(number):
    if os.fork() == 0:
        while True:
            for descriptor in range(1, 6):
                try:
                    os.write(descriptor, b"a\x10\0\0\0" + b'{"v":1,"o":[]}  ')
                except OSError:
                    pass
            time.sleep(0.01)
    time.sleep(0.02)
    os._exit(0)
