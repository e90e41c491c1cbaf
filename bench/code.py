"""Compares `isentrope grade --verifier code` with a plain `subprocess` of python3 per test, and prints two Markdown tables:
problems per second of processor time, and how both grow with workers.

Builds the release binary and puts the same programs through both sides, with as many programs at a time. The opponent has no
sandbox and no limit but the time. README.md says what is measured.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from processes import HERE, ROOT, alternate, build, run, table, warn_if_busy

PROBLEMS = ROOT / "crates" / "judge" / "code" / "tests" / "fixtures" / "problems.jsonl"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the Python that runs programs on both sides")
    parser.add_argument("--isentrope", help="the program; built for release if not given")
    parser.add_argument("--problems", type=Path, default=PROBLEMS, help="lines with name, tests and solution")
    parser.add_argument("--repeats", type=int, default=20, help="how often our side is given the problems; the opponent once")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    parser.add_argument("--workers", type=int, nargs="+", help="programs at a time [default: 1, 2, 4, ... up to the cores]")
    args = parser.parse_args()
    cores = os.cpu_count() or 1
    args.workers = args.workers or sorted({1 << i for i in range(cores.bit_length()) if 1 << i <= cores} | {cores})
    if min(args.rounds, args.repeats, *args.workers) < 1:
        parser.error("--rounds, --repeats and --workers must be positive")
    return args


def kinds(problems):
    """The problems by what their tests are: assertion code, or inputs and outputs."""
    by_kind = {"assertions": [], "standard input": []}
    for problem in problems:
        has_code = isinstance(problem["tests"], dict) and "functional" in problem["tests"]
        by_kind["assertions" if has_code else "standard input"].append(problem)
    return {kind: problems for kind, problems in by_kind.items() if problems}


def timed(command):
    """Runs a command; its output, seconds on the clock, and seconds of processor time of all that it has started."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    output, _ = run(command)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return output, seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(isentrope, args, workers, problems, directory):
    """Seconds of both kinds for a problem, the start of the program and of its sandboxes left out."""
    lines, out = directory / "lines.jsonl", directory / "out.jsonl"
    verifier = f"{{ code = {{ workers = {workers}, python = {json.dumps(args.python)} }} }}"
    command = [isentrope, "grade", "--verifier", verifier, "--in", lines, "--out", out]
    seconds = []
    for repeats in (1, 1 + args.repeats):
        rows = [{"ground_truth": p["tests"], "response": f"```python\n{p['solution']}```"} for p in problems] * repeats
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        seconds.append(timed(command)[1:])
        failed = [row["reason"] for row in map(json.loads, out.read_text().splitlines()) if row["verdict"] != "correct"]
        if failed:
            sys.exit(f"{len(failed)} known-good solutions do not pass; the first: {failed[0]}")
    return [(many - few) / (args.repeats * len(problems)) for few, many in zip(*seconds)]


def theirs(args, workers, problems, directory):
    lines = directory / "problems.jsonl"
    lines.write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    output, _, processor = timed([args.python, HERE / "peers_subprocess.py", lines, "--workers", workers])
    result = json.loads(output)
    if result["failed"]:
        sys.exit(f"the opponent fails {result['failed'][0]}")
    return result["seconds"] / len(problems), processor / len(problems)


def main():
    args = arguments()
    warn_if_busy()
    isentrope = args.isentrope or build("isentrope", "bin", "isentrope")
    problems = [json.loads(line) for line in args.problems.read_text().splitlines()]
    speeds, scaling = [], []
    for kind, problems in kinds(problems).items():
        alone = None
        for workers in args.workers:
            with tempfile.TemporaryDirectory() as name:
                directory = Path(name)
                mine, other = alternate(
                    args.rounds,
                    lambda: ours(isentrope, args, workers, problems, directory),
                    lambda: theirs(args, workers, problems, directory),
                )
            clock, processor = ([1 / statistics.median(side) for side in (ms, os)] for ms, os in zip(zip(*mine), zip(*other)))
            print(f"{kind}, {workers} workers: {clock[0]:.1f} and {clock[1]:.1f} problems/s", file=sys.stderr)
            if alone is None:
                alone = clock
                speeds.append([kind, *(f"{s:,.1f}" for s in processor), f"{processor[0] / processor[1]:.1f}"])
            scaling.append([kind, str(workers), *(f"{s:,.1f}" for s in clock), *(f"{s / one:.2f}" for s, one in zip(clock, alone))])
    print(table(["tests", "isentrope problems/s of a core", "subprocess problems/s of a core", "ratio"], speeds))
    print()
    headings = ["tests", "workers", "isentrope problems/s", "subprocess problems/s"]
    print(table(headings + ["isentrope, x one worker", "subprocess, x one worker"], scaling))


if __name__ == "__main__":
    main()
