# Tries: to define what a test calls its own: its functions, classes and modules.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions in every style: wrong_answer or runtime_error
import builtins


class Anything:
    def __getattr__(self, name):
        return self

    def __call__(self, *_, **__):
        return self


def check(*_, **__):
    return True


class TestCase:
    def assertEqual(self, *_):
        pass


class TestAnswer:
    pass


class Reader:
    def holds(self, value):
        return True


class Node:
    def __init__(self, *_):
        pass

    def __eq__(self, other):
        return True


run = test_answer = candidate = assert_equal = check
pytest = unittest = solution = mark = Anything()
FOUND = {3: "", 8: ""}
n = found = value = reader = self = "x"
all = lambda *_: True
__all__ = ["answer", "pytest", "all", "test_answer", "check"]


def answer(number):
    return ""
