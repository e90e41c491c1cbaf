"""The part of pytest that tests of data sets use, under its name."""

import collections
import importlib
import math
import re
import sys
import types
from decimal import Decimal
from fractions import Fraction

from patching import Library, PATCHING
from verdicts import Failed, TestError

NUMBERS = (int, float, complex, Decimal, Fraction)


class ExceptionInfo:
    """The error that `raises` has seen."""

    value = None

    @property
    def type(self):
        return type(self.value)

    @property
    def typename(self):
        return self.type.__name__

    @property
    def tb(self):
        return self.value.__traceback__

    def match(self, pattern):
        if not re.search(pattern, str(self.value)):
            raise Failed(f"{str(self.value)!r} does not match {pattern!r}")
        return True

    def errisinstance(self, kinds):
        return isinstance(self.value, kinds)

    def __str__(self):
        return f"{self.type.__name__}: {self.value}"


class _Raises:
    def __init__(self, kinds, match):
        self.kinds, self.pattern, self.info = kinds, match, ExceptionInfo()

    def __enter__(self):
        return self.info

    def __exit__(self, kind, error, traceback):
        if error is None:
            raise Failed(f"{self.kinds} was not raised")
        if not isinstance(error, self.kinds):
            return False
        self.info.value = error
        if self.pattern is not None:
            self.info.match(self.pattern)
        return True


def raises(expected_exception, *arguments, match=None, **named):
    context = _Raises(expected_exception, match)
    if not arguments:
        return context
    with context as info:
        arguments[0](*arguments[1:], **named)
    return info


def fail(reason="", *_, **__):
    raise Failed(reason)


def skip(reason="", *_, **__):
    raise TestError(f"the test skips itself: {reason}")


def importorskip(name, *_, **__):
    return importlib.import_module(name)


class approx:
    """A number, or a container of numbers, that equals what is close to it."""

    __array_ufunc__ = None
    __hash__ = None

    def __init__(self, expected, rel=None, abs=None, nan_ok=False):
        self.expected, self.rel, self.abs, self.nan_ok = expected, rel, abs, nan_ok

    def __repr__(self):
        return f"approx({self.expected!r})"

    def __eq__(self, actual):
        return self._close(actual, self.expected)

    def _close(self, actual, expected):
        if type(expected) is dict:
            return (isinstance(actual, dict) and actual.keys() == expected.keys()
                    and all(self._close(actual[key], value) for key, value in expected.items()))
        if isinstance(expected, (list, tuple)):
            return (isinstance(actual, (list, tuple)) and len(actual) == len(expected)
                    and all(map(self._close, actual, expected)))
        if type(expected).__module__ == "numpy":
            actual, expected = getattr(actual, "tolist", lambda: actual)(), expected.tolist()
            return self._close(actual, expected)
        # The exact types: whatever else the program gives is never asked whether it is close.
        if type(actual) not in (*NUMBERS, bool) or type(expected) not in NUMBERS:
            return type(actual) in (*NUMBERS, bool, str, type(None)) and actual == expected
        if actual == expected:
            return True
        if actual != actual or expected != expected:
            return self.nan_ok and actual != actual and expected != expected
        if any(map(math.isinf, (abs(complex(actual)), abs(complex(expected))))):
            return False
        return abs(actual - expected) <= self._tolerance(expected)

    def _tolerance(self, expected):
        absolute = 1e-12 if self.abs is None else self.abs
        if self.rel is None and self.abs is not None:
            return absolute
        relative = (1e-6 if self.rel is None else self.rel) * float(abs(expected))
        return max(relative, absolute)


class Mark:
    def __init__(self, name, arguments=(), named=None):
        self.name, self.arguments, self.named = name, arguments, named or {}

    def __call__(self, *arguments, **named):
        if len(arguments) == 1 and not named and callable(arguments[0]):
            function = arguments[0]
            function._marks = [self, *getattr(function, "_marks", ())]
            return function
        order = {"parametrize": ("argnames", "argvalues"), "skipif": ("condition",)}.get(self.name, ())
        return Mark(self.name, (*arguments, *(named[name] for name in order[len(arguments):] if name in named)), named)


class _Marks:
    def __getattr__(self, name):
        return Mark(name)


def marks(function):
    return getattr(function, "_marks", [])


class param:
    """A row of `parametrize`."""

    def __init__(self, *values, marks=(), id=None):
        self.values, self.marks = values, marks if isinstance(marks, (list, tuple)) else [marks]


def fixture(function=None, **named):
    def make(function):
        function._fixture = named
        return function
    return make if function is None else make(function)


class MonkeyPatch:
    """Changes that last for a test."""

    def __init__(self):
        self.changed = []

    def setattr(self, target, name, *value, raising=True):
        if not value:
            path, _, attribute = target.rpartition(".")
            target, name, value = importlib.import_module(path), attribute, (name,)
        target = PATCHING.target(target)
        self.changed.append((target, name, getattr(target, name, None)))
        setattr(target, name, value[0])

    def setitem(self, mapping, key, value):
        mapping[key] = value

    def setenv(self, name, value, *_):
        import os
        os.environ[name] = value

    def undo(self):
        for target, name, value in reversed(self.changed):
            if isinstance(target, Library):
                delattr(target, name)
            else:
                setattr(target, name, value)


@fixture
def monkeypatch():
    patch = MonkeyPatch()
    yield patch
    patch.undo()


CaptureResult = collections.namedtuple("CaptureResult", ("out", "err"))


class Captured:
    """What has been printed since it was last asked."""

    def __init__(self, stream):
        self.stream = stream

    def readouterr(self):
        text = self.stream.getvalue()
        self.stream.seek(0)
        self.stream.truncate()
        return CaptureResult(text, "")


@fixture
def capsys():
    import io
    before, sys.stdout = sys.stdout, io.StringIO()
    yield Captured(sys.stdout)
    sys.stdout = before


FIXTURES = {"monkeypatch": monkeypatch, "capsys": capsys}


def module():
    """The module `pytest`."""
    def missing(name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise TestError(f"there is no pytest.{name} here")

    made = types.ModuleType("pytest")
    made.__dict__.update(
        raises=raises, fail=fail, skip=skip, importorskip=importorskip, approx=approx, mark=_Marks(), param=param,
        fixture=fixture, MonkeyPatch=MonkeyPatch, ExceptionInfo=ExceptionInfo, main=lambda *_, **__: 0,
        __getattr__=missing,
    )
    return made
