"""Runs cells of one session, the way an interactive interpreter does. The cells are on standard
input, as JSON: [the earlier ones, the new one]. Only the new one's output is seen. A mark behind it says
that the interpreter has come to its end, and was not ended by a cell, as by os._exit(0)."""

import ast
import atexit
import json
import linecache
import os
import sys
import traceback

MARK = "\x04"


def run(code, file, names):
    linecache.cache[file] = len(code), None, code.splitlines(True), file
    try:
        tree = ast.parse(code, file)
        is_valued = tree.body and isinstance(tree.body[-1], ast.Expr)
        last = tree.body.pop() if is_valued else None
        exec(compile(tree, file, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), file, "eval"), names)
            if value is not None:
                print(repr(value))
    except BaseException as error:  # sys.exit() too
        steps = error.__traceback__
        while steps is not None and not steps.tb_frame.f_code.co_filename.startswith("cell "):
            steps = steps.tb_next
        print("".join(traceback.format_exception(type(error), error, steps)), end="")
    sys.stdout.flush()


def main():
    atexit.register(sys.__stdout__.write, MARK)  # runs behind what cells register
    earlier, cell = json.load(sys.stdin)
    names = {"__name__": "__main__"}
    seen, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    for number, code in enumerate(earlier, 1):
        run(code, f"cell {number}", names)
    for descriptor in (1, 2):
        os.dup2(seen, descriptor)
    run(cell, f"cell {len(earlier) + 1}", names)


main()
