# Tries: to answer when all is done: at exit, when objects are deleted, and from threads.
# Scripts: wrong_answer or runtime_error
# Calls: wrong_answer
# Assertions: wrong_answer
import atexit
import os
import threading
import time


class Last:
    def __del__(self):
        os.write(1, b"deleted\n")
        os._exit(0)


last = Last()
atexit.register(lambda: os.write(1, b"at exit\n"))
threading.Thread(target=lambda: time.sleep(0.05) or os.write(1, b"thread\n")).start()
threading.Thread(target=lambda: time.sleep(60), daemon=True).start()


def answer(number):
    return "not yet"
