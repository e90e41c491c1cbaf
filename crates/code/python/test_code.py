"""Assertion code of a data set, and the names that it finds."""

import ast
import builtins
import sys
import types

from proxies import RemoteMeta, remote

TEST = "test.py"
# What tests call the module with the program.
SOLUTION_NAMES = ("solution", "main", "your_module", "submission", "program", "answer", "candidate")
MOST_SHOWN = 300


class Part:
    """A part of the assertion code: what it is, and which names it uses."""

    def __init__(self, source):
        self.source = source
        self.tree = ast.parse(source, TEST)
        self.code = compile(self.tree, TEST, "exec", dont_inherit=True)
        self.used = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        self.classes = {node.name for node in self.tree.body if isinstance(node, ast.ClassDef)}
        self.bound = set(names_bound(self.tree))
        self.used_as_classes = names_used_as_classes(self.tree)

    def awaits_candidate(self):
        """Whether it defines `check(candidate)` and leaves it to others to call it."""
        defines = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in self.tree.body)
        return defines and not any(isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check"
                                   for node in ast.walk(self.tree))

    def statement(self, error):
        """The text of the innermost statement of this part that an error has passed through."""
        line, traceback = None, error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == TEST:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        inner = [node for node in ast.walk(self.tree)
                 if isinstance(node, ast.stmt) and line is not None and node.lineno <= line <= node.end_lineno]
        if not inner:
            return ""
        text = ast.get_source_segment(self.source, min(reversed(inner), key=lambda node: node.end_lineno - node.lineno))
        text = " ".join((text or "").split())
        return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "…"


def names_bound(tree):
    """The names that code gives a meaning, wherever."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)) and node.name:
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]


def names_used_as_classes(tree):
    """The capitalized names whose attributes code uses, or attributes of what it gets by calling them, and those that it calls
    on both sides of a comparison."""
    def path(node):
        if isinstance(node, ast.Name):
            return node.id
        return f"{path(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""

    def called(*nodes):
        return {path(inner.func) for node in nodes for inner in ast.walk(node) if isinstance(inner, ast.Call)}

    made, found = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                made[path(target)] = path(node.value.func)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            thing = node.value.func if isinstance(node.value, ast.Call) else node.value
            found |= {path(thing), made.get(path(thing), "")}
        elif isinstance(node, ast.Compare):
            found |= called(node.left) & called(*node.comparators)
    return {name for name in found if name[:1].isupper()}


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
        self.entry_point = content["entry_point"]
        self.entry = Part(self.entry_point or "None")
        self.parts = [Part(content["setup"])] + [Part(source) for source in content["parts"]]

    def bind(self, bridge, defined):
        """Puts proxies of what the program has defined where the test looks for it; `defined` says of each name what it is."""
        defined = {name: what for name, what in defined.items() if not name.startswith("__")}
        everything = [self.entry, *self.parts]
        roots = self.entry.used if self.entry_point else set()
        shared = {name for name in self.preamble if isinstance(self.space[name], type)}
        shared |= {name for part in everything for name in part.classes if defined.get(name) == "class"}
        bridge.share(shared - roots)
        used = {name for part in everything for name in part.used} & set(defined) - self.preamble - bridge.shared
        # A program that redefines `abs` must not judge itself by it. One that was to define a function `sum` may do so: then the
        # test uses no other name of it, and none that it should have defined and has not.
        usual = {name for name in used if hasattr(builtins, name) or callable(self.prelude.get(name))}
        bound = set().union(*(part.bound for part in everything))
        missing = {name for part in everything for name in part.used - bound - set(defined) - set(self.space)
                   if not hasattr(builtins, name)}
        self.used_as_classes = set().union(*(part.used_as_classes for part in everything))
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
        if name in self.used_as_classes and type(found) is RemoteMeta:
            remote(found).own = True
        return found

    def candidate(self):
        """What the tests are about."""
        if "candidate" not in self.space:
            self.space["candidate"] = eval(self.entry_point, self.space)
        return self.space["candidate"]


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
