# Tries: to write a file without end, and one with a hole of a tebibyte.
# Scripts: runtime_error: File too large
# Calls: runtime_error: File too large
# Assertions: runtime_error: File too large
import os


def answer(number):
    with open("/tmp/hole", "wb") as file:
        try:
            os.truncate("/tmp/hole", 1 << 40)
        except OSError as error:
            refused = error
        else:
            return ""
        file.seek((64 << 20) - 1)
        file.write(b"xx")
        file.flush()
        return ""
