# Tries: to leave a grandchild in a session of its own, all descriptors closed, that outlives the run.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions: wrong_answer
import os
import signal
import time


def answer(number):
    if os.fork() == 0:
        os.setsid()
        for each in signal.valid_signals():
            try:
                signal.signal(each, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        if os.fork() == 0:
            os.closerange(0, 256)
            while True:
                try:
                    with open("/tmp/@TRACE@.trace", "a") as file:
                        file.write("here\n")
                    time.sleep(0.001)
                except OSError:
                    pass
        os._exit(0)
    time.sleep(0.05)
    return "left"
