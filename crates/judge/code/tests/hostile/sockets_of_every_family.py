# Tries: to make a socket of any family that there is.
# Scripts: runtime_error: no socket was made
# Calls: runtime_error: no socket was made
# Assertions: runtime_error: no socket was made
import socket


def answer(number):
    made = []
    for family in range(50):
        for kind in (1, 2, 3, 4, 5, 10):
            for make in (socket.socket, socket.socketpair):
                try:
                    make(family, kind, 0)
                    if (family, make) != (socket.AF_UNIX, socket.socketpair):
                        made.append((family, kind))
                except OSError:
                    pass
    raise RuntimeError(f"made: {made}" if made else "no socket was made")
