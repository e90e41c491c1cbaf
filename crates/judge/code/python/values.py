"""Plain data as JSON. Parts keep their identity, and may hold themselves.

A message is {"v": element, "o": objects}. An element is null, true, a small integer, a finite
float, a text, or a list whose first item is a tag. Containers stand in `objects`, by number:

    ["r", n]  object n of this message            ["i", hex]   an integer of any size
    ["q", n]  object n of the question answered   ["f", text]  a float that JSON lacks
    ["e", names, arguments]  an error             ["x"]        a value that is no plain data
    ["p", path, instance]    a function of the program
"""

import collections.abc
import datetime
import decimal
import fractions
import itertools
import math
import sys

# Integers from the one to below the other are numbers of JSON.
LOWEST, BEYOND = -1 << 63, 1 << 64
# An iterator, or a view of a dict, crosses as its first items.
MOST_ITEMS = 10_000

# Types without parts: tag, writer, reader.
SCALARS = {
    bytes: ("b", lambda x: [x.hex()], bytes.fromhex),
    complex: ("complex", lambda x: [repr(x.real), repr(x.imag)],
              lambda re, im: complex(float(re), float(im))),
    range: ("range", lambda x: [hex(x.start), hex(x.stop), hex(x.step)],
            lambda *x: range(*(int(n, 16) for n in x))),
    decimal.Decimal: ("decimal", lambda x: [str(x)], decimal.Decimal),
    fractions.Fraction: ("fraction", lambda x: [hex(x.numerator), hex(x.denominator)],
                         lambda n, d: fractions.Fraction(int(n, 16), int(d, 16))),
    datetime.timedelta: ("timedelta", lambda x: [x.days, x.seconds, x.microseconds],
                         datetime.timedelta),
    **{kind: (kind.__name__, lambda x: [x.isoformat()], kind.fromisoformat)
       for kind in (datetime.date, datetime.time, datetime.datetime)},
}
READ_SCALARS = {tag: read for tag, _, read in SCALARS.values()}
MUTABLE = {list: "l", dict: "d", set: "s"}
FIXED = {tuple: "t", frozenset: "fs", collections.deque: "deque"}
MAKERS = {tag: kind for kind, tag in FIXED.items()}
# The plain value of an instance of a derived class, whatever that class says of itself.
BASES = {
    int: int.__int__, float: float.__float__, str: str.__str__, dict: lambda x: dict(dict.items(x)),
    **{kind: lambda x, kind=kind: kind(kind.__iter__(x)) for kind in (tuple, list, set, frozenset)},
}
VIEWS = tuple(map(type, ({}.keys(), {}.values(), {}.items())))
# Modules whose exceptions have the same name in both processes.
EXCEPTIONS = {"builtins", "decimal", "json.decoder", "re", "re._constants", "sre_constants", "struct",
              "binascii", "zlib", "queue", "_queue", "statistics", "dataclasses", "copy"}
# Errors that a hostile message can cause where it is read.
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError)


class Malformed(ValueError):
    """A message that no honest other side sends."""


class Side:
    """One end of the talk. `namespace` has the classes of the preamble, which both ends define:
    instances of these records cross by their attributes."""

    def __init__(self, namespace, module):
        self.namespace = namespace
        self.records = {name for name, value in namespace.items()
                        if type(value) is type and value.__module__ == module}

    def is_record(self, kind):
        is_own = kind.__name__ in self.records and self.namespace.get(kind.__name__) is kind
        return is_own and kind.__dictoffset__ and not issubclass(kind, (*BASES, BaseException))

    def record(self, name):
        kind = self.namespace.get(name)
        if not isinstance(kind, type) or not self.is_record(kind):
            raise Malformed("a class")
        return kind


def plain_value(x):
    """The plain value that `x` is by a base of its class, or an array's nested list; else `x`."""
    for base, read in BASES.items():
        if issubclass(type(x), base):
            return read(x)
    numpy = sys.modules.get("numpy")
    is_array = numpy and issubclass(type(x), (numpy.generic, numpy.ndarray))
    return x.tolist() if is_array else x


def is_iterator(x):
    is_usual = type(x).__module__ in ("builtins", "itertools")
    return type(x) in VIEWS or is_usual and issubclass(type(x), collections.abc.Iterator)


def parts(x):
    """The parts of a container or a record, to see later whether it has changed."""
    if type(x) in (list, set):
        return list(x)
    pairs = x if type(x) is dict else x.__dict__
    return [*pairs.keys(), *pairs.values()]


def has_changed(x, before):
    now = parts(x)
    return len(now) != len(before) or any(new is not old for new, old in zip(now, before))


def are_elements(items):
    """Whether items are elements as they are."""
    kinds = set(map(type, items))
    if kinds and kinds <= {int, bool}:
        return LOWEST <= min(items) and max(items) < BEYOND
    return kinds <= {str, bool, type(None)} or kinds == {float} and all(map(math.isfinite, items))


class Encoder:
    """Writes one message. `known` are the objects of the question that it answers."""

    def __init__(self, side, known=()):
        self.side = side
        self.table = []
        self.objects = []  # in the order of the table; holding them keeps their identities
        self.numbers = {}
        self.plain = {}
        self.known = {id(thing): number for number, thing in enumerate(known)}

    def element(self, x):
        kind = type(x)
        if x is None or kind is bool or kind is str:
            return x
        if kind is int:
            return x if LOWEST <= x < BEYOND else ["i", hex(x)]
        if kind is float:
            return x if math.isfinite(x) else ["f", repr(x)]
        if kind in SCALARS:
            tag, write, _ = SCALARS[kind]
            return [tag, *write(x)]
        if id(x) in self.known:
            return ["q", self.known[id(x)]]
        if kind in MUTABLE or kind in FIXED or is_iterator(x) or self.side.is_record(kind):
            if id(x) not in self.numbers:
                self.numbers[id(x)] = len(self.objects)
                self.objects.append(x)
            return ["r", self.numbers[id(x)]]
        if issubclass(kind, BaseException):
            names = [[base.__module__, base.__qualname__] for base in kind.__mro__
                     if issubclass(base, BaseException) and base.__module__ in EXCEPTIONS]
            return ["e", names, list(map(self.element, x.args))]
        _, plain = self.plain.setdefault(id(x), (x, plain_value(x)))
        return self.side.export(x) if plain is x else self.element(plain)

    def complete(self):
        """The table: the contents of all objects met so far, and of those that they hold."""
        while len(self.table) < len(self.objects):
            self.table.append(self.content(self.objects[len(self.table)]))
        return self.table

    def elements(self, items):
        items = list(items)
        return items if are_elements(items) else list(map(self.element, items))

    def content(self, x):
        kind = type(x)
        if kind is dict:
            return ["d", self.elements(x.keys()), self.elements(x.values())]
        if kind in MUTABLE or kind in FIXED:
            return [MUTABLE.get(kind) or FIXED[kind], self.elements(x)]
        if is_iterator(x):
            return ["it", self.elements(itertools.islice(x, MOST_ITEMS))]
        return ["o", self.elements(x.__dict__), self.elements(x.__dict__.values()), kind.__name__]


class Decoder:
    """Reads one message. `known` are the objects of the question that it answers."""

    def __init__(self, side, message, known=()):
        self.side, self.known = side, known
        self.table = message["o"]
        self.objects = [None] * len(self.table)
        self.state = bytearray(len(self.table))  # 1: being built, 2: built
        for number in range(len(self.table)):
            self.build(number)
        # Objects that hash by what they hold are filled before the sets and dicts that hold them.
        for tags in (("o", "l"), ("s", "d")):
            for thing, content in zip(self.objects, self.table):
                if content[0] in tags:
                    self.fill(thing, *content)

    def element(self, e):
        if type(e) is dict:
            raise Malformed("an element is an object")
        if type(e) is not list:
            return e
        tag, *parts = e
        if tag == "r":
            return self.build(*parts)
        if tag == "q":
            return self.known[parts[0]]
        if tag == "i":
            return int(parts[0], 16)
        if tag == "f":
            return float(parts[0])
        if tag == "e":
            return self.error(*parts)
        return READ_SCALARS[tag](*parts) if tag in READ_SCALARS else self.side.read_element(tag, *parts)

    def elements(self, items):
        return list(map(self.element, items)) if list in set(map(type, items)) else items

    def error(self, names, arguments):
        found = (getattr(sys.modules.get(module), name, None) for module, name in names
                 if module in EXCEPTIONS)
        kinds = (kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseException))
        kind, arguments = next(kinds, Exception), self.elements(arguments)
        try:
            error = kind(*arguments)
        except Exception:  # some want other arguments than they keep
            error = kind.__new__(kind)
            error.args = tuple(arguments)
        error._arrived = True
        return error

    def build(self, number):
        """Object `number`: complete if it cannot change, otherwise to be filled."""
        if number < 0 or self.state[number] == 1:
            raise Malformed("an object that cannot change holds itself")
        if self.state[number] == 0:
            self.state[number] = 1
            self.objects[number] = self.new(*self.table[number])
            self.state[number] = 2
        return self.objects[number]

    def new(self, tag, items, _=None, name=None):
        if tag == "l":
            return []
        if tag in ("d", "s"):
            return {} if tag == "d" else set()
        if tag in MAKERS:
            return MAKERS[tag](self.elements(items))
        if tag == "it":
            return (item for item in self.elements(items))
        if tag == "o":
            return object.__new__(self.side.record(name))
        raise Malformed(f"{tag!r} is no tag")

    def fill(self, thing, tag, items, values=None, _=None):
        """Makes `thing` hold what its content says."""
        kind, items = type(thing), self.elements(items)
        if MUTABLE.get(kind, "o") != tag or tag == "o" and not self.side.is_record(kind):
            raise Malformed(f"{tag!r} does not change so")
        if tag == "l":
            thing[:] = items
            return
        if tag == "o" and any(type(name) is not str or name.startswith("__") for name in items):
            raise Malformed("an attribute's name")
        held = thing.__dict__ if tag == "o" else thing
        held.clear()
        held.update(items if tag == "s" else zip(items, self.elements(values)))
