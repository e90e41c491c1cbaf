# Tries: to fail with a text that cannot be written.
# Scripts: runtime_error: ValueError
# Calls: runtime_error
# Assertions in every style: runtime_error


def answer(number):
    raise ValueError("\ud800 \x00 \x1b[2J \u202e")
