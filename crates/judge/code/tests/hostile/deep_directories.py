# Tries: to leave directories so deep that no path leads there, and that nobody may open.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions: wrong_answer
import os


def answer(number):
    os.chdir("/tmp")
    for _ in range(300):
        os.mkdir("d" * 200)
        open("file", "w").close()
        os.chmod("file", 0)
        os.chdir("d" * 200)
    for _ in range(300):
        os.chdir("..")
        os.chmod("d" * 200, 0)
    return "left"
