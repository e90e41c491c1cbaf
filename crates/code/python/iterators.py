"""Iterators, generators and coroutines of another process, as such of this one."""

MOST_ITEMS = 1_000_000
BATCH = 256


def generator(bridge, number):
    """A generator that gives what an iterator of the other process gives, some at a time."""
    given, more = 0, True
    while more:
        items, state = bridge.ask("batch", Numbered(number), max(1, min(given, BATCH)))
        for item in items:
            given += 1
            if given > MOST_ITEMS:
                raise RuntimeError(f"an iterator of the program gives more than {MOST_ITEMS} items")
            sent = yield item
            while sent is not None:
                sent = yield bridge.ask("send", Numbered(number), sent)
        if isinstance(state, BaseException):
            raise bridge.arrived(state)
        more = state is None
    return state[1]


class iterator:
    """An iterator that is no generator."""

    def __init__(self, bridge, number):
        self._items = generator(bridge, number)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._items)


async def coroutine(bridge, number):
    return bridge.ask("await", Numbered(number))


class Numbered:
    """An object of the other process that has a proxy of an ordinary type."""

    def __init__(self, number):
        self.number = number
