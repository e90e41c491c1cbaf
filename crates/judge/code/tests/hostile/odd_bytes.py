# Tries: to print bytes that are no text.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions: wrong_answer
import os


def answer(number):
    os.write(1, bytes(range(256)) + b"\xed\xa0\x80\xff\xfe\0\0")
    return b"\xff"
