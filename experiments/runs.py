"""Runs of a sweep, from its directory or from a table in docs/paper/results, and what `isentrope lab seeds` computes of them.

No statistics are made here: means, intervals, tests and fits are the program's. ISENTROPE names it; the default is `isentrope`.
"""

import csv
import gzip
import io
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "docs/paper/results"

# The metrics that the pictures and the tables of docs/paper/results.md need.
KEPT = re.compile(
    r"policy/entropy|rollout/groups|theory/.+|cov/(fraction|coefficient|mean|gradient_share|(top|quadrant)_.+)|reward/(attempts|gave_up|false_steps)"
    r"|eval/.+/(mean@\d+|pass@\d+|maj@\d+|entropy|length_mean|attempts|gave_up|false_steps|entropy_initial_states|kl_initial)"
)


def groups(source, wanted):
    """Each group's finished runs, {name: {run: [row of metrics.jsonl, ...]}}, of a sweep's directory or a table of `keep`."""
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


def rows(sweep, group, run):
    """Rows of a run's metrics.jsonl; directories are in the order of the sweep's axes, with the seed's where it stands there."""
    for place in (sweep / run, sweep / group / run, sweep / run / group):
        if (place / "metrics.jsonl").exists():
            return [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
    raise SystemExit(f"{sweep} has no metrics.jsonl of {group} {run}")


def seed_of(group, run):
    """The seed in a run's name: directories are in the order of the sweep's axes."""
    return run.removeprefix(f"{group}/").removesuffix(f"/{group}")


def keep(found, out, wanted=""):
    """A line for each step of each run, with the kept metrics that match `wanted`; columns without a value are empty."""
    runs = [(group, run, row) for group, seeds in found.items() for run, rows in seeds.items() for row in rows]
    names = sorted({name for _, _, row in runs for name in row if KEPT.fullmatch(name) and re.match(wanted, name)})
    if not names:
        raise SystemExit(f"no kept metric's name begins with {wanted!r}")
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
    """The runs of both; of a group's seed that both have, the run that was found now, whatever its name."""
    joined = {}
    for group in {**before, **found}:
        runs = [*before.get(group, {}).items(), *found.get(group, {}).items()]
        by_seed = {seed_of(group, run): (run, rows) for run, rows in runs}
        joined[group] = dict(by_seed.values())
    return joined


def pooled():
    """Ten seeds of four methods, up to step 200, from two tables; seed 101 chose the settings and is left out."""
    found = gathered({
        "countdown-methods": {name: name for name in ("grpo", "clip-cov", "kl-cov", "reference-kl")},
        "countdown-strength": {"grpo": "grpo", "clip-cov": "clip-cov-0.02", "kl-cov": "kl-cov-0.02-by-1", "reference-kl": "reference-kl-0.05"},
    })
    return {group: {run: [row for row in rows if row["step"] <= 200] for run, rows in runs.items() if not run.endswith("/101")}
            for group, runs in found.items()}


def doses():
    """Runs without a method, then three methods at four entropies and KL-Cov at two, of three tables."""
    methods = ("skywork", "clip-cov", "reference-kl")
    return gathered({
        "countdown-equal-entropy": {"none": "none", **{f"{name}-20": name for name in (*methods, "kl-cov")}},
        "countdown-equal-entropy-0.15": {f"{name}-15": name for name in (*methods, "kl-cov")},
        "countdown-held": {f"{name}-{level}": f"{name}-{level}" for level in (25, 30) for name in methods},
    })


def gathered(tables):
    """Runs of several tables, {name: {name/seed: rows}}, from {table: {name: the group's name in the table}}."""
    found = {}
    for table, names in tables.items():
        groups_of = of_table(RESULTS / f"{table}.csv.gz")
        for name, group in names.items():
            for run, rows in groups_of[group].items():
                found.setdefault(name, {})[f"{name}/{seed_of(group, run)}"] = rows
    return found


def analysis(found):
    """What `isentrope lab seeds --json` computes of these groups."""
    with tempfile.TemporaryDirectory() as scratch:
        table = Path(scratch) / "table.csv.gz"
        keep(found, table)
        program = os.environ.get("ISENTROPE", "isentrope")
        return json.loads(subprocess.run([program, "lab", "seeds", "--json", table], check=True, capture_output=True).stdout)


def computed(found):
    """The program's curves and laws of each group: {name: {"curves": {metric: ...}, "laws": {set: ...}}}."""
    everything = analysis(found)
    return {group["name"]: curves for group, curves in zip(everything["groups"], everything["curves"])}


def paired(found, metrics):
    """Differences to the first group at the end of a run: {name: [difference of each metric]}."""
    everything = analysis(found)
    ends = {row["measure"]["metric"]: row["against"] for row in everything["rows"] if row["measure"]["taken"] == "end"}
    return {group["name"]: [ends[metric][place]["difference"] for metric in metrics]
            for place, group in enumerate(everything["groups"]) if place}


def prices(found):
    """What each group's runs should pay for entropy by the law of the first group's runs, and what they pay: {name: (price, paid)}."""
    name, k = evaluation_set(found)
    everything = analysis(found)
    taken = {row["measure"]["taken"]: row for row in everything["rows"] if row["measure"]["metric"] == f"eval/{name}/mean@{k}"}
    return {group["name"]: (taken["law-price"]["means"][place], taken["end"]["against"][place]["difference"])
            for place, group in enumerate(everything["groups"]) if place}


def evaluation_set(found):
    """The set whose name is shortest, and its k."""
    names = [key for runs in found.values() for row in next(iter(runs.values())) for key in row
             if key.startswith("eval/") and "/mean@" in key]
    name = min(names, key=len)
    return name.split("/")[1], int(name.split("@")[-1])
