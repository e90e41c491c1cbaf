"""The tests of a part of assertion code: functions and classes in the style of pytest, and cases of unittest."""

import ast
import inspect
import sys
import types
import unittest

import pytest_subset
from proxies import is_proxy, is_same
from verdicts import TestError


def assert_is(case, first, second, message=None):
    """`TestCase.assertIs`, of what proxies stand for."""
    if not is_same(first, second):
        case.fail(message or f"{first!r} is not {second!r}")


def assert_is_not(case, first, second, message=None):
    if is_same(first, second):
        case.fail(message or f"both are {first!r}")


def missing(name):
    """A method of `TestCase` that sees nothing of another process."""
    def method(*_, **__):
        raise TestError(f"there is no {name} here")
    return method


def collect(part, module, before):
    """The tests among what a part has defined, as functions without arguments, in the order of the text. `before` is what the
    module held before the part ran."""
    space = vars(module)
    fixtures = {**pytest_subset.FIXTURES, **fixtures_in(space)}
    tests = []
    for name, thing in list(space.items()):
        if before.get(name, before) is thing or is_proxy(thing) or getattr(thing, "__module__", None) != "__main__":
            continue
        if isinstance(thing, type) and issubclass(thing, unittest.TestCase):
            tests += of_case(thing)
        elif isinstance(thing, type) and name.startswith("Test"):
            tests += of_class(thing, fixtures)
        elif isinstance(thing, types.FunctionType) and name.startswith("test"):
            tests += of_function(thing, fixtures, marks_of(space), is_called=called_by_part(part, name))
    return within(tests, lambda: hooks(module, ("setUpModule", "setup_module"), module),
                  lambda: hooks(module, ("teardown_module", "tearDownModule"), module))


def called_by_part(part, name):
    return any(isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
               for node in ast.walk(part.tree))


def within(tests, first, last):
    """The tests, with `first` before the first of them that is run and `last` after the last."""
    begun = []

    def run(test):
        if not begun:
            first()
            begun.append(True)
        try:
            test()
        finally:
            if test is tests[-1]:
                last()
    return [lambda test=test: run(test) for test in tests]


def of_case(case):
    """Each test method of a `unittest.TestCase`, in an instance of its own."""
    names = list(unittest.TestLoader().getTestCaseNames(case)) or [name for name in ("runTest",) if hasattr(case, name)]

    def has(name, what):
        return getattr(case, what, False) or getattr(getattr(case, name), what, False)

    names = [name for name in names if not has(name, "__unittest_skip__")]
    if any(has(name, "__unittest_expecting_failure__") for name in names):
        raise TestError(f"the test {case.__name__} expects to fail")
    return within([lambda name=name: case(name).debug() for name in names], case.setUpClass, case.tearDownClass)


def of_class(kind, fixtures):
    """The tests of a class and of those in it, each in an instance of its own."""
    names = dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base))
    fixtures = {**fixtures, **fixtures_in({name: inspect.getattr_static(kind, name) for name in names})}
    tests = []
    for name in names:
        thing = inspect.getattr_static(kind, name)
        if isinstance(thing, type) and name.startswith("Test") and not is_proxy(thing):
            tests += of_class(thing, fixtures)
        elif isinstance(thing, (types.FunctionType, staticmethod, classmethod)) and name.startswith("test"):
            is_method = isinstance(thing, types.FunctionType)
            tests += of_function(getattr(kind, name), fixtures, marks_of(vars(kind), kind), kind, is_method)
    return within(tests, lambda: hooks(kind, ["setup_class"], kind), lambda: hooks(kind, ["teardown_class"], kind))


def fixtures_in(things):
    """The fixtures among these, by the names under which tests want them."""
    return {thing._fixture.get("name") or name: thing for name, thing in things.items()
            if isinstance(thing, types.FunctionType) and hasattr(thing, "_fixture")}


def marks_of(space, kind=None):
    """The marks that all tests of a module or class have."""
    marks = space.get("pytestmark", [])
    return [*(marks if isinstance(marks, list) else [marks]), *pytest_subset.marks(kind)]


def is_skipped(marks):
    return any(mark.name in ("skip", "xfail") or mark.name == "skipif" and mark.arguments[0] is True for mark in marks)


def of_function(function, fixtures, marks, kind=None, is_method=False, is_called=False):
    """A test for each set of parameters of a function, or of a class's; none if its parameters are not known and the part calls
    it itself."""
    marks = [*pytest_subset.marks(function), *marks]
    if is_skipped(marks):
        return []
    given = parameter_sets(marks)
    parameters = list(inspect.signature(function).parameters.values())[is_method:][mocks_given(function):]
    wanted = [parameter.name for parameter in parameters
              if parameter.default is inspect.Parameter.empty and parameter.kind == parameter.POSITIONAL_OR_KEYWORD]
    unknown = [name for name in wanted if name not in fixtures and name not in given[0]] if given else []
    if unknown:
        if is_called:
            return []
        raise TestError(f"the test {function.__name__} wants {unknown[0]!r}, which nobody gives")
    used = [name for name, fixture in fixtures.items() if fixture._fixture.get("autouse")]
    used += [name for mark in marks if mark.name == "usefixtures" for name in mark.arguments]
    return [lambda values=values: run_function(function, used, wanted, values, fixtures, kind, is_method) for values in given]


def mocks_given(function):
    """How many mocks the decorator `patch` gives a function, before all else."""
    if not hasattr(function, "patchings"):
        return 0
    from unittest.mock import DEFAULT  # large, and seldom wanted
    return sum(patch.new is DEFAULT and not patch.attribute_name for patch in function.patchings)


def parameter_sets(marks):
    """The sets of parameters that marks ask for: every combination of them."""
    sets = [{}]
    for mark in marks:
        if mark.name == "parametrize":
            if mark.named.get("indirect"):
                raise TestError("it wants fixtures with parameters")
            names, rows = mark.arguments[:2]
            is_single = isinstance(names, str) and "," not in names
            names = [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else list(names)
            rows = [row if isinstance(row, pytest_subset.param) else pytest_subset.param(*[row] if is_single else row)
                    for row in rows]
            sets = [{**old, **dict(zip(names, row.values))} for row in rows if not is_skipped(row.marks) for old in sets]
    return sets


def run_function(function, used, wanted, values, fixtures, kind, is_method):
    this = None if kind is None else kind()
    ends, made = [], {}

    def value(name):
        if name in values:
            return values[name]
        if name not in made:
            fixture = fixtures[name]
            if fixture._fixture.get("params"):
                raise TestError(f"the fixture {name} has parameters")
            names = list(inspect.signature(fixture).parameters)
            itself = [this][:kind is not None and inspect.getattr_static(kind, fixture.__name__, None) is fixture]
            result = fixture(*itself, **{inner: value(inner) for inner in names[len(itself):]})
            if inspect.isgenerator(result):
                ends.append(result)
                result = next(result)
            made[name] = result
        return made[name]

    around, what = (sys.modules[function.__module__], "function") if kind is None else (this, "method")
    try:
        hooks(around, [f"setup_{what}"], function)
        for name in used:
            value(name)
        result = function(*[this][:is_method], **{name: value(name) for name in wanted})
        if inspect.iscoroutine(result):
            import asyncio  # large, and seldom wanted
            asyncio.run(result)
    finally:
        for end in reversed(ends):
            next(end, None)
        hooks(around, [f"teardown_{what}"], function)


def hooks(thing, names, argument):
    """Calls what a module, a class or an instance has under these names; each takes the argument or nothing."""
    for name in names:
        method = getattr(thing, name, None)
        if method is not None and not is_proxy(method):
            method(*[argument][:len(inspect.signature(method).parameters)])
