# Tries: to change what the next program begins with: the directory, its mode, the mask of files, the locale, the clock of timers.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions: wrong_answer
import builtins
import os
import random
import signal
import sys

builtins.hostile = True
sys.modules["hostile"] = sys


def answer(number):
    os.mkdir("/tmp/here")
    os.chdir("/tmp/here")
    os.umask(0o777)
    os.chmod("/tmp", 0o7777)
    os.putenv("PYTHONSTARTUP", "/tmp/here/x.py")
    for name in ("sitecustomize.py", "json.py", "os.py", "random.py"):
        os.close(os.open("/tmp/" + name, os.O_CREAT))
    signal.setitimer(signal.ITIMER_REAL, 30)
    random.random = lambda: 0.5
    sys.path.insert(0, "/tmp")
    return "left"
