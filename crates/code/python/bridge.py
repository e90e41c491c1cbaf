"""One end of the talk between a program and its test: questions about objects, answers, and questions while one is answered.

    q  a question: {"op": name, "v": its operands, "o": objects, "plain": whether the answer must stand for itself}
    a  its answer: {"v": the value, or "x": the error, "o": objects, "m": objects of the question that have changed,
       "out": what was printed, "line": the last line of the error's traceback}
"""

import collections
import functools
import json
import sys
import traceback
import types

from attributes import MUTABLE, Malformed, is_unchanged, snapshot
from operations import OPERATIONS
from proxies import (Handle, INTERNAL, Numbered, Remote, RemoteMeta, coroutine, function, generator, is_proxy, iterator,
                     new_instance, remote)
from values import Decoder, Encoder

# Modules whose classes have the same name on both sides.
CLASSES = {"builtins", "collections", "decimal", "fractions", "datetime"}
# Modules whose functions may be given to the program by their name.
FUNCTIONS = CLASSES | {"math", "_operator", "operator", "cmath", "statistics", "string", "re", "json", "heapq", "_heapq", "time"}
# Modules whose exceptions have the same name on both sides.
EXCEPTIONS = {
    "builtins", "decimal", "json.decoder", "re", "re._constants", "sre_constants", "struct", "binascii", "zlib", "queue",
    "_queue", "statistics", "asyncio.exceptions", "dataclasses", "subprocess", "copy", "concurrent.futures._base",
}
FUNCTION_TYPES = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.ClassMethodDescriptorType, functools.partial,
)
BUILTIN_ITERATORS = tuple({type(it) for it in (
    iter([]), iter(()), iter({}), iter({}.values()), iter({}.items()), iter(set()), iter(""), iter(b""), iter(range(0)),
    iter(range(1 << 70)), reversed([]), reversed({}), iter(int, 0), map(int, ()), filter(int, ()), zip(), enumerate(()),
)})
RECORD_NAMES = {*vars(collections.namedtuple("record", ())), "_field_types", "_field_defaults", "__annotations__", "__orig_bases__",
                "__annotate__", "__annotations_cache__", "__annotate_func__"}


# What a message can do to whoever reads it, if it was made to.
UNREADABLE = (Malformed, LookupError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError, ImportError)


def last_line(error):
    """The last line of an error's traceback."""
    try:
        lines = traceback.format_exception_only(type(error), error)
        text = lines[-1] if isinstance(error, SyntaxError) else lines[0]
        return text.strip().split("\n")[0][:500]
    except BaseException:
        return type(error).__name__


def is_exception(kind):
    return isinstance(kind, type) and issubclass(kind, BaseException)


class Bridge:
    """`namespace` has the classes that both sides define under the same names (`shared`)."""

    careful = False

    def __init__(self, channel, namespace):
        self.channel = channel
        self.namespace = namespace
        self.shared = set()
        self.exports = []
        self.export_numbers = {}
        self.imports = {}
        self.records = {}
        self.printed = lambda: ""
        self.plain = False

    # Questions and answers.

    def ask(self, op, *operands):
        """The value of an operation there, or its error."""
        encoder = Encoder(self)
        body = {"op": op, "v": encoder.element(operands), "o": encoder.complete()}
        self.channel.send(b"q", json.dumps(body).encode())
        while True:
            kind, data = self.channel.receive()
            if kind == b"a":
                break
            self.answer(data)
        try:
            message = json.loads(data)
            decoder = Decoder(self, message, encoder.objects)
            for number, content in message.get("m", ()):
                if type(encoder.objects[number]) not in MUTABLE and not self.is_shared(type(encoder.objects[number])):
                    raise Malformed("an object that cannot change has changed")
                decoder.fill(encoder.objects[number], content)
            error = decoder.element(message["x"]) if "x" in message else None
            value = decoder.element(message.get("v"))
            printed = message.get("out", "")
        except UNREADABLE as problem:
            if op == "global" and isinstance(problem, ImportError):
                raise  # a module that is not here
            return self.misspoken(problem)
        if printed:
            sys.stdout.write(str(printed))
        if error is None:
            return value
        if op in ("call", "getattr") and isinstance(error, (StopIteration, StopAsyncIteration, GeneratorExit)):
            # Where a test calls it from an iterator, such an error would end the iteration as if all were done.
            error = RuntimeError(f"a call raised {type(error).__name__}")
        raise self.arrived(error)

    def answer(self, data):
        """Answers a question of the other side."""
        try:
            message = json.loads(data)
            decoder = Decoder(self, message)
            operands = decoder.element(message["v"])
            op = message["op"]
            before = [(number, thing, snapshot(thing)) for number, thing in enumerate(decoder.objects)
                      if type(thing) in MUTABLE or self.is_shared(type(thing))]
        except UNREADABLE as problem:
            return self.misspoken(problem)
        self.plain = bool(message.get("plain"))
        try:
            key, result = "v", self.perform(op, operands)
        except BaseException as error:
            key, result = "x", error
            error.__traceback__ = None  # so that what it holds on to is given back
        if self.plain:  # from who has nothing that could change, and no input
            self.reply((), (), key, result)
        else:
            self.reply(decoder.objects, before, key, result)

    def reply(self, known, before, key, result):
        encoder = Encoder(self, known)
        try:
            body = {key: encoder.element(result)}
            changed = [[number, encoder.content(thing)] for number, thing, old in before if not is_unchanged(thing, old)]
            body["o"] = encoder.complete()
        except Exception as error:
            encoder, changed = Encoder(self), []
            body = {"x": encoder.element(TypeError(f"the value cannot be passed on: {error}")), "o": encoder.complete()}
        if key == "x":
            body["line"] = last_line(result)
        if changed:
            body["m"] = changed
        printed = self.printed()
        if printed:
            body["out"] = printed
        self.channel.send(b"a", json.dumps(body).encode())

    def perform(self, op, operands):
        first, *others = operands
        if type(first) is Numbered:
            raise Malformed("an object of the other side")
        return OPERATIONS[op](first, *others)

    def misspoken(self, problem):
        """What becomes of a message that cannot be read."""
        raise problem

    def arrived(self, error):
        """An error that the other side has raised, before it is raised here."""
        return error

    # Objects that stay here, for the other side.

    def number(self, x):
        number = self.export_numbers.get(id(x))
        if number is None:
            number = self.export_numbers[id(x)] = len(self.exports)
            self.exports.append(x)
        return number

    def export(self, x, encoder):
        """The element for what is no plain data."""
        if is_proxy(x):
            return ["H", remote(x).number]
        if type(x) is Numbered:
            return ["H", x.number]
        if isinstance(x, type):
            return self.export_class(x)
        if isinstance(x, types.ModuleType):
            return ["m", x.__name__]
        if isinstance(x, BaseException):
            names = self.exception_names(type(x))
            if names:
                return ["e", names, [encoder.element(argument) for argument in x.args]]
        if self.careful and isinstance(x, types.BuiltinFunctionType) and x.__module__ in FUNCTIONS and not isinstance(x.__self__, type):
            return ["g", x.__module__, x.__name__]
        if isinstance(x, types.GeneratorType):
            return ["gen", self.number(x)]
        if isinstance(x, types.CoroutineType):
            return ["co", self.number(x)]
        if isinstance(x, BUILTIN_ITERATORS) or type(x).__module__ == "itertools":
            return ["it", self.number(x)]
        if isinstance(x, FUNCTION_TYPES):
            name, text = getattr(x, "__name__", "function"), getattr(x, "__doc__", None)
            return ["fn", self.number(x), name if type(name) is str else "", text if type(text) is str else None]
        return ["h", self.number(x), self.export_class(type(x), known=False)]

    def export_class(self, kind, known=True):
        if known and kind.__module__ in CLASSES and getattr(sys.modules[kind.__module__], kind.__name__, None) is kind:
            return ["g", kind.__module__, kind.__name__]
        names = self.exception_names(kind) if known and is_exception(kind) else None
        if names:
            return ["E", names]
        bases = [self.export_class(base) for base in kind.__bases__
                 if is_exception(base) or base.__module__ == self.namespace["__name__"]]
        return ["c", self.number(kind), kind.__name__, bases]

    def exception_names(self, kind):
        """Under which names the other side may know an exception of a library, the nearest first; None for one of our own."""
        if kind.__module__ == self.namespace["__name__"]:
            return None
        names = [[base.__module__, base.__qualname__] for base in kind.__mro__
                 if issubclass(base, BaseException) and base.__module__ in EXCEPTIONS]
        return names or None

    # Objects that are there.

    def imported(self, e, decoder):
        tag = e[0]
        if tag == "H":
            if type(e[1]) is not int or e[1] < 0:
                raise Malformed("a number of a handle")
            return self.exports[e[1]]
        if tag == "g":
            return self.named(e[1], e[2])
        if tag == "m":
            return self.module(e[1])
        if tag == "E":
            return self.exception_class(e[1])
        if tag == "e":
            return self.exception(self.exception_class(e[1]), [decoder.element(argument) for argument in e[2]])
        number = e[1]
        if type(number) is not int or number < 0:
            raise Malformed("a number of a handle")
        if number not in self.imports:
            self.imports[number] = self.imported_anew(e, number)
        return self.imports[number]

    def imported_anew(self, e, number):
        tag = e[0]
        if tag == "gen":
            return generator(self, number)
        if tag == "it":
            return iterator(self, number)
        if tag == "co":
            return coroutine(self, number)
        if tag == "fn":
            proxy = new_instance(function, self, number)
            for name, value in (("__name__", e[2]), ("__qualname__", e[2]), ("__doc__", e[3])):
                object.__setattr__(proxy, name, value)
            return proxy
        if tag == "h":
            return new_instance(self.imported(e[2], None), self, number)
        if tag == "c":
            bases = tuple(dict.fromkeys(self.imported(base, None) for base in e[3]))
            if not all(isinstance(base, RemoteMeta) or is_exception(base) for base in bases):
                raise Malformed("a base class")
            if not any(isinstance(base, RemoteMeta) for base in bases):
                bases = (Handle, *bases)
            content = {INTERNAL: Remote(self, number), "__module__": self.namespace["__name__"]}
            if any(map(is_exception, bases)):
                content["args"] = property(lambda error: self.ask("getattr", error, "args"))
            return RemoteMeta(str(e[2]), bases, content)
        raise Malformed(f"{tag!r} is no tag")

    def named(self, module, name):
        """A class that has the same name on both sides."""
        value = getattr(sys.modules[module], name) if module in CLASSES else None
        if not isinstance(value, type):
            raise Malformed("a name of the standard library")
        return value

    def module(self, name):
        raise Malformed("a module")

    def exception_class(self, names):
        for module, name in names:
            kind = getattr(sys.modules.get(module), name, None) if module in EXCEPTIONS else None
            if is_exception(kind):
                return kind
        return Exception

    def exception(self, kind, arguments):
        try:
            return kind(*arguments)
        except Exception:  # some want other arguments than they keep
            error = kind.__new__(kind)
            error.args = tuple(arguments)
            return error

    def is_shared(self, kind):
        return kind.__name__ in self.shared and self.namespace.get(kind.__name__) is kind

    def shared_class(self, name):
        kind = self.namespace.get(name)
        if name not in self.shared or type(kind) is RemoteMeta or not isinstance(kind, type):
            raise Malformed("a class")
        return kind

    def is_record(self, kind):
        """Whether it is a namedtuple without methods of its own."""
        return (kind.__bases__ == (tuple,) and hasattr(kind, "_fields")
                and not set(vars(kind)).difference(RECORD_NAMES, kind._fields))

    def record(self, name, fields):
        """The namedtuple of this name and these fields."""
        kind = self.namespace.get(name)
        if isinstance(kind, type) and type(kind) is type and self.is_record(kind) and list(kind._fields) == fields:
            return kind
        key = (name, *fields)
        if key not in self.records:
            self.records[key] = collections.namedtuple(name, fields, module=self.namespace["__name__"])
        return self.records[key]
