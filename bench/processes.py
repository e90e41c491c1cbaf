"""Building our side, making checkpoints, and running one measurement in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def build(package, kind, name):
    """Builds a target of the workspace for release and returns the path of its program. `kind` is bin or example."""
    command = ["cargo", "build", "--release", "-p", package, f"--{kind}", name, "--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit(f"{' '.join(command)} failed")
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["target"]["name"] == name and message["executable"]:
            return message["executable"]
    sys.exit(f"cargo built no {kind} {name}")


def make_missing(python, models, names):
    """Makes those of the checkpoints that are not in the directory `models` yet."""
    missing = [name for name in names if not (models / name / "config.json").exists()]
    if missing:
        # The maker's report goes to stderr: stdout is the table alone.
        subprocess.run([python, HERE / "make_models.py", models, *missing], check=True, stdout=sys.stderr)


def warn_if_busy():
    """Tells the user about other load: it costs a peer that waits for all its threads far more than it costs a job
    that shares its work out in small pieces, and so bends the ratio."""
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"warning: the load average is {load:.1f}; compare on an idle machine only", file=sys.stderr)


def run(command, environment=None):
    """Runs `command` to its end and returns its output, and its peak resident memory in MiB.

    The kernel counts a child's memory from the fork on, so nothing below this interpreter's own size (about 14 MiB)
    can be told apart.
    """
    command = [str(word) for word in command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | (environment or {}))
    output = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with exit status {process.returncode}")
    return output, usage.ru_maxrss / 1024


def measure(command, environment=None):
    """Runs `command` and returns the JSON object on its last line of output, and its peak resident memory in MiB."""
    output, mebibytes = run(command, environment)
    return json.loads(output.strip().splitlines()[-1]), mebibytes


def alternate(rounds, ours, theirs):
    """Calls the two measurements in turn `rounds` times, the first to go changing every round, and returns both lists
    of results. A machine that slows down or speeds up then does so for both."""
    results = {ours: [], theirs: []}
    for i in range(rounds):
        for side in (ours, theirs) if i % 2 == 0 else (theirs, ours):
            results[side].append(side())
    return results[ours], results[theirs]


def table(headings, rows):
    """A Markdown table; the first column is text, the others figures."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
