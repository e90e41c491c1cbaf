"""The names of pytest that plain test functions use, and how a test itself says that it fails."""

import math
import re
import types


class Failed(BaseException):
    """Raised by `fail`, and by `raises` when nothing was raised. It passes `except Exception`."""

    __module__ = "builtins"  # so that nobody is shown ours


class TestError(BaseException):
    """A test that cannot be run, whatever the program does."""

    first = None  # of a unit, which might catch it

    def __init__(self, text):
        super().__init__(text)
        TestError.first = TestError.first or text


class Raises:
    """The context, and the information on the error, that `raises` gives."""

    value = None
    type = property(lambda self: type(self.value))

    def __init__(self, kinds, pattern):
        self.kinds, self.pattern = kinds, pattern

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if error is None:
            raise Failed(f"{self.kinds} was not raised")
        self.value = error
        return isinstance(error, self.kinds) and (self.pattern is None or self.match(self.pattern))

    def match(self, pattern):
        if not re.search(pattern, str(self.value)):
            raise Failed(f"{str(self.value)!r} does not match {pattern!r}")
        return True


def raises(expected_exception, *arguments, match=None, **named):
    context = Raises(expected_exception, match)
    if not arguments:
        return context
    with context:
        arguments[0](*arguments[1:], **named)
    return context


def fail(reason="", *_, **__):
    raise Failed(reason)


class approx:
    """A number, or a container of numbers, that equals what is close to it."""

    __array_ufunc__ = None

    def __init__(self, expected, rel=None, abs=None, nan_ok=False):
        self.rel = rel if rel is not None else 1e-6 if abs is None else 0
        self.expected, self.abs, self.nan_ok = expected, 1e-12 if abs is None else abs, nan_ok

    def __repr__(self):
        return f"approx({self.expected!r})"

    def __eq__(self, actual):
        return self.close(actual, self.expected)

    def close(self, actual, expected):
        if isinstance(expected, dict):
            return (isinstance(actual, dict) and actual.keys() == expected.keys()
                    and all(self.close(actual[key], value) for key, value in expected.items()))
        if isinstance(expected, (list, tuple)):
            return (isinstance(actual, (list, tuple)) and len(actual) == len(expected)
                    and all(map(self.close, actual, expected)))
        if actual == expected or self.nan_ok and actual != actual and expected != expected:
            return True
        try:
            most = max(self.abs, self.rel * abs(expected))
            return most < math.inf and abs(actual - expected) <= most
        except TypeError:
            return False


def module():
    """The module `pytest`."""
    def missing(name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise TestError(f"it uses pytest.{name}; there are raises, approx and fail")

    made = types.ModuleType("pytest")
    made.__dict__.update(raises=raises, approx=approx, fail=fail, __getattr__=missing,
                         main=lambda *_, **__: 0)
    return made
