"""Assertion code of a data set, and the names that it finds."""

import ast
import builtins
import sys
import types

from proxies import Refused, RemoteMeta, remote
from test_part import HELPERS, Part, SOLUTION_NAMES, is_made_of_builtins

TEST = "test.py"


class TestCode:
    """All parts, and the module in which they run."""

    def __init__(self, content, prelude):
        self.prelude = prelude
        self.module = types.ModuleType("__main__")
        sys.modules["__main__"] = self.module
        self.space = self.module.__dict__
        self.space.update(prelude, __builtins__=builtins, __file__=TEST)
        before = dict(self.space)
        exec(compile(content["preamble"], "preamble.py", "exec", dont_inherit=True), self.space)
        self.preamble = {name for name, value in self.space.items() if before.get(name, self) is not value}
        self.space.update(HELPERS)
        self.entry_point = content["entry_point"]
        self.entry = Part(self.entry_point or "None", "entry_point.py")
        sources = [content["setup"], *content["parts"]]
        self.parts = [Part(source, f"{number}.{TEST}") for number, source in enumerate(sources)]
        self.everything = [self.entry, *self.parts]
        classes = set().union(*(part.used_as_classes for part in self.everything))
        self.entry.compile(classes, "eval")
        for part in self.parts:
            part.compile(classes)

    def bind(self, bridge, defined):
        """Puts proxies of what the program has defined where the test looks for it; `defined` says of each name what it is."""
        defined = {name: what for name, what in defined.items() if not name.startswith("__")}
        roots = self.entry.used if self.entry_point else set()
        shared = {name for name in self.preamble if isinstance(self.space[name], type)}
        shared |= {name for part in self.everything for name in part.classes if defined.get(name) == "class"}
        bridge.share(shared - roots)
        used = {name for part in self.everything for name in part.used} & set(defined) - self.preamble - bridge.shared
        # A program that redefines `abs` must not judge itself by it. One that was to define a function `sum` may do so: then the
        # test uses no other name of it, and none that it should have defined and has not.
        usual = {name for name in used if hasattr(builtins, name) or callable(self.prelude.get(name))}
        bound = set().union(*(part.bound for part in self.everything))
        missing = {name for part in self.everything for name in part.used - bound - set(defined) - set(self.space)
                   if not hasattr(builtins, name)}
        found = {}
        for name in (used - usual or (set() if missing else usual)) | (roots & set(defined)):
            if defined[name] != "module" or name not in self.prelude:
                try:
                    found[name] = self.ask(bridge, name)
                except ImportError:
                    pass  # a module that the test has not
        self.space.update(found)
        for module in SOLUTION_NAMES:
            used = sorted(set(found) - bound)
            sys.modules[module] = Solution(module, lambda name: self.ask(bridge, name), bridge, set(defined), used)

    def ask(self, bridge, name):
        """What the program has under a name."""
        found = bridge.ask("global", name)
        if type(found) is RemoteMeta:
            remote(found).own = True
        return found

    def candidate(self):
        """What the tests are about."""
        if "candidate" not in self.space:
            self.space["candidate"] = eval(self.entry.code, self.space)
        return self.space["candidate"]

    def place(self, error):
        """The part and the innermost statement of the test that an error has passed through."""
        files, place, traceback = {part.file: part for part in self.parts}, (None, None), error.__traceback__
        while traceback is not None:
            part = files.get(traceback.tb_frame.f_code.co_filename)
            if part:
                place = part, part.statement_at(traceback.tb_lineno)
            traceback = traceback.tb_next
        return place

    def statement(self, error):
        """The text of that statement."""
        part, statement = self.place(error)
        return part.text(statement) if statement else ""

    def is_cause(self, error):
        """Whether the test has made an error by itself: it raises it, or makes a mistake in which nothing of the program is."""
        _, statement = self.place(error)
        if statement is None or isinstance(error, Refused) or hasattr(error, "_arrived"):
            return False
        return not isinstance(error, AssertionError) if isinstance(statement, ast.Raise) else is_made_of_builtins(statement)


class Solution(types.ModuleType):
    """The module of the program, as a test imports it: `ask` gives what is under a name. A test that takes all names of it gets
    those that it uses (`used`), and keeps what it has from others under the same names."""

    def __init__(self, name, ask, bridge, defined, used):
        super().__init__(name)
        self.__dict__.update(_ask=ask, _bridge=bridge, _defined=defined, __all__=used)

    def __getattr__(self, name):
        if name not in self._defined:
            raise AttributeError(f"the program does not define {name!r}")
        try:
            return self._ask(name)
        except ImportError:
            raise AttributeError(f"what the program calls {name!r} is a module that a test cannot have") from None

    def __setattr__(self, name, value):
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            self._bridge.ask("set_global", name, value)
            self._defined.add(name)
