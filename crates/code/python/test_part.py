"""A part of the assertion code of a data set: what it says, which names it uses, and how it is run."""

import ast
import builtins
import collections
import datetime
import decimal
import fractions
import re
import symtable

from attributes import JUDGING
from proxies import is_same, method_of_object, owning

# What tests call the module with the program.
SOLUTION_NAMES = ("solution", "main", "your_module", "submission", "program", "answer", "candidate")
MOST_SHOWN = 300
MATCH = {ast.Match: "subject"} if hasattr(ast, "Match") else {}  # from Python 3.10 on
CAMEL_CASE = re.compile("[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")

# What a function may have been asked to return that is no object of a class of its own.
VALUES = (str, bytes, list, tuple, dict, set, frozenset, range, int, float, complex, collections.deque,
          collections.Counter, collections.OrderedDict, collections.defaultdict, fractions.Fraction, decimal.Decimal,
          datetime.date, datetime.datetime, datetime.time, datetime.timedelta)
# What rewritten code calls.
HELPERS = {"__is_same__": is_same, "__owning__": owning, "__method_of_object__": method_of_object}


class Part:
    """A part, which stands in a file of this name."""

    def __init__(self, source, file):
        self.source, self.file = source, file
        self.tree = ast.parse(source, file)
        self.used = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        self.classes = {node.name for node in self.tree.body if isinstance(node, ast.ClassDef)}
        self.called = names_called(self.tree)
        self.bound = set(names_bound(self.tree))
        self.used_as_classes = names_used_as_classes(self.tree)
        self.asserts = any(isinstance(node, ast.Assert) for node in ast.walk(self.tree))
        self.read, self.defined = global_names(symtable.symtable(source, file, "exec"))
        self.code = None

    def compile(self, classes, mode="exec"):
        """Makes the code that is run: in it `is` means the objects that proxies stand for, calling one of `classes` makes an
        object of the test's own, and methods of what can be no plain value are not taken for those of plain values."""
        tree = Rewriting(classes).visit(ast.parse(self.source, self.file, mode))
        self.code = compile(ast.fix_missing_locations(tree), self.file, mode, dont_inherit=True)

    def awaits_candidate(self):
        """Whether it defines `check(candidate)` and leaves it to others to call it."""
        return self.defines_check() and not list(self.calls_of_check())

    def defines_check(self):
        return any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in self.tree.body)

    def calls_of_check(self):
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check":
                yield node

    def checked(self):
        """The names that it gives to its own `check`."""
        if not self.defines_check():
            return set()
        given = [argument for call in self.calls_of_check() for argument in call.args + [named.value for named in call.keywords]]
        return {node.id for argument in given for node in ast.walk(argument) if isinstance(node, ast.Name)
                if node.id not in names_bound(argument)}

    def imports_program(self):
        """Whether it says by name what it wants of the program's module."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module in SOLUTION_NAMES and node.names[0].name != "*" \
                    or isinstance(node, ast.Import) and any(alias.name in SOLUTION_NAMES for alias in node.names) \
                    or isinstance(node, ast.Constant) and str(node.value).split(".")[0] == "solution":
                return True
        return False

    def imported_from_program(self):
        """The names by which it has what it imports from the program's module, and that module."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module in SOLUTION_NAMES:
                yield from (alias.asname or alias.name for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from (alias.asname or alias.name for alias in node.names if alias.name in SOLUTION_NAMES)

    def decorators_of_tests(self):
        """The decorators of its test functions and classes, by their names; what is inside of functions is no test."""
        nodes = [self.tree]
        while nodes:
            node = nodes.pop()
            if getattr(node, "name", None) and node.name.lower().startswith("test"):
                yield from getattr(node, "decorator_list", ())
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                nodes += ast.iter_child_nodes(node)

    def statement_at(self, line):
        """The innermost statement in a line."""
        inner = [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno]
        return min(reversed(inner), key=lambda node: node.end_lineno - node.lineno, default=None)

    def depends_on_program(self, statement):
        """Whether something of the program may have decided that a statement runs: one that stands in no `with` of its own
        function runs when somebody calls that."""
        deciding = {ast.If: "test", ast.While: "test", ast.For: "iter", ast.Try: "body", **MATCH}
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        inside = [node for node in ast.walk(self.tree)
                  if isinstance(node, (*functions, ast.With)) and statement in ast.walk(node)]
        if not inside or not isinstance(inside[-1], ast.With):
            return True
        around = (node for node in ast.walk(self.tree) if type(node) in deciding and statement in ast.walk(node))
        parts = (getattr(node, deciding[type(node)]) for node in around)
        return any(isinstance(part, list) or not is_made_of_builtins(part, self.bound) for part in parts)

    def text(self, node):
        text = " ".join((ast.get_source_segment(self.source, node) or "").split())
        return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "…"


class Rewriting(ast.NodeTransformer):
    """Puts calls of the helpers into code."""

    def __init__(self, classes):
        self.classes = classes
        self.objects = set()

    def visit_Module(self, node):
        around, self.objects = self.objects, self.objects | names_of_objects(node)
        self.generic_visit(node)
        self.objects = around
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Module

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if path(node.value) not in self.objects or node.attr not in JUDGING - {"equals"}:  # as arrays and tables have it
            return node
        call = ast.Call(ast.Name("__method_of_object__", ast.Load()), [node.value, ast.Constant(node.attr)], [])
        return ast.copy_location(call, node)

    def visit_Compare(self, node):
        self.generic_visit(node)
        operands = [node.left, *node.comparators]
        if len(operands) > 2 or not isinstance(node.ops[0], (ast.Is, ast.IsNot)) \
                or any(isinstance(operand, ast.Constant) for operand in operands):
            return node
        same = ast.Call(ast.Name("__is_same__", ast.Load()), operands, [])
        return ast.copy_location(same if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), same), node)

    def visit_Assert(self, node):
        self.generic_visit(node)
        reached = ast.Expr(ast.Call(ast.Name("__asserted__", ast.Load()), [], []))
        return [ast.copy_location(reached, node), node]

    def visit_Call(self, node):
        kind = path(node.func)
        self.generic_visit(node)
        if kind in self.classes:
            node.func = ast.copy_location(ast.Call(ast.Name("__owning__", ast.Load()), [node.func], []), node.func)
        return node


def path(node):
    """A name, or names with dots between them; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{path(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def names_called(*trees):
    return {path(node.func) for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)}


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


def names_of_objects(scope):
    """The names that a scope binds once, to what a call returns, and of which it uses such attributes that no plain value has
    all of them."""
    bound, made = collections.Counter(names_bound(scope)), set()
    attributes = collections.defaultdict(set)
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made |= {path(target) for target in node.targets}
        elif isinstance(node, ast.Attribute):
            attributes[path(node.value)].add(node.attr)
    return {name for name in made if bound[name] == 1
            and not any(all(hasattr(kind, attribute) for attribute in attributes[name]) for kind in VALUES)}


def global_names(table):
    """The global names that code reads, and those that it defines."""
    read, defined = set(), set()
    for symbol in table.get_symbols():
        is_global = table.get_type() == "module" or symbol.is_global()
        if is_global and symbol.is_referenced():
            read.add(symbol.get_name())
        if is_global and (symbol.is_assigned() or symbol.is_imported()):
            defined.add(symbol.get_name())
    for inner in table.get_children():
        for ours, theirs in zip((read, defined), global_names(inner)):
            ours |= theirs
    return read, defined


def names_used_as_classes(tree):
    """The capitalized names whose attributes code uses, or attributes of what it gets by calling them, those that it calls on
    both sides of a comparison, and those in CamelCase that it imports from the program and calls."""
    made, found = {}, set(imported_classes(tree)) & names_called(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                made[path(target)] = path(node.value.func)
    capitalized = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            thing = node.value.func if isinstance(node.value, ast.Call) else node.value
            capitalized |= {path(thing), made.get(path(thing), "")}
        elif isinstance(node, ast.Compare):
            capitalized |= names_called(node.left) & names_called(*node.comparators)
    return found | {name for name in capitalized if name.rpartition(".")[2][:1].isupper()}


def imported_classes(tree):
    """What code calls the classes that it imports from the program, going by their names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in SOLUTION_NAMES:
            for alias in node.names:
                if CAMEL_CASE.fullmatch(alias.name):
                    yield alias.asname or alias.name
                elif alias.name == "*":
                    yield from filter(CAMEL_CASE.fullmatch, {inner.id for inner in ast.walk(tree) if isinstance(inner, ast.Name)})
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in SOLUTION_NAMES:
                    for inner in ast.walk(tree):
                        if isinstance(inner, ast.Attribute) and path(inner.value) == (alias.asname or alias.name) \
                                and CAMEL_CASE.fullmatch(inner.attr):
                            yield path(inner)


def is_made_of_builtins(statement, bound):
    """Whether nothing of the program can stand in a statement of a part that binds these names."""
    return all(hasattr(builtins, node.id) and node.id not in bound for node in ast.walk(statement)
               if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
