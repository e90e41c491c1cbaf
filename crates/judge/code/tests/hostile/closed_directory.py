# Tries: to close the temporary directory itself, so that nobody can clean it.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions: wrong_answer
import os


def answer(number):
    open("/tmp/file", "w").close()
    os.chmod("/tmp", 0)
    return "closed"
