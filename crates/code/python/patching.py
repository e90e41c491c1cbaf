"""What a test puts in the place of something of a library, for the time of a test, the program finds there too."""

import types

from verdicts import TestError

# What has its own way to the program, or stands in the test's process alone.
HERE = {("builtins", "input"), ("sys", "stdin"), ("sys", "stdout"), ("sys", "stderr")}
# What the talk between the two processes is made of.
NEEDED = {"json", "threading", "traceback", "struct", "math", "collections", "importlib"}
NEEDED_OF_OS = {"write", "readv", "getpid", "_exit"}
OF_BUILTINS = {"print", "open"}


class Library:
    """A module of a library, in both processes. What is deleted is again what it was."""

    def __init__(self, module, bridge):
        self.__dict__.update(_module=module, _bridge=bridge, _originals={})

    def __getattr__(self, name):
        return getattr(self._module, name)

    def __setattr__(self, name, value):
        module = self._module.__name__
        if module in NEEDED or module in ("os", "posix") and name in NEEDED_OF_OS \
                or module == "builtins" and name not in OF_BUILTINS and (module, name) not in HERE:
            raise TestError(f"{module}.{name} cannot be replaced here")
        self._originals.setdefault(name, getattr(self._module, name, self))
        setattr(self._module, name, value)
        if (module, name) not in HERE:
            self._bridge.ask("patch", module, name, value)

    def __delattr__(self, name):
        if name not in self._originals:
            return  # it could not be replaced
        restore(self._module, name, self._originals.pop(name), self)
        if (self._module.__name__, name) not in HERE:
            self._bridge.ask("unpatch", self._module.__name__, name)


def restore(module, name, original, nothing):
    """Puts back what was under a name, or `nothing`."""
    if original is nothing:
        delattr(module, name)
    else:
        setattr(module, name, original)


class Patching:
    """Finds what is to be changed where a test names it."""

    bridge = None

    def begin(self, bridge, uses_mock):
        self.bridge = bridge
        if uses_mock:
            from unittest import mock  # large, and seldom wanted
            enter = mock._patch.__enter__

            def entering(patch):
                find = patch.getter
                patch.getter = lambda: self.target(find())
                try:
                    return enter(patch)
                finally:
                    patch.getter = find
            mock._patch.__enter__ = entering

    def target(self, thing):
        is_library = type(thing) is types.ModuleType and thing.__name__ != "__main__"
        return Library(thing, self.bridge) if is_library else thing


PATCHING = Patching()
