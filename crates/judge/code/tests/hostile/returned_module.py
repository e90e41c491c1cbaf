# Tries: to return a module that the test's process does not have, so that the test seems to be at fault.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions in every style: wrong_answer or runtime_error
import ctypes


def answer(number):
    return ctypes
