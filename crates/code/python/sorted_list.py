"""The sorted list of the package `sortedcontainers`, for interpreters without it: a plain list that is kept in order."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import chain


class SortedList(Sequence):
    """A list that keeps its order. Adding and removing move what comes behind, which is fast up to some 100,000 items."""

    def __init__(self, iterable=None, key=None):
        self._key = key
        self._items = []
        self._keys = self._items if key is None else []
        if iterable is not None:
            self.update(iterable)

    key = property(lambda self: self._key)

    def _of(self, value):
        return value if self._key is None else self._key(value)

    def _find(self, value):
        """Where the value stands, or -1."""
        key = self._of(value)
        for place in range(bisect_left(self._keys, key), len(self._keys)):
            if self._keys[place] != key:
                break
            if self._items[place] == value:
                return place
        return -1

    def add(self, value):
        key = self._of(value)
        place = bisect_right(self._keys, key)
        self._items.insert(place, value)
        if self._key is not None:
            self._keys.insert(place, key)

    def update(self, iterable):
        self._items.extend(iterable)
        self._items.sort(key=self._key)
        if self._key is not None:
            self._keys[:] = map(self._key, self._items)

    def clear(self):
        del self[:]

    def discard(self, value):
        place = self._find(value)
        if place >= 0:
            del self[place]

    def remove(self, value):
        place = self._find(value)
        if place < 0:
            raise ValueError(f"{value!r} not in list")
        del self[place]

    def pop(self, index=-1):
        value = self._items[index]
        del self[index]
        return value

    def __delitem__(self, index):
        del self._items[index]
        if self._key is not None:
            del self._keys[index]

    def __getitem__(self, index):
        return self._items[index]

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        return iter(self._items)

    def __reversed__(self):
        return reversed(self._items)

    def __contains__(self, value):
        return self._find(value) >= 0

    def bisect_left(self, value):
        return bisect_left(self._keys, self._of(value))

    def bisect_right(self, value):
        return bisect_right(self._keys, self._of(value))

    bisect = bisect_right

    def bisect_key_left(self, key):
        return bisect_left(self._keys, key)

    def bisect_key_right(self, key):
        return bisect_right(self._keys, key)

    def count(self, value):
        return self._items.count(value)

    def index(self, value, start=None, stop=None):
        return self._items.index(value, *(() if start is None else (start,) if stop is None else (start, stop)))

    def islice(self, start=None, stop=None, reverse=False):
        part = self._items[start:stop]
        return reversed(part) if reverse else iter(part)

    def irange(self, minimum=None, maximum=None, inclusive=(True, True), reverse=False):
        start = 0 if minimum is None else (self.bisect_left if inclusive[0] else self.bisect_right)(minimum)
        stop = len(self) if maximum is None else (self.bisect_right if inclusive[1] else self.bisect_left)(maximum)
        return self.islice(start, max(start, stop), reverse)

    def copy(self):
        return type(self)(self._items, key=self._key)

    __copy__ = copy

    def __add__(self, other):
        return type(self)(chain(self._items, other), key=self._key)

    def __iadd__(self, other):
        self.update(list(other))
        return self

    def __mul__(self, times):
        return type(self)(self._items * times, key=self._key)

    def __eq__(self, other):
        return self._items == list(other) if isinstance(other, Sequence) else NotImplemented

    def __lt__(self, other):
        return self._items < list(other)

    __hash__ = None

    def __repr__(self):
        return f"{type(self).__name__}({self._items!r})"
