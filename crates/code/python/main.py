"""Where a jail's interpreter begins."""

import os
import sys
import unittest
import unittest.mock

import checker
import program
import pytest_subset
from server import Server


def start(role, in_jail, modules):
    """Serves programs or tests, until the input ends."""
    for name in modules:
        if name != "sortedcontainers":
            del sys.modules[name]  # programs and tests have these names for themselves
    if role == "programs":
        for name in [name for name in sys.modules if name.split(".")[0] == "unittest"]:
            del sys.modules[name]
        modes = {"script": program.script, "session": program.session}
    else:
        sys.modules["pytest"] = pytest_subset.module()
        unittest.main = lambda *_, **__: None  # what it would run is found without it
        modes = {"test": checker.session}
    os.chdir("/tmp")
    Server(modes, in_jail).serve()
