# Tries: to kill the first process of its jail, and everybody else that it could name.
# Scripts: runtime_error: nobody was killed
# Calls: runtime_error: nobody was killed
# Assertions: runtime_error: nobody was killed
import os
import signal


def answer(number):
    killed = []
    for process in [1, 2, -1, @PROCESS@, *range(-400, 0), *range(400)]:
        if process in (0, os.getpid(), -os.getpid()):
            continue
        for each in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGCHLD):
            try:
                os.kill(process, each)
                killed.append((process, each))
            except OSError:
                pass
    for each in (signal.pidfd_send_signal, lambda fd, _: os.close(fd)):
        try:
            each(os.pidfd_open(1), signal.SIGKILL)
            killed.append("by a descriptor")
        except OSError:
            pass
    raise RuntimeError(f"killed: {killed}" if killed else "nobody was killed")
