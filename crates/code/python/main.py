"""Where a jail's interpreter begins."""

import os
import sys

from server import Server


def start(role, in_jail, modules):
    """Serves programs or tests, until the input ends."""
    if role == "programs":
        import program
        modes = {"script": program.script, "session": program.session}
    else:
        import unittest

        import checker
        import collecting
        import pytest_subset
        sys.modules["pytest"] = pytest_subset.module()
        unittest.main = lambda *_, **__: None  # what it would run is found without it
        for name in ("assertWarns", "assertWarnsRegex", "assertLogs", "assertNoLogs"):
            setattr(unittest.TestCase, name, collecting.missing(name))
        unittest.TestCase.assertIs, unittest.TestCase.assertIsNot = collecting.assert_is, collecting.assert_is_not
        modes = {"test": checker.session}
    for name in modules:
        if name != "sortedcontainers":
            del sys.modules[name]  # programs and tests have these names for themselves
    os.chdir("/tmp")
    Server(modes, in_jail).serve()
