"""The process of a program: runs it as a script, or loads it and answers questions about it.

    q  a question: {"op": name, "v": operands, "o": objects}
    a  its answer: {"v": the value, or "x": the error, "o": objects, "m": the objects of the
       question that have changed, "line": the last line of the error's traceback}

In a plain question, objects do not change, and the answer does not refer to them.
"""

import atexit
import builtins
import gc
import io
import json
import os
import symtable
import sys
import threading
import types

from prelude import PRELUDE, RECURSION
from run_process import Channel, last_line, standard_streams
from values import MUTABLE, Decoder, Encoder, Side, has_changed, parts

# Modules in which programs find names without defining them.
LIBRARY = [builtins, *(value for value in PRELUDE.values() if isinstance(value, types.ModuleType))]
OPEN = open
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
    except MemoryError:
        return complain("MemoryError")
    except BaseException as error:
        error.__traceback__ = None
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
        execute(content.get("preamble", ""), "preamble.py", module)
        super().__init__(module.__dict__, "solution")
        self.channel, self.found, self.exports = channel, {}, []
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

    def export(self, x):
        self.exports.append(x)
        return ["x", len(self.exports) - 1]

    def read_element(self, tag, *parts):
        return self.function(*parts) if tag == "p" else self.exports[parts[0]]

    def answer(self, data):
        message = json.loads(data)
        decoder = Decoder(self, message)
        operands = decoder.element(message["v"])
        known = [] if message.get("plain") else decoder.objects
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
        if key == "x":
            body["line"] = last_line(result)
        return body


def session(content):
    """Loads a program and answers questions about it until the run is ended."""
    channel = Channel()
    try:
        program = Program(channel, content)
        loaded = {"names": program.names()}
    except BaseException as error:
        loaded = {"error": "MemoryError" if isinstance(error, MemoryError) else last_line(error)}
    channel.send(b"l", json.dumps(loaded).encode())
    while True:
        kind, data = channel.receive()
        if kind == b"q":
            program.answer(data)
