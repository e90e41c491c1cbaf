"""What containers and instances hold: read, replaced, and seen to change."""

import collections
from operator import is_

# Containers that change: how they are filled, and their tag.
MUTABLE = {
    list: "l", dict: "d", set: "s", bytearray: "B", collections.deque: "deque", collections.OrderedDict: "od",
    collections.Counter: "counter", collections.defaultdict: "dd",
}
# Methods of texts, containers and numbers that say whether a value is as it should be. Of an object that a function has returned
# in the place of such a value they say what it likes.
JUDGING = {
    "startswith", "endswith", "issubset", "issuperset", "isdisjoint", "difference", "symmetric_difference", "intersection",
    "union", "difference_update", "symmetric_difference_update", "intersection_update",
    "count", "find", "rfind", "index", "rindex", "equals", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit",
    "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "is_integer",
}
# Types of values: how one that a class of the program derives from them becomes one of them, whatever that class says.
PLAIN = {int: int.__int__, float: float.__float__, str: str.__str__, tuple: lambda x: tuple(tuple.__iter__(x))}
# Likewise, of what changes.
CONTAINERS = {list: lambda x: list(list.__iter__(x)), dict: lambda x: dict(dict.items(x)), set: lambda x: set(set.__iter__(x)),
              frozenset: lambda x: frozenset(frozenset.__iter__(x))}
DICTS = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)


class Malformed(Exception):
    """A message that no honest other side sends."""


def _slots(kind):
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def attributes_of(x):
    """The attributes of an instance, by name."""
    attributes = dict(getattr(x, "__dict__", {}))
    for name in _slots(type(x)):
        if name not in ("__dict__", "__weakref__") and hasattr(x, name):
            attributes[name] = getattr(x, name)
    return attributes


def set_attributes(x, attributes):
    """Makes these the attributes of an instance. None may hide what its class defines for all: methods, for one."""
    slots, kind = set(_slots(type(x))), type(x)
    own = getattr(x, "__dict__", None)
    if own is not None:
        own.clear()
    for name, value in attributes.items():
        if type(name) is not str or name.startswith("__"):
            raise Malformed("an attribute's name")
        if name in slots:
            object.__setattr__(x, name, value)
        elif own is None or callable(getattr(kind, name, None)) or hasattr(type(getattr(kind, name, None)), "__get__"):
            raise Malformed(f"the attribute {name}")
        else:
            own[name] = value


def snapshot(x):
    """What a container holds, to see later whether it still does."""
    kind = type(x)
    if kind in DICTS:
        return [*x.keys(), *x.values()]
    if kind is bytearray:
        return [bytes(x)]
    return list(x) if kind in MUTABLE else [part for pair in attributes_of(x).items() for part in pair]


def is_unchanged(x, before):
    now = snapshot(x)
    if type(x) is bytearray:
        return now == before
    return len(now) == len(before) and all(map(is_, now, before))
