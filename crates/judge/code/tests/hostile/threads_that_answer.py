# Tries: to answer from threads and children, all the time, while the program is asked.
# Calls: wrong_answer or runtime_error
# Assertions: wrong_answer or runtime_error
import os
import threading
import time


def flood():
    body = b'{"v": true, "o": []}'
    while True:
        os.write(4, b"a" + len(body).to_bytes(4, "little") + body)


threading.Thread(target=flood, daemon=True).start()
if os.fork() == 0:
    flood()


def answer(number):
    time.sleep(0.01)
    return True
