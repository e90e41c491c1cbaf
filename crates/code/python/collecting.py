"""The tests of a part of assertion code: functions and classes in the style of pytest, and cases of unittest."""

import ast
import inspect
import types
import unittest

import pytest_subset
from proxies import is_same


class TestError(Exception):
    """A test that cannot be run, whatever the program does."""


def assert_is(case, first, second, message=None):
    """`TestCase.assertIs`, of what proxies stand for."""
    if not is_same(first, second):
        case.fail(message or f"{first!r} is not {second!r}")


def assert_is_not(case, first, second, message=None):
    if is_same(first, second):
        case.fail(message or f"both are {first!r}")


def collect(part, space):
    """The tests that a part defines, as functions without arguments, in the order of the text."""
    tests = []
    for node in part.tree.body:
        thing = space.get(getattr(node, "name", None))
        if isinstance(node, ast.ClassDef) and isinstance(thing, type):
            if issubclass(thing, unittest.TestCase):
                tests += of_case(thing)
            elif node.name.startswith("Test"):
                tests += of_class(thing, space)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test") and callable(thing):
            tests += of_function(thing, space, called_by_part(part, node.name))
    return tests


def called_by_part(part, name):
    return any(isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
               for node in ast.walk(part.tree))


def of_case(case):
    """Each test method of a `unittest.TestCase`, in an instance of its own."""
    ready = []

    def run(name):
        if not ready:
            case.setUpClass()
            ready.append(True)
        case(name).debug()

    def is_skipped(name):
        return getattr(case, "__unittest_skip__", False) or getattr(getattr(case, name), "__unittest_skip__", False)

    names = [name for name in unittest.TestLoader().getTestCaseNames(case) if not is_skipped(name)]
    return [lambda name=name: run(name) for name in names]


def of_class(kind, space):
    tests = []
    for name, method in list(vars(kind).items()):
        if name.startswith("test") and callable(method):
            def instance(kind=kind):
                return kind()
            tests += of_function(method, space, False, instance)
    return tests


def of_function(function, space, is_called, instance=None):
    """A test for each set of parameters of a function; none if its parameters are not known and the part calls it itself."""
    marks = pytest_subset.marks(function)
    if any(mark.name in ("skip", "xfail") or mark.name == "skipif" and mark.arguments[0] is True for mark in marks):
        return []
    given = parameter_sets(marks)
    fixtures = {name: thing for name, thing in {**pytest_subset.FIXTURES, **space}.items()
                if isinstance(thing, types.FunctionType) and hasattr(thing, "_fixture")}
    parameters = list(inspect.signature(function).parameters.values())[1 if instance else 0:][mocks_given(function):]
    wanted = [parameter.name for parameter in parameters
              if parameter.default is inspect.Parameter.empty and parameter.kind == parameter.POSITIONAL_OR_KEYWORD]
    unknown = [name for name in wanted if name not in fixtures and name not in given[0]] if given else []
    if unknown:
        if is_called:
            return []
        raise TestError(f"the test {function.__name__} wants {unknown[0]!r}, which nobody gives")
    return [lambda values=values: run_function(function, wanted, values, fixtures, instance) for values in given]


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
            names, rows = mark.arguments[:2]
            names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
            rows = [getattr(row, "values", row) if isinstance(row, pytest_subset.param) else row if len(names) > 1 else (row,)
                    for row in rows]
            sets = [{**old, **dict(zip(names, row))} for row in rows for old in sets]
    return sets


def run_function(function, wanted, values, fixtures, instance):
    ends, made = [], {}

    def value(name):
        if name in values:
            return values[name]
        if name not in made:
            fixture = fixtures[name]
            result = fixture(**{inner: value(inner) for inner in inspect.signature(fixture).parameters})
            if inspect.isgenerator(result):
                ends.append(result)
                result = next(result)
            made[name] = result
        return made[name]

    this = [] if instance is None else [instance()]
    try:
        for thing in this:
            hook(thing, "setup_method", function)
        for name, fixture in fixtures.items():
            if fixture._fixture.get("autouse"):
                value(name)
        result = function(*this, **{name: value(name) for name in wanted})
        if inspect.iscoroutine(result):
            import asyncio  # large, and seldom wanted
            asyncio.run(result)
    finally:
        for end in reversed(ends):
            next(end, None)
        for thing in this:
            hook(thing, "teardown_method", function)


def hook(thing, name, function):
    method = getattr(thing, name, None)
    if method is not None:
        method(*[function][:len(inspect.signature(method).parameters)])
