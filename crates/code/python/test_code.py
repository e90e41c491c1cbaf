"""Assertion code of a data set, and the names that it finds."""

import ast
import builtins
import sys
import types

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
        everything = [self.entry, *self.parts]
        roots = self.entry.used if self.entry_point else set()
        shared = {name for name in self.preamble if isinstance(self.space[name], type)}
        shared |= {name for part in everything for name in part.classes if defined.get(name) == "class"}
        bridge.share(shared - roots)
        used = {name for part in everything for name in part.used} & set(defined) - self.preamble - bridge.shared
        # A program that redefines `abs` must not judge itself by it. One that was to define a function `sum` may do so: then the
        # test uses no other name of it.
        usual = {name for name in used if hasattr(builtins, name) or callable(self.prelude.get(name))}
        for name in (used - usual or usual) | (roots & set(defined)):
            if defined[name] != "module" or name not in self.prelude:
                try:
                    self.space[name] = bridge.ask("global", name)
                except ModuleNotFoundError:
                    pass  # a module that the test has not
        for name in SOLUTION_NAMES:
            sys.modules[name] = Solution(name, bridge, defined)

    def candidate(self):
        """What the tests are about."""
        if "candidate" not in self.space:
            self.space["candidate"] = eval(self.entry_point, self.space)
        return self.space["candidate"]


class Solution(types.ModuleType):
    """The module of the program, as a test imports it."""

    def __init__(self, name, bridge, defined):
        super().__init__(name)
        public = [name for name in defined if not name.startswith("_")]
        self.__dict__.update(_bridge=bridge, _defined=set(defined), __all__=public)

    def __getattr__(self, name):
        if name not in self._defined:
            raise AttributeError(f"the program does not define {name!r}")
        return self._bridge.ask("global", name)

    def __setattr__(self, name, value):
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            self._bridge.ask("set_global", name, value)
            self._defined.add(name)
