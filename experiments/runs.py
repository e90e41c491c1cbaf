"""The runs of a sweep, of its directory or of a table in docs/paper/results, and means over their seeds: what figures.py and tables.py share."""

import csv
import functools
import gzip
import io
import json
import math
import re


# What the pictures and the tables of docs/paper/results.md need of metrics.jsonl.
KEPT = re.compile(
    r"policy/entropy|theory/.+|cov/(fraction|mean|(top|quadrant)_.+)|reward/(attempts|gave_up|false_steps)"
    r"|eval/.+/(mean@\d+|pass@\d+|maj@\d+|entropy|length_mean|attempts|gave_up|false_steps|entropy_initial_states|kl_initial)"
)


def groups(source, wanted):
    """Each group's finished runs, {name: {seed: [row of metrics.jsonl, ...]}}, of a sweep's directory or a table of `keep`."""
    found = of_table(source) if source.suffix == ".gz" else of_sweep(source)
    for name in wanted or []:
        if name not in found:
            raise SystemExit(f"{source} has no group {name!r}; it has {', '.join(found)}")
    return {name: runs for name, runs in found.items() if not wanted or name in wanted}


def of_sweep(sweep):
    table = json.loads((sweep / "table.json").read_text())
    return {group["name"]: {run: rows(sweep, group["name"], run) for run in group["runs"]} for group in table["groups"] if group["runs"]}


def of_table(path):
    found = {}
    with gzip.open(path, "rt", newline="") as file:
        for line in csv.DictReader(file):
            row = {name: float(value) for name, value in line.items() if name not in ("group", "run") and value}
            found.setdefault(line["group"], {}).setdefault(line["run"], []).append(row)
    return found


def seed_of(group, run):
    """What tells a run from the others of its group: directories are in the order of the sweep's axes."""
    return run.removeprefix(f"{group}/").removesuffix(f"/{group}")


def keep(found, out):
    """A line for each step of each run, with what pictures need; columns without a value are empty."""
    runs = [(group, run, row) for group, seeds in found.items() for run, rows in seeds.items() for row in rows]
    names = sorted({name for _, _, row in runs for name in row if KEPT.fullmatch(name)})
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["group", "run", "step", *names])
    for group, run, row in runs:
        values = [row.get(name) for name in names]
        if any(value is not None for value in values):
            table.writerow([group, run, int(row["step"]), *("" if value is None else f"{value:.5g}" for value in values)])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def together(before, found):
    """The runs of both; of a run that both have, what was found now."""
    return {group: {**before.get(group, {}), **found.get(group, {})} for group in {**before, **found}}


def rows(sweep, group, run):
    """Rows of a run's metrics.jsonl; directories are in the order of the sweep's axes, with the seed's where it stands there."""
    for place in (sweep / run, sweep / group / run, sweep / run / group):
        if (place / "metrics.jsonl").exists():
            return [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
    raise SystemExit(f"{sweep} has no metrics.jsonl of {group} {run}")


def within(t, degrees):
    """Probability that Student's t lies within -t and t (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3, 26.7.4)."""
    angle, odd = math.atan(t / math.sqrt(degrees)), degrees % 2
    term = total = math.cos(angle) if odd else 1.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= math.cos(angle) ** 2 * (k - 1) / k
        total += term
    share = math.sin(angle) * total if degrees > 1 else 0.0
    return 2 / math.pi * (angle + share) if odd else share


@functools.cache
def quantile(degrees):
    """The t within which Student's t lies with probability 0.95, from either side."""
    low, high = 0.0, 16.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, degrees) < 0.95 else (low, middle)
    return high


def mean_and_error(values):
    """The mean of at least two numbers, and its standard error."""
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))


def mean_and_half(values):
    """The mean, and half its 95 % interval by Student's t; of one number 0."""
    if len(values) < 2:
        return sum(values), 0.0
    mean, error = mean_and_error(values)
    return mean, quantile(len(values) - 1) * error


def evaluation_set(found):
    """The set whose name is shortest, and its k."""
    names = [key for runs in found.values() for row in runs[0] for key in row if key.startswith("eval/") and "/mean@" in key]
    name = min(names, key=len)
    return name.split("/")[1], int(name.split("@")[-1])


def least_squares(x, y):
    """Intercept, slope and R^2."""
    mx, my = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)
    left = sum((b - my - slope * (a - mx)) ** 2 for a, b in zip(x, y))
    return my - slope * mx, slope, 1 - left / sum((b - my) ** 2 for b in y)
