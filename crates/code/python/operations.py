"""What may be asked of an object of another process, by name."""

import copy
import math
import operator

from attributes import CONTAINERS


def call(function, arguments, named):
    return function(*arguments, **named)


def batch(iterator, count):
    """At most `count` items, and how it goes on: None, the error that came, or ("end", what a generator returned)."""
    items = []
    try:
        while len(items) < count:
            items.append(next(iterator))
    except StopIteration as end:
        return items, ("end", end.value)
    except BaseException as error:
        return items, error
    return items, None


def enter(manager):
    return type(manager).__enter__(manager)


def leave(manager, error):
    return bool(type(manager).__exit__(manager, None if error is None else type(error), error, None))


def await_(awaitable):
    import asyncio  # large, and seldom wanted

    async def waiting():
        return await awaitable
    return asyncio.run(waiting())


def is_iterator(thing):
    return hasattr(type(thing), "__next__")


def plain(container):
    """What a container of a class of its own holds, in one of the type that the class derives from."""
    return next(read for kind, read in CONTAINERS.items() if isinstance(container, kind))(container)


OPERATIONS = {
    "call": call, "getattr": getattr, "setattr": setattr, "delattr": delattr, "hash": hash, "bool": bool, "len": len,
    "str": str, "repr": repr, "format": format, "int": int, "float": float, "complex": complex, "index": operator.index,
    "iter": iter, "next": next, "batch": batch, "send": lambda generator, value: generator.send(value), "await": await_,
    "reversed": reversed, "is_iterator": is_iterator, "contains": operator.contains, "getitem": operator.getitem,
    "setitem": operator.setitem, "delitem": operator.delitem, "enter": enter, "exit": leave, "copy": copy.copy,
    "deepcopy": copy.deepcopy, "plain": plain, "eq": lambda a, b: bool(a == b), "divmod": divmod, "and": operator.and_,
    "or": operator.or_, "abs": abs, "round": round, "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "pow": pow,
    **{name: getattr(operator, name) for name in (
        "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "lshift", "rshift", "xor", "lt", "le", "gt", "ge", "neg",
        "pos", "invert", "iadd", "isub", "imul", "imatmul", "itruediv", "ifloordiv", "imod", "ipow", "ilshift", "irshift",
        "iand", "ixor", "ior")},
}
