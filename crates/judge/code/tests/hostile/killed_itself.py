# Tries: to kill itself and all of its group.
# Scripts: memory_limit or runtime_error
# Calls: memory_limit or runtime_error
# Assertions: memory_limit or runtime_error
import os
import signal


def answer(number):
    os.killpg(0, signal.SIGKILL)
