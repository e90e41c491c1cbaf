"""Assertion code of a data set, and the names that it finds."""

import ast
import builtins
import importlib
import sys
import types

from proxies import Refused, RemoteMeta, remote
from test_part import HELPERS, Part, SOLUTION_NAMES, is_made_of_builtins
from verdicts import Failed, TestError

TEST = "test.py"
# What tests call modules that they may take for granted. They get their own, whatever the program has under these names.
MODULE_NAMES = {"np": "numpy", "numpy": "numpy", "pd": "pandas", "pandas": "pandas", "pytest": "pytest", "unittest": "unittest"}
# Names beside the builtins by which a test says what it wants of a value.
TOOLS = {
    "isclose", "fabs", "floor", "ceil", "sqrt", "copy", "deepcopy", "Counter", "OrderedDict", "defaultdict", "deque",
    "namedtuple", "date", "datetime", "timedelta", "chain", "islice", "eq", "ne", "lt", "le", "gt", "ge", "is_", "is_not",
    "contains", "loads", "dumps",
}


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
        self.asserted = 0  # assertions that the part has come to
        self.space.update(HELPERS, __asserted__=self.count_assertion)
        self.entry_point = content["entry_point"]
        self.entry = Part(self.entry_point or "None", "entry_point.py")
        sources = [content["setup"], *content["parts"]]
        self.parts = [Part(source, f"{number}.{TEST}") for number, source in enumerate(sources)]
        self.everything = [self.entry, *self.parts]
        self.takes_all = any("*" in part.imported_from_program() for part in self.parts)
        self.called = set().union(*(part.called for part in self.everything))
        classes = set().union(*(part.used_as_classes for part in self.everything))
        self.entry.compile(classes, "eval")
        for part in self.parts:
            part.compile(classes)

    def bind(self, bridge, defined):
        """Puts proxies of what the program has defined where the test looks for it; `defined` says of each name what it is."""
        defined = {name: what for name, what in defined.items() if not name.startswith("__")}
        roots = self.roots()
        shared = {name for name in self.preamble if isinstance(self.space[name], type)}
        shared |= {name for part in self.everything for name in part.classes if defined.get(name) == "class"}
        bridge.share(shared - roots)
        # A program that redefines `abs` must not be judged by that. It is the program's only where the test is about it.
        about = roots or self.only_usual_name()
        self.space.update({name: undefined(name) for name in about - set(defined) if self.is_usual(name)})
        used = {name for part in self.everything for name in part.used - self.preamble if not self.is_usual(name)}
        used -= {"candidate"} if self.entry_point else set()
        found = {}
        for name in (used - bridge.shared | about) & set(defined):
            try:
                found[name] = self.ask(bridge, name)
            except ImportError:
                pass  # a module that the test has not
        self.found = set(found)
        for name in set(MODULE_NAMES) & self.read() - set(self.space):
            try:
                found[name] = importlib.import_module(MODULE_NAMES[name])
            except ImportError:
                pass
        self.space.update(found)
        starred = sorted(set(found).difference(*(part.bound for part in self.everything)))
        for module in SOLUTION_NAMES:
            sys.modules[module] = Solution(module, lambda name: self.ask(bridge, name), bridge, set(defined), starred)

    def is_usual(self, name):
        """Whether a name means something where no program has defined it. A constant such as `re.A` means nothing to a test that
        calls it."""
        is_called = name in self.called and not callable(self.prelude.get(name))
        is_taken = self.takes_all and name not in TOOLS  # with `import *`, from the program
        return hasattr(builtins, name) or name in MODULE_NAMES or name in self.prelude and not is_called and not is_taken

    def read(self):
        """The names that the test reads and nobody but the program defines."""
        defined = set().union(*(part.defined for part in self.parts))
        return {name for part in self.parts for name in part.read if not name.startswith("__")} - defined - self.preamble

    def roots(self):
        """What the test is about as it says itself: the names in its entry point, or those that it gives to its `check`."""
        roots = self.entry.used if self.entry_point else set().union(*(part.checked() for part in self.parts)) & self.read()
        return {name for name in roots if not self.is_usual(name)} or roots

    def only_usual_name(self):
        """The name that a test is about that uses no other name than usual ones, as a set: one that is no tool of tests, if there
        is one, and one that all parts use, if there are several. Only the test decides this: a program could define any name."""
        read = self.read()
        if any(not self.is_usual(name) for name in read) or any(part.imports_program() for part in self.parts):
            return set()
        things = {name: getattr(builtins, name, self.prelude.get(name)) for name in read}
        names = {name for name, thing in things.items() if callable(thing) and getattr(thing, "__module__", "") != "typing"}
        tools = {name for name in names if hasattr(builtins, name) or name in TOOLS}
        names = names - tools or tools
        if len(names) > 1:
            everywhere = {name for name in names if all(name in part.read for part in self.parts[1:])}
            if len(everywhere) != 1:
                raise TestError(f"the tests do not say which of {', '.join(sorted(names))} the program is to define")
            names = everywhere
        return names

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

    def count_assertion(self):
        self.asserted += 1

    def decorates(self, part, alone=False):
        """Whether something of the program is in the decorators of a part's tests, or with `alone` is such a decorator itself."""
        decorators = [decorator.func if alone and isinstance(decorator, ast.Call) else decorator
                      for decorator in part.decorators_of_tests()]
        names = {node.id for decorator in decorators for node in ast.walk(decorator) if isinstance(node, ast.Name)}
        return bool(names & self.found.union(part.imported_from_program()))

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
        part, statement = self.place(error)
        if statement is None or isinstance(error, Refused) or hasattr(error, "_arrived"):
            return False
        if isinstance(statement, ast.Raise):
            return not isinstance(error, (AssertionError, Failed)) and not part.depends_on_program(statement)
        return is_made_of_builtins(statement, part.bound)


def undefined(name):
    """What a test finds under a usual name that the program was to define and has not."""
    def call(*_, **__):
        raise NameError(f"name {name!r} is not defined")
    return call


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

    def __delattr__(self, name):
        """Forgets a name until it is set again, as `patch` does before it puts back what was there."""
        self._defined.discard(name)
