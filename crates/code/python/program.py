"""What the process of a program does: runs it as a script, or loads it once and answers questions about it."""

import atexit
import builtins
import gc
import importlib
import io
import json
import os
import symtable
import sys
import threading
import types

import prelude
from bridge import Bridge, last_line
from objects import FUNCTIONS
from operations import OPERATIONS
from patching import restore
from run_process import Channel, standard_streams

# What a program prints during a call is kept so far, in characters.
MOST_PRINTED = 1 << 16

PRELUDE = prelude.names()

# Where programs find what is theirs without their doing.
LIBRARY = [builtins, *(module for module in PRELUDE.values() if isinstance(module, types.ModuleType))]
OPEN = open
# What a script may open by name, and its descriptors.
STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


def new_module(name):
    """A fresh module with the prelude's names."""
    module = types.ModuleType(name)
    module.__dict__.update(PRELUDE, __builtins__=builtins, __file__="program.py")
    sys.modules[name] = module
    sys.setrecursionlimit(prelude.RECURSION)
    return module


def script(content):
    """Runs a program as `__main__`; its exit status."""
    standard_streams()
    builtins.open = io.open = open_stream
    return finish(run(content["program"]))


def run(program):
    module = new_module("__main__")
    module.__dict__.update(stdin=sys.stdin, stdout=sys.stdout, stderr=sys.stderr)
    status = 0
    try:
        exec(compile(program, "program.py", "exec", dont_inherit=True), module.__dict__)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if status and not isinstance(end.code, int):
            os.write(2, f"{end.code}\n".encode("utf-8", "replace"))
    except MemoryError:
        os.write(2, b"MemoryError\n")
        status = 1
    except BaseException as error:
        error.__traceback__ = None
        os.write(2, f"{last_line(error)}\n".encode("utf-8", "replace"))
        status = 1
    return status


def finish(status):
    """What an interpreter does at its end, in its order, as far as anybody could notice."""
    for step in (threading._shutdown, atexit._run_exitfuncs, flush, forget, flush):
        try:
            step()
        except BaseException as error:
            os.write(2, f"{last_line(error)}\n".encode("utf-8", "replace"))
            status = status or 1
    return status


def flush():
    for stream in (sys.stdout, sys.__stdout__):
        try:
            stream.flush()
        except ValueError:
            pass  # closed


def forget():
    """Lets go of the program's module, so that files which it holds are written and objects hear of their end. Functions keep
    its names until they go."""
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    sys.modules.pop("__main__", None)
    gc.collect()


def open_stream(file, *arguments, **named):
    """`open`, to which the standard streams are known by names that a jail does not have."""
    stream = STREAMS.get(str(file))
    return OPEN(file if stream is None else os.dup(stream), *arguments, **named)


class Printed(io.StringIO):
    """Keeps what is printed during a call, up to a limit."""

    buffer = open(os.devnull, "wb")

    def write(self, text):
        if self.tell() < MOST_PRINTED:
            super().write(text[:MOST_PRINTED])
        return len(text)

    def take(self):
        text = self.getvalue()
        if text:
            self.seek(0)
            self.truncate()
        return text


class Asked(io.TextIOBase):
    """A standard input that is the test's."""

    buffer = io.BytesIO()

    def __init__(self, bridge):
        self.bridge = bridge

    def readable(self):
        return True

    def readline(self, size=-1):
        return self.bridge.ask("stdin", "readline", size) if self.bridge.has_input() else ""

    def read(self, size=-1):
        return self.bridge.ask("stdin", "read", size) if self.bridge.has_input() else ""

    def __next__(self):
        line = self.readline()
        if not line:
            raise StopIteration
        return line


class Program(Bridge):
    """The program's end of the talk."""

    def __init__(self, channel, module):
        super().__init__(channel, module.__dict__)
        self.depth = 0
        self.functions = {}
        self.imported_names = set()
        self.patched = {}  # what was in modules of libraries, by their names
        printed = sys.stdout = Printed()
        self.printed = printed.take
        sys.stdin = Asked(self)
        module.__dict__.update(stdin=sys.stdin, stdout=sys.stdout)
        ask_for_line = builtins.input
        builtins.input = lambda prompt="": self.ask("stdin", "input", str(prompt)) if self.has_input() else ask_for_line(prompt)

    def has_input(self):
        """Whether there is a test whose input can be read."""
        return self.depth and not self.plain

    def perform(self, op, operands):
        self.depth += 1
        try:
            if op == "global":
                return self.namespace[operands[0]]
            if op == "set_global":
                self.namespace[operands[0]] = operands[1]
            elif op == "patch":
                self.patch(*operands)
            elif op == "unpatch":
                restore(*self.patched.pop(tuple(operands)), self)
            elif op == "share":
                self.shared = set(operands[0])
            elif op == "invoke":
                path, arguments = operands
                return self.function(path)(*arguments)
            elif op in OPERATIONS:
                return super().perform(op, operands)
        finally:
            self.depth -= 1

    def patch(self, name, attribute, value):
        """Puts a value of the test into a module of a library."""
        module = importlib.import_module(name)
        self.patched.setdefault((name, attribute), (module, attribute, getattr(module, attribute, self)))
        setattr(module, attribute, value)

    def function(self, path):
        """What a data set calls a function: a name, a method of `Solution`, or a path."""
        if path not in self.functions:
            self.functions[path] = self.find(path)
        return self.functions[path]

    def defines(self, name):
        return name in self.namespace and (name in self.imported_names or is_defined(name, self.namespace[name]))

    def names(self):
        """The names that the program has defined, and which of them are modules or classes."""
        return {name: "module" if isinstance(value, types.ModuleType) else "class" if isinstance(value, type) else "value"
                for name, value in list(self.namespace.items())
                if type(name) is str and not name.startswith("__") and name not in ("stdin", "stdout") and self.defines(name)}

    def find(self, path):
        first, *rest = path.split(".")
        if not rest and not self.defines(first) and self.defines("Solution"):
            first, rest = "Solution", [first]
        if not self.defines(first):
            raise NameError(f"name {first!r} is not defined")
        found = self.namespace[first]
        for name in rest:
            if isinstance(found, type):
                found = found()
            found = getattr(found, name)
        return found

    def named(self, module, name):
        value = getattr(sys.modules[module], name) if module in FUNCTIONS else None
        return value if callable(value) else super().named(module, name)

    def module(self, name):
        return __import__(name)


def session(content):
    """Loads a program and answers questions about it until the run is ended."""
    channel = Channel()
    module = new_module("solution")
    bridge = Program(channel, module)
    try:
        bridge.imported_names = names_imported(content["program"])
        for name, source in (("preamble.py", content.get("preamble", "")), ("program.py", content["program"])):
            exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        loaded = {"error": "MemoryError" if isinstance(error, MemoryError) else last_line(error)}
    else:
        loaded = {"names": bridge.names()}
    channel.send(b"l", json.dumps(loaded).encode())
    while True:
        kind, data = channel.receive()
        if kind == b"q":
            bridge.answer(data)


def names_imported(program):
    """The names that a program imports, each by its name: it has chosen them, even if it finds the same there anyway."""
    symbols = symtable.symtable(program, "program.py", "exec").get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_imported()}


def is_defined(name, value):
    """Whether what a program has under a name is other than what it finds there anyway, and gets by `import *`."""
    is_usual = name in PRELUDE or hasattr(builtins, name)
    return not is_usual or value is not PRELUDE.get(name) and all(getattr(where, name, where) is not value for where in LIBRARY)
