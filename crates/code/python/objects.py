"""Objects that have no form as data: under which numbers and names the two sides know them."""

import collections
import enum
import functools
import sys
import types

from attributes import CONTAINERS, PLAIN, Malformed, attributes_of, set_attributes
from iterators import Numbered, coroutine, generator, iterator
from operations import OPERATIONS
from proxies import Handle, INTERNAL, Remote, RemoteMeta, function, is_proxy, new_instance, new_value, remote

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
# What numbers of numpy are as Python's own.
NUMBERS = (bool, int, float, complex)
# Classes whose instances hold more than attributes.
OPAQUE = (int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, BaseException, enum.Enum, type)
# What a namedtuple has beside its fields.
RECORD_NAMES = {
    *vars(collections.namedtuple("record", ())), "_field_types", "_field_defaults", "__annotations__", "__orig_bases__",
    "__annotate__", "__annotations_cache__", "__annotate_func__",
}


def is_exception(kind):
    return isinstance(kind, type) and issubclass(kind, BaseException)


class Objects:
    """The objects that stay here for the other side, and those that are there. `namespace` has the classes that both sides define
    under the same names (`shared`)."""

    careful = False

    def __init__(self, namespace):
        self.namespace = namespace
        self.shared = set()
        self.exports = []
        self.export_numbers = {}
        self.plain_values = {}  # of objects that are values as well, by their numbers
        self.imports = {}
        self.owned = {}  # second proxies, of what a test has made itself
        self.records = {}

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
                attributes = attributes_of(x) if names[0][0] == "" else {}
                parts = (x.args, attributes, attributes.values())
                return ["e", names, *(list(map(encoder.element, part)) for part in parts)]
        if isinstance(x, enum.Enum) and self.is_common(type(x)):
            return ["member", type(x).__name__, x.name]
        is_known = isinstance(x, types.BuiltinFunctionType) and x.__module__ in FUNCTIONS and x.__qualname__ == x.__name__
        if is_known and self.careful:
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
        numpy = sys.modules.get("numpy")
        if numpy and isinstance(x, numpy.generic) and type(x.item()) in NUMBERS:
            return encoder.element(x.item())
        is_container = issubclass(type(x), tuple(CONTAINERS))
        if is_container and self.plain:
            return encoder.element(OPERATIONS["plain"](x))
        number = self.number(x)
        handle = ["h", number, self.export_class(type(x), known=False)]
        plain = next((PLAIN[base] for base in type(x).__mro__ if base in PLAIN), None)
        if self.careful or not plain and not is_container:
            return handle
        if is_container:
            return [*handle, None]  # to be asked for, since it may change
        if number not in self.plain_values:
            self.plain_values[number] = plain(x)
        return [*handle, encoder.element(self.plain_values[number])]

    def export_class(self, kind, known=True):
        if known and self.is_common(kind):
            return ["k", kind.__name__]
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
        names = [["", kind.__name__]] if self.is_common(kind) else []
        if not names and kind.__module__ == self.namespace["__name__"]:
            return None
        names += [[base.__module__, base.__qualname__] for base in kind.__mro__
                 if issubclass(base, BaseException) and base.__module__ in EXCEPTIONS]
        return names or None

    # Objects that are there.

    def imported(self, e, decoder):
        tag = e[0]
        if tag == "H":
            if type(e[1]) is not int or e[1] < 0:
                raise Malformed("a number of a handle")
            return self.exports[e[1]]
        if tag in ("g", "E"):
            return self.no_failure(self.base(e))
        if tag == "m":
            return self.module(e[1])
        if tag == "e":
            arguments, names, values = (list(map(decoder.element, part)) for part in e[2:])
            error = self.exception(self.exception_class(e[1]), arguments)
            if e[1][0][0] == "":
                set_attributes(error, dict(zip(names, values)))
            return error
        if tag == "k":
            return self.shared_class(e[1])
        if tag == "member":
            kind = self.shared_class(e[1])
            if not issubclass(kind, enum.Enum):
                raise Malformed("a member of a class that has none")
            return kind[e[2]]
        number = e[1]
        if type(number) is not int or number < 0:
            raise Malformed("a number of a handle")
        if number not in self.imports:
            self.imports[number] = self.imported_anew(e, number, decoder)
        return self.imports[number]

    def imported_anew(self, e, number, decoder):
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
            kind, plain = self.imported(e[2], None), decoder.element(e[3]) if len(e) > 3 else None
            if plain is not None and type(plain) not in PLAIN:
                raise Malformed("a plain value that is none")
            proxy = new_instance(kind, self, number) if plain is None else new_value(kind, self, number, plain)
            if len(e) > 3:
                remote(proxy).keep(plain)
            return proxy
        if tag == "c":
            bases = tuple(dict.fromkeys(map(self.base, e[3])))
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

    def base(self, e):
        """A class from which another derives."""
        if e[0] == "g":
            return self.named(e[1], e[2])
        return self.exception_class(e[1]) if e[0] == "E" else self.imported(e, None)

    def no_failure(self, kind):
        """A class that is not what the failures of a test are."""
        if self.careful and isinstance(kind, type) and issubclass(AssertionError, kind) and kind is not object:
            raise Malformed(f"{kind.__name__} as an error of its own")
        return kind

    def module(self, name):
        raise Malformed("a module")

    def exception_class(self, names):
        for module, name in names:
            kind = (self.shared_class(name) if module == ""
                    else getattr(sys.modules.get(module), name, None) if module in EXCEPTIONS else None)
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

    def is_common(self, kind):
        """Whether both sides define this class, each for itself."""
        return kind.__name__ in self.shared and self.namespace.get(kind.__name__) is kind

    def is_shared(self, kind):
        """Whether instances of this class go from side to side by their attributes."""
        return self.is_common(kind) and not issubclass(kind, OPAQUE)

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
