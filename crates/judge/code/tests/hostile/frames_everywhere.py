# Tries: to say in its server's stead that the run has ended, wherever it can write.
# Scripts: wrong_answer or output_limit
# Calls: runtime_error or output_limit
# Assertions: runtime_error or output_limit
import os


def answer(number):
    for descriptor in range(256):
        try:
            os.write(descriptor, b"E\x10\0\0\0{}" * 1000)
        except OSError:
            pass
    return "ended"
