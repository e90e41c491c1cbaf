"""Proxies: objects that stand for objects of another process. What is done to them is asked of that process.

The process with the test is careful: what the program returned may hear of what the program was given, and of other objects of
the program, but never of a value that the test compares it with. Such a value would tell it what it should have been. Objects
that the test itself has made, by calling a class of the program, are its own, and behave as their class says; but only where
the test shows that it wants a class. Whoever was to write a function and writes a class would be asked how equal it is.

An instance of a class that derives from a number, a text or a container is held against a value of the test as the value that it
is by that type, whatever its class says.

An object that the test has made has a second proxy. What a method returns is never the test's own, not even the object itself:
otherwise all methods could return their object, which equals whatever is expected.
"""

import operator

from attributes import CONTAINERS, JUDGING
from verdicts import Failed, TestError

# Attributes with two underscores that may be asked for. Others are protocols of libraries, which trust what they are told.
ASKED = {"__name__", "__qualname__", "__doc__", "__annotations__", "__members__", "__cause__", "__context__"}
INTERNAL = "_isentrope"


class Refused(TypeError):
    """What a test may not ask of an object of the program."""

    __module__ = "builtins"  # so that nobody is shown ours


class Remote:
    """Where an object is, and whether it is the test's own; of a class, whether the test names it."""

    __slots__ = ("bridge", "number", "own", "is_plain", "value")

    def __init__(self, bridge, number, own=False):
        self.bridge, self.number, self.own, self.is_plain, self.value = bridge, number, own, False, None

    def keep(self, value):
        """It is a value as well, by a type that its class derives from: this one, or if that changes None."""
        self.is_plain, self.value = True, value

    def plain(self, proxy):
        """That value, if it is one."""
        return _plain(self.bridge.ask("plain", proxy)) if self.is_plain and self.value is None else self.value

    def __reduce__(self):
        raise TypeError("an object of the program cannot be copied here")


def is_proxy(x):
    return type(x) is RemoteMeta or type(type(x)) is RemoteMeta


def remote(proxy):
    """The [`Remote`] of a proxy."""
    return (type.__getattribute__(proxy, "__dict__") if type(proxy) is RemoteMeta
            else object.__getattribute__(proxy, "__dict__"))[INTERNAL]


def make_own(result):
    """What the test has made itself: the proxy by which it has it, and the program's answers have not."""
    if not is_proxy(result) or type(result) is RemoteMeta:
        return result
    where = remote(result)
    if where.number not in where.bridge.owned:
        where.bridge.owned[where.number] = new_instance(type(result), where.bridge, where.number, own=True)
    return where.bridge.owned[where.number]


def owning(kind):
    """What a test calls that wants a class: what it makes is the test's own, if it is one."""
    return (lambda *arguments, **named: make_own(kind(*arguments, **named))) if type(kind) is RemoteMeta else kind


def method_of_object(thing, name):
    """`thing.name`, of what the test uses as no plain value can be used."""
    return _ask("getattr", thing, name) if is_proxy(thing) else getattr(thing, name)


def is_same(a, b):
    """`a is b`, of what proxies stand for."""
    return a is b or is_proxy(a) and is_proxy(b) and remote(a).number == remote(b).number


def _ask(op, proxy, *operands):
    return remote(proxy).bridge.ask(op, proxy, *operands)


def _exactly(kind, value):
    if type(value) is not kind:
        raise TypeError(f"an object of the program gave a value that is no {kind.__name__}")
    return value


def _plain(value):
    if type(value) not in CONTAINERS:
        raise TypeError("an object of the program gave a value that is no container")
    return value


def _may_hear(proxy, other):
    """Whether an object may hear of a value that stands beside it in an operation."""
    where = remote(proxy)
    return not where.bridge.careful or where.own or is_proxy(other)


def _is_own(x):
    return is_proxy(x) and type(x) is not RemoteMeta and remote(x).own


def _attribute(proxy, name):
    if name.startswith("__") and name.endswith("__") and name not in ASKED or name == INTERNAL:
        raise AttributeError(name)
    value = _ask("getattr", proxy, name)
    where = remote(proxy)
    if name in JUDGING and callable(value) and where.bridge.careful and not where.own:
        if hasattr(where.plain(proxy), name):
            return getattr(where.plain(proxy), name)
        raise Refused(f"an object of the program does not say of itself what {name} says of a value")
    return value


class RemoteMeta(type):
    """The class of classes that stand for classes of another process. An instance of such a class stands for an instance."""

    def __new__(meta, name, bases, content):
        if INTERNAL not in content:
            is_test = any(type(base) is RemoteMeta and remote(base).bridge.careful for base in bases)
            raise (TestError if is_test else TypeError)("a class cannot derive from one of the other process")
        return super().__new__(meta, name, bases, content)

    def __call__(cls, *arguments, **named):
        return _ask("call", cls, arguments, named)

    def __getattr__(cls, name):
        return _attribute(cls, name)

    def __setattr__(cls, name, value):
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            _ask("setattr", cls, name, value)

    def __delattr__(cls, name):
        _ask("delattr", cls, name)

    def __iter__(cls):
        return iter(_ask("iter", cls))

    def __len__(cls):
        return _exactly(int, _ask("len", cls))

    def __bool__(cls):
        return True

    def __getitem__(cls, key):
        return _ask("getitem", cls, key)

    def __contains__(cls, item):
        return _contains(cls, item)


def new_instance(cls, bridge, number, own=False):
    """An instance of a class of this kind, without asking anybody."""
    proxy = cls.__new__(cls)
    object.__getattribute__(proxy, "__dict__")[INTERNAL] = Remote(bridge, number, own)
    return proxy


def new_value(cls, bridge, number, value):
    """An instance of a class of this kind that is a value as well: one that libraries take for that."""
    content = {INTERNAL: type.__getattribute__(cls, "__dict__")[INTERNAL], "__module__": cls.__module__,
               "__getattribute__": _attribute_of_value}
    kind = RemoteMeta(cls.__name__, (cls, type(value)), content)
    proxy = type(value).__new__(kind, value)
    object.__getattribute__(proxy, "__dict__")[INTERNAL] = Remote(bridge, number)
    return proxy


def _attribute_of_value(proxy, name):
    """What the program's class has under a name, which may be a name that the type of the value has too."""
    return object.__getattribute__(proxy, name) if name.startswith("__") else _attribute(proxy, name)


def _contains(proxy, item):
    if _may_hear(proxy, item):
        return _ask("contains", proxy, item) is True
    plain = remote(proxy).plain(proxy)
    return item in plain if plain is not None else any(item == each for each in proxy)


class Handle(metaclass=RemoteMeta):
    """The base of all these classes."""

    _isentrope = None

    def __call__(self, *arguments, **named):
        return _ask("call", self, arguments, named)

    def __getattr__(self, name):
        return _attribute(self, name)

    def __setattr__(self, name, value):
        if name.startswith("__"):
            object.__setattr__(self, name, value)
        else:
            _ask("setattr", self, name, value)

    def __delattr__(self, name):
        _ask("delattr", self, name)

    def __eq__(self, other):
        if is_proxy(other) and remote(self).number == remote(other).number:
            return True
        if _may_hear(self, other):
            return _ask("eq", self, other) is True
        plain = remote(self).plain(self)
        return plain == other if plain is not None else NotImplemented

    def __ne__(self, other):
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self):
        return _exactly(int, _ask("hash", self))

    def __bool__(self):
        return _exactly(bool, _ask("bool", self))

    def __len__(self):
        return _exactly(int, _ask("len", self))

    def __str__(self):
        return _exactly(str, _ask("str", self))

    def __repr__(self):
        return _exactly(str, _ask("repr", self))

    def __format__(self, how):
        return _exactly(str, _ask("format", self, how))

    def __int__(self):
        return _exactly(int, _ask("int", self))

    def __float__(self):
        return _exactly(float, _ask("float", self))

    def __complex__(self):
        return _exactly(complex, _ask("complex", self))

    def __index__(self):
        return _exactly(int, _ask("index", self))

    def __iter__(self):
        return iter(_ask("iter", self)) if not _is_iterator(self) else self

    def __next__(self):
        return _ask("next", self)

    def __reversed__(self):
        return iter(_ask("reversed", self))

    def __contains__(self, item):
        return _contains(self, item)

    def __getitem__(self, key):
        return _ask("getitem", self, key)

    def __setitem__(self, key, value):
        _ask("setitem", self, key, value)

    def __delitem__(self, key):
        _ask("delitem", self, key)

    def __enter__(self):
        return _ask("enter", self)

    def __exit__(self, kind, error, traceback):
        bridge = remote(self).bridge
        if not bridge.careful or error is None:
            return _ask("exit", self, error) is True
        # A failure is not the program's to hear of, and what the program may have caused is not its to forgive.
        is_failure = isinstance(error, (AssertionError, Failed, TestError, Refused)) and not hasattr(error, "_arrived")
        forgiven = _ask("exit", self, None if is_failure else error) is True
        return forgiven and not is_failure and bridge.is_cause(error)

    def __copy__(self):
        copied = _ask("copy", self)
        return make_own(copied) if _is_own(self) else copied

    def __deepcopy__(self, memory):
        copied = _ask("deepcopy", self)
        return make_own(copied) if _is_own(self) else copied


def _is_iterator(proxy):
    return _ask("is_iterator", proxy) is True


def _binary(op, mirrored):
    compute = divmod if op == "divmod" else getattr(operator, f"__{op}__")

    def operation(self, other):
        if not _may_hear(self, other):
            plain = remote(self).plain(self)
            if plain is not None:
                return compute(other, plain) if mirrored else compute(plain, other)
            raise Refused(f"an object of the program and a value of the test are not combined ({op})")
        result = remote(self).bridge.ask(op, *((other, self) if mirrored else (self, other)))
        return make_own(result) if _is_own(self) or _is_own(other) else result
    return operation


def _unary(op):
    def operation(self, *operands):
        result = _ask(op, self, *operands)
        return make_own(result) if _is_own(self) else result
    return operation


ARITHMETIC = (
    "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "xor", "or",
)
ORDER = ("lt", "le", "gt", "ge")
UNARY = ("neg", "pos", "abs", "invert", "round", "trunc", "floor", "ceil")

for _op in ARITHMETIC:
    type.__setattr__(Handle, f"__{_op}__", _binary(_op, False))
    type.__setattr__(Handle, f"__r{_op}__", _binary(_op, True))
    if _op != "divmod":
        type.__setattr__(Handle, f"__i{_op}__", _binary(f"i{_op}", False))
for _op in ORDER:
    type.__setattr__(Handle, f"__{_op}__", _binary(_op, False))
for _op in UNARY:
    type.__setattr__(Handle, f"__{_op}__", _unary(_op))


class function(Handle):  # the name that type() shows
    _isentrope = None
