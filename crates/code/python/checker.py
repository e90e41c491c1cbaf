"""What the process of a test does: runs assertion code in which proxies stand for what the program defines.

    in    n  the names that the program has defined and what they are, as JSON
    out   p  where the test is: [part, test function], as JSON; -1 for a part itself
          c  how many tests a part has that has any, before the first of them: [part, tests], as JSON
          u  how that went, as JSON: {} passed; otherwise "assertion", "error" or "test" with a text
          z  all is done
          x  what the program says cannot be read, and why
and the questions and answers of the bridge.
"""

import builtins
import importlib
import io
import json
import os
import random
import sys
import types
import unittest

import collecting
import prelude
from attributes import MUTABLE, is_unchanged, snapshot
from bridge import Bridge, last_line
from objects import BUILTIN_ITERATORS, CLASSES
from patching import PATCHING
from program import PRELUDE
from run_process import Channel
from test_code import TestCode
from test_part import MOST_SHOWN
from verdicts import Failed, TestError

# Modules that a test finds under the name that the program has given them.
MODULES = CLASSES | {
    "math", "cmath", "random", "re", "string", "heapq", "bisect", "itertools", "functools", "operator", "copy", "json", "typing",
    "statistics", "time", "array", "enum", "dataclasses", "numpy",
}
# As many copies are remembered, and of those that come together so many items.
MOST_COPIES, MOST_ITEMS = 1024, 16384
OF_ITERATORS = {"batch", "next", "iter", "send", "is_iterator", "await"}
OF_ATTRIBUTES = {"getattr", "setattr", "delattr"}
OF_ANYTHING = {"str", "repr", "hash", "eq", "bool", "is_iterator"}


class Checker(Bridge):
    """The test's end of the talk. It answers the program's questions about functions and objects that the test gave it, and no
    others: what a test holds beside them is not the program's to know."""

    careful = True

    def __init__(self, channel, code):
        super().__init__(channel, code.space)
        self.code = code
        self.failure = None  # of a function of the test that the program has called
        self.copies = []  # of containers that are the program's, each with what it held when it came

    def is_cause(self, error):
        return self.code.is_cause(error)

    def received(self, op, objects):
        if op in ("getattr", "global"):
            containers = [thing for thing in objects if type(thing) in MUTABLE]
            if len(self.copies) + len(containers) <= MOST_COPIES and sum(map(len, containers)) <= MOST_ITEMS:
                self.copies += [(thing, snapshot(thing)) for thing in containers]

    def forget_copies(self):
        """Forgets those that nobody else has any more."""
        self.copies = [copy for copy in self.copies if sys.getrefcount(copy[0]) > 2]  # the pair's and the call's

    def has_changed_copies(self):
        """Whether the test has changed what it got as an attribute of an object or of the program: that was a copy, and the
        program does not see it."""
        return any(not is_unchanged(thing, before) for thing, before in self.copies)

    def share(self, names):
        """Says under which names both sides define the same classes."""
        self.shared = names
        if names:
            self.ask("share", sorted(names))

    def perform(self, op, operands):
        if op == "stdin":
            how, argument = operands
            read = {"input": builtins.input, "readline": sys.stdin.readline, "read": sys.stdin.read}
            return read[how](argument)
        target, *others = operands
        if id(target) not in self.export_numbers:
            raise TypeError("this is no object of the test")
        if isinstance(target, (types.GeneratorType, types.CoroutineType, BUILTIN_ITERATORS)):
            allowed = op in OF_ITERATORS
        elif self.is_open(target):
            allowed = op not in OF_ATTRIBUTES or not others[0].startswith("_") and (op == "getattr" or is_data(target, others[0]))
        else:
            allowed = op in OF_ANYTHING
        if op != "call" and not allowed:
            refusal = AttributeError if op in OF_ATTRIBUTES else TypeError
            raise refusal(f"{op} is not for this object of the test")
        try:
            return super().perform(op, operands)
        except (AssertionError, Failed) as error:
            if not hasattr(error, "_arrived") and not self.is_cause(error):
                self.failure = failed(self.code, error)
            raise
        except TestError as error:
            self.failure = {"test": str(error)}
            raise

    @staticmethod
    def is_open(thing):
        """Whether a program may look into it: what tests define to be used by programs."""
        kind = thing if isinstance(thing, type) else type(thing)
        return kind.__module__ in ("__main__", "unittest.mock") or kind in (io.StringIO, io.BytesIO)

    def export(self, x, encoder):
        if isinstance(x, (types.ModuleType, types.FrameType, types.CodeType, types.TracebackType)):
            raise TypeError(f"a {type(x).__name__} cannot be given to a program")
        return super().export(x, encoder)

    def module(self, name):
        if name not in MODULES:
            raise ModuleNotFoundError(name)
        return importlib.import_module(name)

    def arrived(self, error):
        object.__setattr__(error, "_arrived", True)
        return error

    def misspoken(self, problem):
        self.channel.send(b"x", shown(f"what the program returned cannot be read: {problem}").encode())
        os._exit(0)


def is_data(thing, name):
    """Whether an attribute may be changed: it is no method, and the thing is no class, which would be all of its instances."""
    return not isinstance(thing, type) and not callable(getattr(type(thing), name, None))


def shown(text):
    """A text in a length that can be shown, without the halves of characters, which nobody else can read."""
    return text[:MOST_SHOWN].encode("utf-8", "replace").decode()


def report(channel, result):
    channel.send(b"u", json.dumps({key: shown(text) for key, text in result.items()}).encode())


def failed(code, error):
    statement, line = code.statement(error), last_line(error)
    return {"assertion": statement if statement and line == "AssertionError" else f"{statement} ({line})".strip()}


def judge(run, code, bridge):
    """Runs a part, or one of its tests; how it went. A program that has called a function of the test can keep its failure to
    itself, but not undo it."""
    bridge.failure = None
    bridge.forget_copies()
    result = outcome(run, code)
    result = bridge.failure or result
    if result and "test" not in result and bridge.has_changed_copies():
        return {"test": "it changes a list of the program's, which has a copy here; what Python would do is not known"}
    return result


def outcome(run, code):
    try:
        run()
    except BaseException as error:
        line = last_line(error)
        if hasattr(error, "_arrived"):
            return {"error": line}
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return {}  # as at the end of a file that runs its tests; they are found without that
        if isinstance(error, ModuleNotFoundError):
            return {"test": f"{line}: this Python does not have what the test imports"}
        if isinstance(error, (NameError, ImportError, MemoryError)):
            return {"error": line}
        if isinstance(error, TestError):
            return {"test": str(error)}
        if isinstance(error, unittest.SkipTest):
            return {"test": f"the test skips itself: {error}"}
        return failed(code, error)
    return {}


def session(content):
    """Runs all parts, from the part and test function that `content` names."""
    channel = Channel()
    sys.stdin = open(os.devnull)
    sys.stdout = sys.stderr = open(os.devnull, "w")
    sys.setrecursionlimit(prelude.RECURSION)
    random.seed(1)  # what the test draws is not what the program draws
    try:
        code = TestCode(content, PRELUDE)
    except BaseException as error:
        report(channel, {"test": last_line(error)})
        channel.send(b"z", b"")
        return 0
    _, defined = channel.receive()
    bridge = Checker(channel, code)
    PATCHING.begin(bridge, any("mock" in part.source for part in code.parts))
    bind = judge(lambda: code.bind(bridge, json.loads(defined)), code, bridge)
    if bind:
        report(channel, bind)
    else:
        run_parts(channel, bridge, *content["from"])
    channel.send(b"z", b"")
    return 0


def run_parts(channel, bridge, first_part, first_test):
    code = bridge.code

    def at(number, test):
        channel.send(b"p", json.dumps([number, test]).encode())

    for number, part in enumerate(code.parts, -1):  # the setup first, as part -1
        if 0 <= number < first_part:
            continue

        def run():
            if code.entry_point and "candidate" in part.used:
                code.candidate()
            exec(part.code, code.space)
            if part.awaits_candidate():
                if not code.entry_point:
                    raise TestError("it defines check(candidate) and does not call it, and no entry point is named")
                code.space["check"](code.candidate())
            return None

        at(number, -1)
        before, code.asserted = dict(code.space) if part.bound else {}, 0
        result = judge(run, code, bridge)
        if result or number < 0:
            if result:
                report(channel, result)
            if result and number < 0:
                return
            continue
        tests, problem = [], {}
        try:
            if code.decorates(part, alone=True):
                raise TestError("it is decorated by something of the program, which then says how it went")
            tests = collecting.collect(part, code.module, before) if part.bound else []
            if not tests and part.asserts and not code.asserted:
                raise TestError("it has assertions, and none of them is run")
        except BaseException as error:
            is_tests = isinstance(error, TestError) or not hasattr(error, "_arrived") and not code.decorates(part)
            problem = {"test" if is_tests else "error": str(error) if isinstance(error, TestError) else last_line(error)}
        if problem or not tests:
            if number > first_part or first_test < 0:
                report(channel, problem)
            continue
        channel.send(b"c", json.dumps([number, len(tests)]).encode())
        for index, test in enumerate(tests):
            if number > first_part or index >= first_test:
                at(number, index)
                report(channel, judge(test, code, bridge))
