"""Values as JSON: plain data as itself, everything else as a handle on an object that stays where it is.

A message is {"v": element, "o": objects}. An element is null, true, a small integer, a finite float, a text, or a list whose
first item is a tag. Containers stand in `objects`, in any depth and with any cycles, and are referred to by their number:

    ["r", n]     object n of this message             ["i", hex]    an integer of any size
    ["q", n]     object n of the question answered    ["f", text]   a float that JSON lacks

What needs knowledge of the other side (classes, handles, exceptions) is the business of the bridge.
"""

import collections
import datetime
import decimal
import fractions
import math

from attributes import DICTS, JUDGING, MUTABLE, Malformed, attributes_of, set_attributes

SMALL = 1 << 63


def _all_inline(kinds, items):
    """Whether items of these types are elements as they are."""
    if kinds <= {str, bool, type(None)}:
        return True
    if kinds <= {int, bool}:
        return -SMALL < min(items) and max(items) < SMALL
    return kinds == {float} and all(map(math.isfinite, items))


# Values without parts: how they are written, and read again.
SCALARS = {
    complex: ("complex", lambda x: [repr(x.real), repr(x.imag)], lambda re, im: complex(float(re), float(im))),
    bytes: ("b", lambda x: [x.hex()], bytes.fromhex),
    range: ("range", lambda x: [hex(x.start), hex(x.stop), hex(x.step)], lambda *x: range(*(int(n, 16) for n in x))),
    decimal.Decimal: ("decimal", lambda x: [str(x)], decimal.Decimal),
    fractions.Fraction: ("fraction", lambda x: [hex(x.numerator), hex(x.denominator)],
                         lambda n, d: fractions.Fraction(int(n, 16), int(d, 16))),
    datetime.date: ("date", lambda x: [x.isoformat()], datetime.date.fromisoformat),
    datetime.timedelta: ("timedelta", lambda x: [x.days, x.seconds, x.microseconds], datetime.timedelta),
    type(Ellipsis): ("ellipsis", lambda x: [], lambda: Ellipsis),
    type(NotImplemented): ("notimplemented", lambda x: [], lambda: NotImplemented),
}
READ_SCALARS = {tag: read for tag, _, read in SCALARS.values()}
DATES = {
    datetime.datetime: ("datetime", ("year", "month", "day", "hour", "minute", "second", "microsecond", "fold")),
    datetime.time: ("time", ("hour", "minute", "second", "microsecond", "fold")),
}

VIEWS = {type({}.keys()): "keys", type({}.values()): "values", type({}.items()): "items"}


class Encoder:
    """Writes one message. `known` are the objects of the question that it answers."""

    def __init__(self, bridge, known=()):
        self.bridge = bridge
        self.table = []
        self.objects = []  # in the order of the table; holding them keeps their identities
        self.numbers = {}
        self.known = {id(thing): number for number, thing in enumerate(known)}
        self.written = 0

    def element(self, x):
        kind = type(x)
        if x is None or kind is bool or kind is str:
            return x
        if kind is int:
            return x if -SMALL < x < SMALL else ["i", hex(x)]
        if kind is float:
            return x if math.isfinite(x) else ["f", repr(x)]
        number = self.known.get(id(x))
        if number is not None:
            return ["q", number]
        scalar = SCALARS.get(kind)
        if scalar:
            return [scalar[0], *scalar[1](x)]
        if kind in MUTABLE or kind in (tuple, frozenset, slice) or kind in VIEWS or kind in DATES \
                or self.bridge.is_shared(kind) or self.bridge.is_record(kind):
            return ["r", self.number(x)]
        return self.bridge.export(x, self)

    def number(self, x):
        number = self.numbers.get(id(x))
        if number is None:
            number = self.numbers[id(x)] = len(self.objects)
            self.objects.append(x)
            self.table.append(None)
        return number

    def complete(self):
        """Writes the contents of all objects met so far, and of those that they hold; the table."""
        while self.written < len(self.objects):
            self.table[self.written] = self.content(self.objects[self.written])
            self.written += 1
        return self.table

    def elements(self, items):
        return items if _all_inline(set(map(type, items)), items) else list(map(self.element, items))

    def content(self, x):
        kind = type(x)
        if kind is list or kind is tuple:
            return ["l" if kind is list else "t", self.elements(list(x))]
        if kind in DICTS:
            content = [MUTABLE[kind], self.elements(list(x.keys())), self.elements(list(x.values()))]
            if kind is collections.defaultdict:
                content.append(self.element(x.default_factory))
            return content
        if kind in (set, frozenset):
            return ["s" if kind is set else "fs", self.elements(list(x))]
        if kind is collections.deque:
            return ["deque", self.elements(list(x)), x.maxlen]
        if kind is bytearray:
            return ["B", x.hex()]
        if kind is slice:
            return ["slice", self.elements([x.start, x.stop, x.step])]
        if kind in VIEWS:
            return [VIEWS[kind], self.elements(list(x))]
        if kind in DATES:
            tag, parts = DATES[kind]
            zone = x.utcoffset()
            return [tag, [getattr(x, part) for part in parts], None if zone is None else self.element(zone)]
        if self.bridge.is_record(kind):
            return ["record", kind.__name__, list(kind._fields), self.elements(list(tuple.__iter__(x)))]
        attributes = attributes_of(x)
        return ["o", kind.__name__, list(attributes), self.elements(list(attributes.values()))]


class Decoder:
    """Reads one message. `known` are the objects of the question that it answers."""

    def __init__(self, bridge, message, known=()):
        self.bridge = bridge
        self.known = known
        self.table = message["o"]
        self.objects = [None] * len(self.table)
        self.state = bytearray(len(self.table))  # 1: being built, 2: built
        for number in range(len(self.table)):
            self.build(number)
        # What has a hash is filled before what asks for it.
        for first in (("o",), ("l", "deque"), ("s", "d", "od", "counter", "dd")):
            for number, content in enumerate(self.table):
                if content[0] in first:
                    self.fill(self.objects[number], content)

    def element(self, e):
        if type(e) is not list:
            if type(e) is dict:
                raise Malformed("an element is an object")
            return e
        tag = e[0]
        if tag == "r":
            return self.build(e[1])
        if tag == "q":
            return self.known[e[1]]
        if tag == "i":
            return int(e[1], 16)
        if tag == "f":
            return float(e[1])
        read = READ_SCALARS.get(tag)
        return read(*e[1:]) if read else self.bridge.imported(e, self)

    def elements(self, items):
        return list(map(self.element, items)) if list in set(map(type, items)) else items

    def attributes(self, names, values):
        """The attributes of an instance or a record, by name. Methods that judge may not come as attributes."""
        attributes = dict(zip(names, self.elements(values)))
        if self.bridge.careful and any(name in JUDGING and callable(value) for name, value in attributes.items()):
            raise Malformed("a method in the place of an attribute")
        return attributes

    def build(self, number):
        """Object `number`: complete if it cannot change, otherwise to be filled."""
        if number < 0 or self.state[number] == 1:
            raise Malformed("an object that cannot change holds itself")
        if self.state[number] == 0:
            self.state[number] = 1
            self.objects[number] = self.new(self.table[number])
            self.state[number] = 2
        return self.objects[number]

    def new(self, content):
        tag = content[0]
        if tag == "l":
            return []
        if tag == "d":
            return {}
        if tag == "t":
            return tuple(self.elements(content[1]))
        if tag == "s":
            return set()
        if tag == "fs":
            return frozenset(self.elements(content[1]))
        if tag == "od":
            return collections.OrderedDict()
        if tag == "counter":
            return collections.Counter()
        if tag == "dd":
            return collections.defaultdict(self.element(content[3]))
        if tag == "deque":
            return collections.deque(maxlen=content[2])
        if tag == "B":
            return bytearray.fromhex(content[1])
        if tag == "slice":
            return slice(*self.elements(content[1]))
        if tag == "keys":
            return dict.fromkeys(self.elements(content[1])).keys()
        if tag == "values":
            return dict(enumerate(self.elements(content[1]))).values()
        if tag == "items":
            return dict(self.elements(content[1])).items()
        for kind, (name, parts) in DATES.items():
            if tag == name:
                zone = None if content[2] is None else datetime.timezone(self.element(content[2]))
                return kind(tzinfo=zone, **dict(zip(parts, content[1])))
        if tag == "record":
            fields = self.attributes(content[2], content[3])
            return self.bridge.record(content[1], content[2])._make(fields.values())
        if tag == "o":
            kind = self.bridge.shared_class(content[1])
            return kind.__new__(kind) if kind.__new__ is object.__new__ else object.__new__(kind)
        raise Malformed(f"{tag!r} is no tag")

    def fill(self, thing, content):
        """Makes what `thing` holds what `content` says."""
        tag = content[0]
        if tag == "l":
            thing[:] = self.elements(content[1])
        elif tag in ("d", "od", "dd", "counter"):
            if not isinstance(thing, dict):
                raise Malformed("a dict's content")
            thing.clear()
            for key, value in zip(self.elements(content[1]), self.elements(content[2])):
                thing[key] = value
        elif tag in ("s", "deque"):
            thing.clear()
            (thing.update if tag == "s" else thing.extend)(self.elements(content[1]))
        elif tag == "B":
            thing[:] = bytearray.fromhex(content[1])
        elif tag == "o":
            set_attributes(thing, self.attributes(content[2], content[3]))
        else:
            raise Malformed(f"{tag!r} does not change")
