# Tries: to raise errors that lie about what they are, or fail when they are asked.
# Variants: 14
# Scripts: runtime_error or wrong_answer or memory_limit or time_limit
# Calls: runtime_error or memory_limit or time_limit
# Assertions: runtime_error or memory_limit or time_limit
import os
import sys
import unittest


class Lie(Exception):
    @property
    def __class__(self):
        return SystemExit


class Mute(Exception):
    def __str__(self):
        raise self


class Exiting(Exception):
    def __str__(self):
        os._exit(0)


class Endless(Exception):
    def __str__(self):
        while True:
            pass


class Long(Exception):
    def __str__(self):
        return "x" * (1 << 19)


class Surrogate(Exception):
    def __str__(self):
        return "\ud800"


class Quiet(BaseException):
    __module__ = "builtins"
    __qualname__ = "SystemExit"
    code = 0


class Passed(SystemExit):
    @property
    def code(self):
        return 0 if sys._getframe().f_back else 0


class NoText(Exception):
    __str__ = None


class Strict(Exception):
    def __init__(self, a, b, c):
        self.args = (object(), [self], lambda: 0)


ERRORS = [
    lambda: Lie(), lambda: Mute(), lambda: Exiting(), lambda: Endless(), lambda: Long(), lambda: Surrogate(), lambda: Quiet(),
    lambda: Passed(), lambda: NoText(), lambda: Strict(1, 2, 3), lambda: StopIteration("end"), lambda: GeneratorExit(),
    lambda: unittest.SkipTest("skipped"), lambda: KeyboardInterrupt(),
]


def answer(number):
    raise ERRORS[@VARIANT@]()
