"""What the programs in front of Python functions and classes of the user share. It stands before each of them."""

import sys

if sys.path[:1] == [""]:
    del sys.path[0]  # nothing in the current directory may stand for a module of the standard library

import functools
import importlib
import importlib.util
import inspect
import os
import re
import traceback


class Refused(Exception):
    """The function or class cannot be used at all."""


def take_streams():
    """Keeps standard input and output for questions and answers: what is printed elsewhere goes to standard error."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):  # printing what a response holds must not be an error
        stream.reconfigure(errors="backslashreplace")
    return questions, answers


def where_it_runs():
    """Which Python this is, for whoever has installed a module elsewhere."""
    version = ".".join(map(str, sys.version_info[:3]))
    return f"this is Python {version}, {sys.executable}: install the module there, or name another Python in `interpreter`"


def load_file(place):
    path = os.path.abspath(place)
    stem = os.path.basename(path)[: -len(".py")]
    name = f"reward_{stem}" if stem in sys.modules else stem
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def own_traceback(error):
    """The traceback without the steps of this text and of the import."""
    steps = error.__traceback__
    while steps is not None and re.match("<string>|<frozen importlib", steps.tb_frame.f_code.co_filename):
        steps = steps.tb_next
    return "".join(traceback.format_exception(type(error), error, steps)).rstrip()


@functools.lru_cache(maxsize=None)
def event_loop():
    """One for all calls, since what an async function keeps from call to call may belong to it."""
    import asyncio

    return asyncio.new_event_loop()


# Errors of what a sandbox refuses or lacks.
REFUSALS = (ImportError, OSError)


def of_sandbox(error):
    """That there is a sandbox, where that may be why."""
    if sys.argv[-1] != "apart" or not isinstance(error, REFUSALS):
        return ""
    return " (in the sandbox, which sees only the directory of the function's file and Python's own)"


def last_line(error, file):
    """The last line of a traceback, with where in the function's file it was."""
    line = traceback.format_exception_only(type(error), error)[-1].strip()[:500] + of_sandbox(error)
    steps = [step for step in traceback.extract_tb(error.__traceback__) if step.filename == file]
    return f"{line} ({os.path.basename(file)}, line {steps[-1].lineno})" if steps else line


