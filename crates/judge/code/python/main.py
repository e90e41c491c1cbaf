"""The first code of a jail's interpreter behind the loader."""

import os
import sys

from server import Server


def start(role, in_jail, modules):
    """Serves programs or tests until the input ends."""
    if role == "programs":
        import program
        modes = {"script": program.script, "session": program.session}
    else:
        import checker
        import pytest_names
        modes = {"test": checker.session}
    for name in modules:
        del sys.modules[name]  # programs and tests have these names for themselves
    if role == "tests":
        sys.modules["pytest"] = pytest_names.module()
    os.chdir("/tmp")
    Server(modes, in_jail).serve()
