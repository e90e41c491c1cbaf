"""Judges programs with a plain `subprocess` of this Python per test: code.py's opponent. Prints a JSON object with the seconds
taken and the problems that failed.
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# What LeetCode's solutions have in scope, as harnesses put it before them.
PRELUDE = """from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
"""


def passes(program, stdin="", expected=None):
    ended = subprocess.run([sys.executable, "-I", "-c", program], input=stdin, capture_output=True, text=True, timeout=60)
    lines = lambda text: [line.rstrip() for line in text.rstrip().split("\n")]
    return ended.returncode == 0 and (expected is None or lines(ended.stdout) == lines(expected))


def judge(problem):
    tests, solution = problem["tests"], problem["solution"]
    if isinstance(tests, list):
        return all(passes(solution, test["input"], test["output"]) for test in tests)
    if "functional" in tests:
        return passes(f"{PRELUDE}{solution}\n{tests['functional']}")
    return all(passes(solution, *pair) for pair in zip(tests["inputs"], tests["outputs"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    problems = [json.loads(line) for line in args.problems.read_text().splitlines()]
    begun = time.perf_counter()
    with ThreadPoolExecutor(args.workers) as pool:
        verdicts = list(pool.map(judge, problems))
    seconds = time.perf_counter() - begun
    failed = [problem["name"] for problem, passed in zip(problems, verdicts) if not passed]
    print(json.dumps({"seconds": seconds, "failed": failed}))


if __name__ == "__main__":
    main()
