"""Assertion code of a data set: what its text says of the program that it tests."""

import ast
import re
import symtable

from values import BASES, FIXED, SCALARS

# Names by which tests import the program's module.
SOLUTION_NAMES = ("solution", "main", "your_module", "submission", "program", "answer", "candidate")
CAMEL_CASE = re.compile("[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")
PLAIN_ATTRIBUTES = {name for kind in (*BASES, *FIXED, *SCALARS) for name in dir(kind)
                    if not name.startswith("__")}
# Names for the streams of a program.
STREAMS = {"redirect_stdout", "contextlib.redirect_stdout", "sys.stdin", "sys.stdout"}
MOST_SHOWN = 300


class Part:
    """A part of the assertion code, which stands in a file of this name."""

    def __init__(self, source, file):
        self.source, self.file = source, file
        self.tree = ast.parse(source, file)
        self.nodes = list(ast.walk(self.tree))
        self.used = {node.id for node in self.nodes if isinstance(node, ast.Name)}
        asserts = {node for node in self.nodes if isinstance(node, ast.Assert)}
        functions = [node for node in self.nodes if isinstance(node, ast.FunctionDef)]
        inside = {node for function in functions for node in ast.walk(function)} & asserts
        self.asserts = bool(asserts)
        called = any(function.name in self.used or function.name == "check" for function in functions)
        self.runs_assertions = called or bool(asserts - inside)
        self.read, self.defined = global_names(symtable.symtable(source, file, "exec"))
        self.imported = {}  # from the program, by the names under which the part has it
        self.modules = set()  # under which it has the program's module
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module in SOLUTION_NAMES:
                self.imported.update({name.asname or name.name: name.name for name in node.names})
            elif isinstance(node, ast.Import):
                self.modules |= {name.asname or name.name for name in node.names
                                 if name.name in SOLUTION_NAMES}

    def compiled(self):
        """The code that is run. It counts the assertions that it comes to."""
        tree = Counting().visit(ast.parse(self.source, self.file))
        return compile(ast.fix_missing_locations(tree), self.file, "exec", dont_inherit=True)

    def calls_of(self, name):
        return [node for node in self.nodes if isinstance(node, ast.Call) and path(node.func) == name]

    def called(self):
        return {path(node.func) for node in self.nodes if isinstance(node, ast.Call)}

    def attributes(self):
        """The names that it takes from the program's module as attributes."""
        return {node.attr for node in self.nodes
                if isinstance(node, ast.Attribute) and path(node.value) in self.modules}

    def defines_check(self):
        return any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in self.tree.body)

    def checked(self):
        """The names that it gives to its own `check`."""
        calls = self.calls_of("check") if self.defines_check() else []
        given = [argument for call in calls for argument in (*call.args, *(k.value for k in call.keywords))]
        return {node.id for argument in given for node in ast.walk(argument) if isinstance(node, ast.Name)}

    def statement(self, line):
        """The text of the innermost statement in a line."""
        inner = [node for node in self.nodes
                 if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno]
        node = min(reversed(inner), key=lambda node: node.end_lineno - node.lineno, default=self.tree)
        text = " ".join((ast.get_source_segment(self.source, node) or "").split())
        return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "…"

    def needs(self, names, has_records):
        """The need of a part for more than functions of plain data under these names of the
        program; "" if it has none. Only the text decides: a program could return anything."""
        def is_program(node):
            is_module = isinstance(node, ast.Attribute) and path(node.value) in self.modules
            return is_module or isinstance(node, ast.Name) and node.id in names

        def has_program(*nodes):
            return any(is_program(inner) for node in nodes if node for inner in ast.walk(node))

        def is_result(node):
            is_call = isinstance(node, ast.Call) and is_program(node.func)
            return is_call or isinstance(node, ast.Name) and node.id in results

        def is_class(function):
            is_imported = path(function) in self.imported or "*" in self.imported
            name = self.imported.get(path(function), path(function).rpartition(".")[2])
            return (is_imported or isinstance(function, ast.Attribute)) and CAMEL_CASE.fullmatch(name)

        results = set()
        results |= {path(target) for node in self.nodes if isinstance(node, ast.Assign)
                    and is_result(node.value) for target in node.targets} - {""}
        for node in self.nodes:
            if path(node) in STREAMS:
                return f"it uses {path(node)}"
            if isinstance(node, ast.ExceptHandler) and has_program(node.type) \
                    or isinstance(node, ast.ClassDef) and has_program(*node.bases):
                return "it uses a class of the program's"
            if isinstance(node, ast.withitem) and is_result(node.context_expr):
                return "it uses a context manager of the program's"
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and is_program(node):
                return f"it changes the program's {node.attr}"
            if isinstance(node, ast.Attribute) and node.attr not in PLAIN_ATTRIBUTES and not has_records \
                    and (is_result(node.value) or is_program(node.value)):
                return f"it uses the attribute {node.attr} of an object of the program's"
            if isinstance(node, ast.Call):
                name = path(node.func)
                if is_result(node.func):
                    return "it calls what a function returns"
                if name.endswith("raises") and has_program(*node.args[:1]) \
                        or name in ("isinstance", "issubclass") and has_program(*node.args[1:]) \
                        or is_program(node.func) and is_class(node.func):
                    return "it uses a class of the program's"
        return ""


class Counting(ast.NodeTransformer):
    """Puts a call of `__asserted__` before each assertion."""

    def visit_Assert(self, node):
        reached = ast.Expr(ast.Call(ast.Name("__asserted__", ast.Load()), [], []))
        return [ast.copy_location(reached, node), node]


def path(node):
    """A name, or names with dots between them; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{path(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def global_names(table):
    """The global names that code reads, and those that it defines."""
    read, defined = set(), set()
    for symbol in table.get_symbols():
        if table.get_type() == "module" or symbol.is_global():
            if symbol.is_referenced():
                read.add(symbol.get_name())
            if symbol.is_assigned() or symbol.is_imported():
                defined.add(symbol.get_name())
    for inner in table.get_children():
        for ours, theirs in zip((read, defined), global_names(inner)):
            ours |= theirs
    return read, defined
