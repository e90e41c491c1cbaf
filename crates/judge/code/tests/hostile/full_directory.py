# Tries: to fill the temporary directory.
# Scripts: runtime_error: No space left
# Calls: runtime_error: No space left
# Assertions: runtime_error: No space left


def answer(number):
    with open("/tmp/first", "wb") as first, open("/tmp/second", "wb") as second:
        while True:
            first.write(b"x" * (1 << 20))
            second.write(b"x" * (1 << 20))
