"""Compares `isentrope grade` with Math-Verify, and prints two Markdown tables: answers per second and core, and agreement.

Builds the release binary and puts the same lines through both sides, one thread each. README.md says what is measured and
how the tables are read.
"""

import argparse
import json
import resource
import statistics
import sys
import tempfile
from pathlib import Path

from processes import HERE, ROOT, alternate, build, measure, run, table, warn_if_busy

LINES = ROOT / "crates" / "app" / "isentrope" / "tests" / "fixtures" / "grading"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python that has math-verify")
    parser.add_argument(
        "--lines", type=Path, nargs="+", default=sorted(LINES.glob("*.jsonl")), help="files with gold, response, expected"
    )
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side per file")
    parser.add_argument(
        "--repeats", type=int, default=50, help="how often our side is given the lines, so that its start does not count"
    )
    parser.add_argument("--differences", type=Path, help="where to write the lines that either side judges unlike the other or our side unlike expected")
    args = parser.parse_args()
    if min(args.rounds, args.repeats) < 1:
        parser.error("--rounds and --repeats must be positive")
    return args


def rows_of(path):
    return [json.loads(row) for row in path.read_text().splitlines() if row.strip()]


def ours(isentrope, lines, out):
    """Runs our side: the whole command, files and all. Returns its seconds of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run([isentrope, "grade", "--verifier", "math", "--in", lines, "--out", out, "--threads", 1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def theirs(args, lines):
    """Runs Math-Verify, parsing and verification alone. Returns its seconds of processor time and its verdicts."""
    result, _ = measure([args.python, HERE / "peers_math_verify.py", lines])
    return result


def compare(args, isentrope, lines, directory):
    """One row of each table, and the lines whose verdicts differ."""
    rows = rows_of(lines)
    many, out = directory / "many.jsonl", directory / "out.jsonl"
    many.write_text("".join(json.dumps(row) + "\n" for row in rows) * args.repeats)
    seconds, results = alternate(args.rounds, lambda: ours(isentrope, many, out), lambda: theirs(args, lines))
    speeds = [args.repeats * len(rows) / statistics.median(seconds)]
    speeds.append(len(rows) / statistics.median(result["seconds"] for result in results))

    mine = [row["verdict"] == "correct" for row in rows_of(out)[: len(rows)]]
    other = results[0]["verdicts"]
    expected = [bool(row["expected"]) for row in rows]
    right = [sum(a == b for a, b in zip(verdicts, expected)) for verdicts in (mine, other)]
    both = sum(a == b for a, b in zip(mine, other))
    false = [
        f"{sum(v and not e for v, e in zip(verdicts, expected))} / {sum(e and not v for v, e in zip(verdicts, expected))}"
        for verdicts in (mine, other)
    ]
    share = lambda count: f"{count / len(rows):.1%}"
    speed = [lines.stem, str(len(rows)), *(f"{s:,.0f}" for s in speeds), f"{speeds[0] / speeds[1]:.0f}"]
    agreement = [lines.stem, str(len(rows)), *map(share, right), share(both), *false]
    differences = [
        row | {"isentrope": a, "math_verify": b} for row, a, b, e in zip(rows, mine, other, expected) if a != b or a != e
    ]
    return speed, agreement, differences


def main():
    args = arguments()
    warn_if_busy()
    isentrope = build("isentrope", "bin", "isentrope")
    speeds, agreements, differences = [], [], []
    for lines in args.lines:
        with tempfile.TemporaryDirectory() as directory:
            speed, agreement, different = compare(args, isentrope, lines, Path(directory))
        speeds.append(speed)
        agreements.append(agreement)
        differences += [{"file": lines.name} | row for row in different]
        print(f"{lines.name}: ratio {speed[-1]}", file=sys.stderr)
    print(table(["lines", "number", "isentrope answers/s", "Math-Verify answers/s", "ratio"], speeds))
    print()
    headings = ["lines", "number", "isentrope as expected", "Math-Verify as expected", "same verdict"]
    print(table(headings + ["isentrope false + / -", "Math-Verify false + / -"], agreements))
    if args.differences:
        args.differences.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in differences))


if __name__ == "__main__":
    main()
