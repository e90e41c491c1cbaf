# Tries: to start threads without end.
# Scripts: runtime_error: can't start new thread
# Calls: runtime_error: can't start new thread
# Assertions: runtime_error: can't start new thread
# Greedy: yes
import threading
import time


def answer(number):
    while True:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
