# Tries: to rename, link and make files while the directory is cleaned.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions: wrong_answer
import os


def race(number):
    os.setsid()
    while True:
        try:
            os.mkdir(f"/tmp/d{number}")
            os.rename(f"/tmp/d{number}", f"/tmp/e{number}")
            os.symlink("/usr", f"/tmp/e{number}/link")
            os.rename(f"/tmp/e{number}", f"/tmp/f{os.getpid()}")
            os.fork()
        except OSError:
            pass


def answer(number):
    for child in range(4):
        if os.fork() == 0:
            race(child)
    return "they race"
