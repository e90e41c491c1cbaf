# Tries: to bring modules to a test that takes all names of the program, so that the test seems to be at fault.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions in every style: wrong_answer
import ctypes
import subprocess as pytest
import this as unittest


def answer(number):
    return ""
