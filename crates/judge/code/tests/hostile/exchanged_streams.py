# Tries: to put files in the place of its descriptors.
# Scripts: wrong_answer
# Calls: time_limit or runtime_error
# Assertions: time_limit or runtime_error
import os


def answer(number):
    file = os.open("/tmp/file", os.O_RDWR | os.O_CREAT)
    for descriptor in range(8):
        os.dup2(file, descriptor)
    return "exchanged"
