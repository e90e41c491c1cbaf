"""The process of a program: runs it as a script, or loads it and answers questions about it.

    q  a question of a test: {"op": name, "v": operands, "o": objects}
    a  its answer: {"v": the value, or "x": the error, "o": objects, "m": the objects of the
       question that have changed}
    c  a call with plain data: [function, arguments, most bytes of the value], as JSON
    a  its answer: {"v": the value, as JSON} or {"line": the last line of the error's traceback} or
       {"limit": true}
"""

import atexit
import builtins
import gc
import io
import json
import os
import re
import symtable
import sys
import threading
import types

from prelude import PRELUDE, RECURSION, beginning
from run_process import Channel, last_line, standard_streams
from values import (BASES, MUTABLE, Decoder, Encoder, Side, are_elements, has_changed, parts,
                    plain_value)

# Modules in which programs find names without defining them.
LIBRARY = [builtins, *(value for value in PRELUDE.values() if isinstance(value, types.ModuleType))]
OPEN = open
# Deepest nesting of a value that a call returns.
DEEPEST = 100
# Streams that a script may open by name, and their descriptors.
STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


def new_module(name):
    """A fresh module with the prelude's names."""
    module = types.ModuleType(name)
    streams = {"stdin": sys.stdin, "stdout": sys.stdout, "stderr": sys.stderr}
    module.__dict__.update(PRELUDE, __builtins__=builtins, __file__="program.py", **streams)
    sys.modules[name] = module
    sys.setrecursionlimit(RECURSION)
    return module


def execute(source, file, module):
    exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)


def script(content):
    """Runs a program as `__main__`; its exit status."""
    standard_streams()
    builtins.open = io.open = open_stream
    return finish(run(content["program"]))


def run(program):
    module = new_module("__main__")
    try:
        execute(program, "program.py", module)
    except SystemExit as end:
        is_status = end.code is None or isinstance(end.code, int)
        return end.code or 0 if is_status else complain(end.code)
    except BaseException as error:
        error.__traceback__ = None  # gives back what it holds on to
        return complain(last_line(error))
    return 0


def complain(line):
    os.write(2, f"{line}\n".encode("utf-8", "replace"))
    return 1


def finish(status):
    """Does what an interpreter does at its end, in its order."""
    for step in (threading._shutdown, atexit._run_exitfuncs, flush, forget, flush):
        try:
            step()
        except BaseException as error:
            status = complain(last_line(error)) and status or 1
    return status


def flush():
    for stream in (sys.stdout, sys.__stdout__):
        try:
            stream.flush()
        except ValueError:
            pass  # closed


def forget():
    """Lets go of the program's module: its files are written, and its objects deleted."""
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    sys.modules.pop("__main__", None)
    gc.collect()


def open_stream(file, *arguments, **named):
    """`open`, to which the standard streams are known by names that a jail does not have."""
    stream = STREAMS.get(str(file))
    return OPEN(file if stream is None else os.dup(stream), *arguments, **named)


class Program(Side):
    """The program's end of the talk."""

    def __init__(self, channel, content):
        sys.stdin, sys.stdout = open(os.devnull), open(os.devnull, "w", errors="replace")
        module = new_module("solution")
        exec(beginning(content.get("preamble", "")), module.__dict__)
        super().__init__(module.__dict__, "solution")
        self.channel, self.found = channel, {}
        symbols = symtable.symtable(content["program"], "program.py", "exec").get_symbols()
        # The program has chosen the names that it imports, even if it finds the same there anyway.
        self.imported_names = {symbol.get_name() for symbol in symbols if symbol.is_imported()}
        execute(content["program"], "program.py", module)

    def defines(self, name):
        """Whether the program has more under a name than it finds there or gets by `import *`."""
        if name not in self.namespace or name in self.imported_names:
            return name in self.namespace
        value = self.namespace[name]
        if name not in PRELUDE and not hasattr(builtins, name):
            return True
        return value is not PRELUDE.get(name) and all(
            getattr(module, name, module) is not value for module in LIBRARY)

    def names(self):
        """The names that the program defines, each with what it is: "value" or "function"."""
        return {name: "function" if callable(value) or isinstance(value, types.ModuleType) else "value"
                for name, value in list(self.namespace.items())
                if type(name) is str and not name.startswith("__") and self.defines(name)
                and name not in ("stdin", "stdout", "stderr")}

    def function(self, path, instance):
        """The function of a path: a name, a method of `Solution`, or names with dots. Paths with
        the same number find their methods in the same object."""
        if (path, instance) not in self.found:
            first, *rest = path.split(".")
            if not rest and not self.defines(first) and self.defines("Solution"):
                first, rest = "Solution", [first]
            if not self.defines(first):
                raise NameError(f"name {first!r} is not defined")
            found = self.namespace[first]
            for name in rest:
                if isinstance(found, type):
                    if (found, instance) not in self.found:
                        self.found[found, instance] = found()
                    found = self.found[found, instance]
                found = getattr(found, name)
            self.found[path, instance] = found
        return self.found[path, instance]

    def perform(self, op, operands):
        if op == "global":
            return self.namespace[operands[0]]
        path, instance, arguments, named = operands
        return self.function(path, instance)(*arguments, **named)

    def export(self, _):
        return ["x"]

    def read_element(self, _, *parts):
        return self.function(*parts)

    def answer(self, data):
        message = json.loads(data)
        decoder = Decoder(self, message)
        operands = decoder.element(message["v"])
        known = decoder.objects
        before = [(number, thing, parts(thing)) for number, thing in enumerate(known)
                  if type(thing) in MUTABLE or self.is_record(type(thing))]
        try:
            key, result = "v", self.perform(message["op"], operands)
        except BaseException as error:
            key, result = "x", error
        try:
            body = self.reply(key, result, known, before)
        except Exception as error:  # the value cannot cross, or its items raise an error
            body = self.reply("x", error)
        self.channel.send(b"a", json.dumps(body).encode())

    def reply(self, key, result, known=(), before=()):
        if key == "x":
            result.__traceback__ = None  # gives back what it holds on to
        encoder = Encoder(self, known)
        body = {key: encoder.element(result)}
        body["m"] = [[number, encoder.content(x)] for number, x, old in before if has_changed(x, old)]
        body["o"] = encoder.complete()
        return body

    def call(self, data):
        """Answers a call with plain data."""
        function, arguments, most = json.loads(data)
        try:
            value = self.function(function, 0)(*map(with_whole_keys, arguments))
        except BaseException as error:
            return {"line": last_line(error)}
        try:
            return {"v": plain(value, [most])}
        except OverflowError:
            return {"limit": True}
        except MemoryError:
            return {"line": "MemoryError"}
        except Exception as error:
            return {"line": f"what it returned cannot be read: {error}"}


def with_whole_keys(argument):
    """JSON has texts alone as keys; those of an argument are numbers where all are whole."""
    is_mapping = type(argument) is dict and argument
    if is_mapping and all(re.fullmatch("0|-?[1-9][0-9]{0,17}", key) for key in argument):
        return {int(key): value for key, value in argument.items()}
    return argument


def plain(x, left, depth=0):
    """A value as JSON has it: tuples as lists, keys as texts, and what JSON lacks as an object that
    says what it is. `left` counts the bytes down that it may still come to."""
    def text(key):
        return key if type(key) is str else json.dumps(plain(key, left, depth + 1), separators=(",", ":"))

    if depth > DEEPEST:
        raise ValueError("it is nested too deep, or holds itself")
    take(left, [x])
    kind = type(x)
    if are_elements([x]):
        return x
    if kind in (list, tuple):
        items = list(x)
        if not are_elements(items):
            return [plain(item, left, depth + 1) for item in items]
        take(left, items)
        return items
    if kind is dict:
        return {text(key): plain(value, left, depth + 1) for key, value in x.items()}
    value = x if kind in BASES else plain_value(x)
    return {"a value of Python": kind.__name__} if value is x else plain(value, left, depth + 1)


def take(left, items):
    # At least a sign and a comma for each.
    left[0] -= sum(2 + (len(item) if type(item) is str else 0) for item in items)
    if left[0] < 0:
        raise OverflowError


def session(content):
    """Loads a program and answers questions about it until the run is ended."""
    channel = Channel()
    try:
        program = Program(channel, content)
        loaded = {"names": program.names()}
    except BaseException as error:
        loaded = {"error": last_line(error)}
    channel.send(b"l", json.dumps(loaded).encode())
    while True:
        kind, data = channel.receive()
        if kind == b"q":
            program.answer(data)
        elif kind == b"c":
            channel.send(b"a", json.dumps(program.call(data)).encode())
