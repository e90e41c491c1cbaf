# Tries: to write without end to every descriptor, without a newline.
# Scripts: output_limit
# Calls: output_limit
# Assertions: output_limit or runtime_error
import os


def answer(number):
    while True:
        for descriptor in (1, 2, 4):
            try:
                os.write(descriptor, b"\x7f" * 65536)
            except OSError:
                pass
