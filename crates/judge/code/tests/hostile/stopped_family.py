# Tries: to stop all processes, itself among them.
# Scripts: time_limit
# Calls: time_limit
# Assertions: time_limit
import os
import signal


def answer(number):
    for _ in range(3):
        if os.fork() == 0:
            while True:
                signal.pause()
    os.kill(-1, signal.SIGSTOP)
    os.kill(0, signal.SIGSTOP)
