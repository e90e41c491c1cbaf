"""Containers that a test and a program both have. What a test gives to an object of its own, and what it gets from it, is one
thing in both processes: each has it, and with every message it hears of what has changed.

A container is known by who has lent it and a number: ["L", n] is the n-th that the writer of a message has lent, ["M", n] the
n-th that its reader has.
"""

import sys

from attributes import MUTABLE, Malformed, is_unchanged, snapshot

# As many, and as many items in all of them when they were lent; what is beyond is copied.
MOST, MOST_ITEMS = 1024, 16384


def references(things, key):
    """How many references there are to one of the things, those of the table and of this function included."""
    x = things[key]
    return sys.getrefcount(x)


# Of what nobody has any more.
UNUSED = references({0: []}, 0)


class Lent:
    """The containers, and what they held when the other side last heard of them. `may_drop`: whether this is the side that
    notices when nobody has one any more."""

    def __init__(self, may_drop):
        self.may_drop = may_drop
        self.things = {}  # by (whether this side has lent it, number)
        self.keys = {}  # by id
        self.before = {}
        self.items = {}
        self.count = 0

    def element(self, x):
        """How it is written; None if it is not lent."""
        key = self.keys.get(id(x))
        return key and ["L" if key[0] else "M", key[1]]

    def lend(self, x):
        """Its number; None if it is to be copied."""
        if len(self.things) >= MOST or sum(self.items.values()) + len(x) > MOST_ITEMS:
            return None
        self.add((True, self.count), x)
        self.count += 1
        return self.count - 1

    def borrow(self, number, x):
        if type(x) not in MUTABLE or len(self.things) >= 2 * MOST:
            raise Malformed("what cannot be lent")
        self.add((False, number), x)

    def add(self, key, x):
        self.things[key], self.keys[id(x)], self.before[key], self.items[key] = x, key, None, len(x)

    def drop(self, key):
        x = self.things.pop(key, None)
        if x is not None:
            del self.before[key], self.items[key]
            self.keys.pop(id(x), None)

    def unused(self):
        """Those that this side has dropped, as the other side knows them."""
        dropped = []
        for key in list(self.things) if self.may_drop else ():
            if references(self.things, key) <= UNUSED:
                dropped.append(["L" if key[0] else "M", key[1]])
                self.drop(key)
        return dropped

    def changed(self):
        """Those that hold something else than when the other side last heard of them."""
        return [(key, x) for key, x in self.things.items()
                if self.before[key] is not None and not is_unchanged(x, self.before[key])]

    def settle(self, keys):
        """The other side has heard of these as they are now."""
        for key in keys:
            if key in self.things:
                self.before[key] = snapshot(self.things[key])


def key_of(element):
    """The key of what the other side has written."""
    tag, number = element
    if tag not in ("L", "M") or type(number) is not int:
        raise Malformed("what is not lent")
    return tag == "M", number
