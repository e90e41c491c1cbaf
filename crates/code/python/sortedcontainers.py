"""The part of the package `sortedcontainers` that solutions use, for interpreters without it."""

from collections.abc import MutableSet, Sequence
from itertools import chain

from sorted_list import SortedList

SortedKeyList = SortedList


class SortedSet(MutableSet, Sequence):
    """A set whose items are in order."""

    def __init__(self, iterable=None, key=None):
        self._set = set(() if iterable is None else iterable)
        self._list = SortedList(self._set, key)
        for name in ("bisect", "bisect_left", "bisect_right", "irange", "islice", "index"):
            setattr(self, name, getattr(self._list, name))

    def add(self, value):
        if value not in self._set:
            self._set.add(value)
            self._list.add(value)

    def discard(self, value):
        if value in self._set:
            self._set.remove(value)
            self._list.remove(value)

    def pop(self, index=-1):
        value = self._list.pop(index)
        self._set.remove(value)
        return value

    def update(self, *iterables):
        for value in chain(*iterables):
            self.add(value)
        return self

    def __getitem__(self, index):
        return self._list[index]

    def __delitem__(self, index):
        for value in self._list[index] if isinstance(index, slice) else [self._list[index]]:
            self.discard(value)

    def __contains__(self, value):
        return value in self._set

    def __len__(self):
        return len(self._set)

    def __iter__(self):
        return iter(self._list)

    def __reversed__(self):
        return reversed(self._list)

    def __repr__(self):
        return f"SortedSet({list(self._list)!r})"


class SortedDict(dict):
    """A dict whose keys are in order."""

    def __init__(self, *arguments, **named):
        key = arguments[0] if arguments and (arguments[0] is None or callable(arguments[0])) else None
        if arguments and (arguments[0] is None or callable(arguments[0])):
            arguments = arguments[1:]
        super().__init__(*arguments, **named)
        self._list = SortedList(super().keys(), key)
        for name in ("bisect", "bisect_left", "bisect_right", "irange", "islice", "index"):
            setattr(self, name, getattr(self._list, name))

    def __setitem__(self, key, value):
        if key not in self:
            self._list.add(key)
        super().__setitem__(key, value)

    def __delitem__(self, key):
        super().__delitem__(key)
        self._list.remove(key)

    def __iter__(self):
        return iter(self._list)

    def __reversed__(self):
        return reversed(self._list)

    def keys(self):
        return SortedKeysView(self)

    def values(self):
        return SortedValuesView(self)

    def items(self):
        return SortedItemsView(self)

    def peekitem(self, index=-1):
        key = self._list[index]
        return key, self[key]

    def popitem(self, index=-1):
        key = self._list[index]
        return key, self.pop(key)

    def pop(self, key, *default):
        if key in self:
            self._list.remove(key)
        return super().pop(key, *default)

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *arguments, **named):
        for key, value in dict(*arguments, **named).items():
            self[key] = value

    def clear(self):
        super().clear()
        self._list.clear()

    def copy(self):
        return SortedDict(self._list.key, dict(self.items()))


class _View(Sequence):
    def __init__(self, of):
        self._of = of

    def __len__(self):
        return len(self._of)

    def __getitem__(self, index):
        keys = self._of._list[index]
        return [self._item(key) for key in keys] if isinstance(index, slice) else self._item(keys)

    def __iter__(self):
        return map(self._item, self._of._list)


class SortedKeysView(_View):
    def _item(self, key):
        return key


class SortedValuesView(_View):
    def _item(self, key):
        return self._of[key]


class SortedItemsView(_View):
    def _item(self, key):
        return key, self._of[key]
