# Tries: to take the kernel's memory, in pipes and pairs of sockets of many processes.
# Scripts: time_limit or memory_limit
# Calls: time_limit or memory_limit
# Assertions: time_limit or memory_limit
# Greedy: yes
import os
import socket
import time


def fill(descriptor):
    os.set_blocking(descriptor, False)
    try:
        while True:
            os.write(descriptor, b"x" * 65536)
    except OSError:
        pass


def answer(number):
    for _ in range(30):
        if os.fork() == 0:
            kept = []
            try:
                while True:
                    pair = socket.socketpair()
                    kept.append(pair)
                    fill(pair[0].fileno())
                    fill(pair[1].fileno())
            except OSError:
                pass
            time.sleep(60)
    time.sleep(60)
