"""The process of a test: it runs assertion code, which calls the program in the other process.

    in    n  the names that the program has defined, and what they are, as JSON
    out   p  where the test is: [part, test function], as JSON; -1 for a part itself
          c  how many tests a part has, before the first of them: [part, tests], as JSON
          u  how that went, as JSON: {} passed; otherwise "assertion", "error" or "test" with a text
          z  all is done
          x  what the program says cannot be read, and why
and the questions of `program.py`, which are answered before anything else is said.
"""

import builtins
import importlib
import itertools
import json
import os
import random
import sys
import threading
import types

from assertions import MOST_SHOWN, Part, SOLUTION_NAMES
from prelude import PRELUDE, RECURSION, beginning
from pytest_names import TestError
from run_process import Channel, last_line
from values import Decoder, Encoder, Malformed, Side, UNREADABLE

# Names of modules that tests may take for granted, whatever the program has there.
MODULE_NAMES = {"np": "numpy", "numpy": "numpy", "pytest": "pytest"}


class Opaque:
    """A value of the program that is no plain data. It equals nothing, and cannot be given back."""

    def __repr__(self):
        return "<no plain data>"


class Function:
    """A function of the program. `Solution()` makes an object, whose methods are functions."""

    def __init__(self, checker, path, instance=0):
        self._ask, self._checker, self._path, self._instance = checker.ask, checker, path, instance
        self.__name__ = path.rpartition(".")[2]

    def __call__(self, *arguments, **named):
        if self._path == "Solution" and not arguments and not named:
            return Function(self._checker, "Solution", next(self._checker.instances))
        return self._ask("call", self._path, self._instance, list(arguments), named)

    def __getattr__(self, name):
        if name.startswith("_") or self._path != "Solution":
            raise AttributeError(name)
        return Function(self._checker, f"Solution.{name}", self._instance)


class Checker(Side):
    """All parts of a test, and the module in which they run."""

    def __init__(self, channel, content):
        self.channel, self.asking, self.instances = channel, threading.Lock(), itertools.count(1)
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        self.space = module.__dict__
        self.space.update(PRELUDE, __builtins__=builtins, __file__="test.py")
        before = dict(self.space)
        exec(beginning(content["preamble"]), self.space)
        self.preamble = {name for name in self.space if before.get(name, self) is not self.space[name]}
        super().__init__(dict(self.space), "__main__")
        self.asserted = 0  # assertions that the part has come to
        self.space["__asserted__"] = self.count_assertion
        self.entry_point = content["entry_point"]
        self.entry = Part(self.entry_point or "None", "entry_point.py")
        sources = [content["setup"], *content["parts"]]
        self.parts = [Part(source, f"{number}.test.py") for number, source in enumerate(sources)]
        self.codes = [part.compiled() for part in self.parts]
        self.called = set().union(*(part.called() for part in self.parts))
        self.imported = {name for part in self.parts for name in part.imported.values()}
        defined = set().union(*(part.defined for part in self.parts))
        read = set().union(*(part.read for part in (self.entry, *self.parts)))
        read -= {"candidate"} if self.entry_point else set()
        self.mentioned = {name for name in read if not name.startswith("__")} - self.preamble
        self.read = self.mentioned - defined  # those that are not the test's own

    def count_assertion(self):
        self.asserted += 1

    # The talk with the program.

    def ask(self, op, *operands):
        """The value of an operation there, or its error."""
        encoder = Encoder(self)
        question = {"op": op, "v": encoder.element(operands), "o": encoder.complete()}
        with self.asking:  # threads of a test may ask, too
            self.channel.send(b"q", json.dumps(question).encode())
            _, data = self.channel.receive()
        try:
            message = json.loads(data)
            decoder = Decoder(self, message, encoder.objects)
            for number, content in message.get("m", ()):
                decoder.fill(encoder.objects[number], *content)
            value, error = decoder.element(message.get("v")), decoder.element(message.get("x"))
            if "x" in message and not isinstance(error, BaseException):
                raise Malformed("an error that is none")
        except UNREADABLE as problem:
            text = shown(f"what the program returned cannot be read: {problem}")
            self.channel.send(b"x", text.encode())
            os._exit(0)
        if isinstance(error, (StopIteration, StopAsyncIteration, GeneratorExit)):
            # In an iterator of the test, such an error would say that all is done.
            error = of_program(f"a call raised {type(error).__name__}")
        if error is not None:
            raise error
        return value

    def export(self, x):
        if type(x) is Function:
            return ["p", x._path, x._instance]
        if type(x) is Opaque:
            raise of_program("what a function returned is no plain data, and cannot be given back")
        raise TestError(f"it gives the program a {type(x).__name__}, which is no plain data")

    def read_element(self, tag, *parts):
        if tag == "x":
            return Opaque()
        raise Malformed(f"{tag!r} is no tag")

    def global_value(self, name):
        return self.ask("global", name) if self.defined[name] == "value" else Function(self, name)

    # The names that the test finds.

    def bind(self, defined):
        """Puts what the program has defined where the test looks for it. Only the text of the test
        decides which usual names, such as `abs`, are the program's: a program could define any."""
        self.defined = {name: what for name, what in defined.items() if not name.startswith("__")}
        about = self.roots()
        own = {name for name in self.read if not self.is_usual(name)}
        if not about | own | self.imported - {"*"} and not any(part.modules for part in self.parts):
            about = {name for name in self.read if callable(PRELUDE.get(name))}
            if len(about) != 1 and self.read:
                usual = ", ".join(sorted(about or self.read))
                raise TestError(f"the tests do not say which of {usual} the program is to define")
        self.space.update({name: undefined(name) for name in about if self.is_usual(name)})
        own_mentions = {name for name in self.mentioned if not self.is_usual(name)}
        found = (own_mentions | about) & set(self.defined)
        self.space.update({name: self.global_value(name) for name in found})
        for name in set(MODULE_NAMES) & self.read - set(self.space):
            try:
                self.space[name] = importlib.import_module(MODULE_NAMES[name])
            except ImportError:
                pass
        wanted = self.imported | set().union(*(part.attributes() for part in self.parts))
        here = {name: self.global_value(name) for name in wanted & set(self.defined)}
        starred = sorted((own | about) & found)
        here.update({name: self.space[name] for name in starred}, __all__=starred)
        for name in SOLUTION_NAMES:
            sys.modules[name] = types.ModuleType(name)
            vars(sys.modules[name]).update(here)
        aliases = {alias for part in self.parts for alias in part.imported}
        return (about | own | aliases) - {"Solution"}

    def is_usual(self, name):
        """Whether a name means something without the program. A constant such as `re.A` means
        nothing to a test that calls it."""
        is_called = name in self.called and not callable(PRELUDE.get(name))
        is_prelude = name in PRELUDE and not is_called
        return hasattr(builtins, name) or name in MODULE_NAMES or is_prelude

    def roots(self):
        """The names that the test says it is about: those of its entry point or given to `check`."""
        checked = set().union(*(part.checked() for part in self.parts)) & self.read
        roots = self.entry.used if self.entry_point else checked
        return {name for name in roots if not self.is_usual(name)} or roots

    # Runs.

    def run_part(self, part, code):
        if self.entry_point and "candidate" in part.used and "candidate" not in self.space:
            self.space["candidate"] = eval(self.entry_point, self.space)
        try:
            exec(code, self.space)
        except SystemExit as end:  # as at the end of a file that runs its tests
            if end.code not in (None, 0) or hasattr(end, "_arrived"):
                raise
        if part.defines_check() and not part.calls_of("check"):
            if not self.entry_point:
                raise TestError("it defines check(candidate), does not call it and names no entry point")
            self.space["check"](eval(self.entry_point, self.space))

    def tests(self, part, before):
        """The test functions that a part has defined; `before` is what the module held before."""
        tests = []
        for name, thing in list(self.space.items()):
            if before.get(name, before) is thing or getattr(thing, "__module__", None) != "__main__":
                continue
            if isinstance(thing, types.FunctionType) and name.startswith("test"):
                required = thing.__code__.co_argcount - len(thing.__defaults__ or ())
                if required and not part.calls_of(name):
                    raise TestError(f"the test function {name} wants arguments, which nobody gives")
                tests += [thing] * (not required)
        if not tests and part.asserts and not self.asserted:
            if part.runs_assertions:  # by its text: the program has kept it from them
                raise AssertionError("none of its assertions is reached")
            raise TestError("it has assertions, and none of them is run")
        return tests

    def judge(self, run):
        """Runs a part, or one of its tests; how that went, and what `run` returned."""
        TestError.first = None
        result, value = {}, None
        try:
            value = run()
        except BaseException as error:
            result = self.outcome(error)
        return {"test": TestError.first} if TestError.first else result, value

    def outcome(self, error):
        line = last_line(error)
        if hasattr(error, "_arrived"):
            return {"error": line}
        if isinstance(error, ModuleNotFoundError):
            return {"test": f"{line}: this Python does not have what the test imports"}
        if isinstance(error, (NameError, ImportError, MemoryError)):
            return {"error": line}
        place = self.place(error)
        is_plain = place and line == "AssertionError"
        return {"assertion": place if is_plain else f"{place} ({line})".strip()}

    def place(self, error):
        """The text of the innermost statement of the test that an error has passed through."""
        files, place, traceback = {part.file: part for part in self.parts}, "", error.__traceback__
        while traceback is not None:
            part = files.get(traceback.tb_frame.f_code.co_filename)
            place = part.statement(traceback.tb_lineno) if part else place
            traceback = traceback.tb_next
        return place


def of_program(text):
    """An error that is the program's."""
    error = RuntimeError(text)
    error._arrived = True
    return error


def undefined(name):
    """Stands under a usual name that the program was to define and has not."""
    def call(*_, **__):
        raise NameError(f"name {name!r} is not defined")
    return call


def shown(text):
    """A text short enough to be shown, without halves of characters, which nobody can read."""
    return text[:MOST_SHOWN].encode("utf-8", "replace").decode()


def session(content):
    """Runs all parts, from the part and test function that `content` names."""
    sys.stdin, sys.stdout = open(os.devnull), open(os.devnull, "w")
    sys.stderr = sys.stdout
    sys.setrecursionlimit(RECURSION)
    random.seed(1)  # what the test draws is not what the program draws
    channel = Channel()

    def say(kind, body):
        channel.send(kind, json.dumps(body).encode())

    def report(result):
        say(b"u", {key: shown(text) for key, text in result.items()})

    try:
        checker = Checker(channel, content)
    except BaseException as error:
        report({"test": last_line(error)})
    else:
        run_parts(checker, say, report)
    channel.send(b"z", b"")
    return 0


def run_parts(checker, say, report):
    _, defined = checker.channel.receive()
    result, names = checker.judge(lambda: checker.bind(json.loads(defined)))
    if result:
        return report(result)
    for number, (part, code) in enumerate(zip(checker.parts, checker.codes), -1):  # -1 is the setup
        say(b"p", [number, -1])
        before, checker.asserted = dict(checker.space), 0

        def run():
            problem = part.needs(names, checker.records)
            if problem:
                raise TestError(f"{problem}; only plain data crosses between a program and its test")
            checker.run_part(part, code)
            return checker.tests(part, before) if number >= 0 else []

        result, tests = checker.judge(run)
        if number < 0:
            if result:
                return report(result)
        elif result or not tests:
            report(result)
        else:
            say(b"c", [number, len(tests)])
            for index, test in enumerate(tests):
                say(b"p", [number, index])
                report(checker.judge(test)[0])
