"""What stands before every program: the names that problem sets take for granted, as their own judges have
them, and the beginning of the program that a prompt may be."""

import builtins

# What LeetCode has in scope, in an order in which modules keep their names and builtins theirs.
SOURCE = """
from string import *
from re import *
from datetime import *
from collections import *
from heapq import *
from bisect import *
from copy import *
from math import *
from random import *
from statistics import *
from itertools import *
from functools import *
from operator import *
from json import *
from sys import exit, maxsize, setrecursionlimit
from typing import *
from dataclasses import dataclass, field
from builtins import *
import abc, array, bisect, collections, copy, dataclasses, datetime, decimal, enum, fractions, functools, heapq
import io, itertools, json, math, operator, os, queue, random, re, statistics, string, sys, time, typing
try:
    from sortedcontainers import SortedDict, SortedList, SortedSet
except ImportError:
    pass  # a package, which this Python may lack
"""

# As deep as LiveCodeBench's harness lets programs recurse.
RECURSION = 50_000


def names():
    """The prelude's names and their values, without the builtins, which programs may replace."""
    names = {}
    exec(SOURCE, names)
    return {name: value for name, value in names.items() if not hasattr(builtins, name) and not name.startswith("__")}


PRELUDE = names()


def beginning(prompt):
    """The code of a prompt, or of its head of a function, which has no body yet. A prompt that is no program says
    in words what to write."""
    for source in (prompt, f"{prompt.rstrip()}\n    pass\n"):
        try:
            return compile(source, "preamble.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            pass
    return compile("", "preamble.py", "exec")
