"""Draws the pictures of README.md and docs/paper/results.md from the tables in docs/paper/results.

    pip install matplotlib
    python3 experiments/figures.py                        # every picture; ISENTROPE names the program
    python3 experiments/figures.py forest autopilot       # these
    python3 experiments/figures.py --keep runs/countdown-methods docs/paper/results/countdown-methods.csv.gz

`--keep` writes a finished sweep's metrics as a table; with `--add` the runs that the table has stay in it. Lines are
means over seeds, bands and bars 95 % intervals, as `isentrope lab seeds` computes them; thin lines are the seeds of
groups of two or three. Each picture names its tables and their SHA-256, which a test compares.
"""

import argparse
import hashlib
import math
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from runs import RESULTS, computed, doses, evaluation_set, groups, keep, of_table, paired, pooled, prices, seed_of, together

WORDS = "#8b949e"
TEMPERATURES = ("0.6", "0.8", "1.2", "1.4", "1.6")
# One colour for a method in all pictures, by how its group's name begins; the longest beginning counts.
COLOURS = {
    "grpo": "#8b949e", "none": "#8b949e", "no-clipping": "#db6d28", "clip-higher": "#f2cc60", "clip-cov": "#2f81f7",
    "kl-cov": "#f85149", "kl-cov-by-coefficient": "#ff9bce", "reference-kl": "#3fb950", "entropy-bonus": "#a371f7",
    "skywork": "#39c5cf", "any-token": "#7d5a3c", "rloo": "#2f81f7", "reinforce": "#3fb950", "on-policy": "#a371f7",
    "base-brief": "#f2cc60", "base-early": "#39c5cf", "prime": "#f85149",
}

plt.rcParams.update({
    "font.family": "sans-serif", "font.size": 10, "svg.fonttype": "path", "svg.hashsalt": "isentrope",
    "text.color": WORDS, "axes.labelcolor": WORDS, "axes.edgecolor": WORDS, "xtick.color": WORDS, "ytick.color": WORDS,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False,
})


def colour(group):
    return COLOURS[max((name for name in COLOURS if group.startswith(name)), key=len)]


def draw(axis, runs, curve, metric, group):
    """A metric over steps: the mean over seeds with its band, or a single run; thin lines are few seeds."""
    series = [[(row["step"], row[metric]) for row in rows if row.get(metric) is not None] for rows in runs]
    if curve is None:
        axis.plot(*zip(*series[0]), color=colour(group), label=group, linewidth=1.8)
        return
    axis.plot(curve["steps"], curve["mean"], color=colour(group), label=group, linewidth=1.8)
    if len(runs) < 4:
        for one in series:
            axis.plot(*zip(*one), color=colour(group), linewidth=0.7, alpha=0.5)
    else:
        shown = [low > 0.0 or axis.get_yscale() == "linear" for low in curve["low"]]
        axis.fill_between(curve["steps"], curve["low"], curve["high"], where=shown, color=colour(group), alpha=0.15, linewidth=0)


def legend_below(figure, axis, below):
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), bbox_to_anchor=(0.5, below), fontsize=9)


def panels(found, chosen):
    """A row of panels, each with a metric of every group over steps."""
    curves = computed(found)
    figure, axes = plt.subplots(1, len(chosen), figsize=(3.7 * len(chosen), 3.3))
    for axis, (metric, title) in zip(axes, chosen):
        if metric == "cov/fraction":
            axis.set_yscale("log")
        for group, runs in found.items():
            measured = [rows for rows in runs.values() if any(row.get(metric) is not None for row in rows)]
            if measured:
                draw(axis, measured, curves[group]["curves"].get(metric), metric, group)
        seeds = sorted({len(runs) for runs in found.values()})
        axis.set_title(f"{title}, {' or '.join(map(str, seeds))} seeds", fontsize=10)
        axis.set_xlabel("step")
        if "entropy" in metric:
            axis.set_ylim(bottom=0.0)
    legend_below(figure, axes[0], -0.07)
    return figure


def methods(found):
    name, k = evaluation_set(found)
    return panels(found, [("policy/entropy", "H, nats")] + [(f"eval/{name}/{of}@{k}", f"{of}@{k}") for of in ("mean", "pass", "maj")])


def autopilot(found):
    name, k = evaluation_set(found)
    return panels(found, [("policy/entropy", "H, nats"), ("cov/fraction", "fraction picked"),
                          (f"eval/{name}/mean@{k}", f"mean@{k}"), (f"eval/{name}/pass@{k}", f"pass@{k}")])


def seeds(found):
    """A column for each seed that all groups have, and each run in it: for runs that differ more than a mean would show."""
    name, k = evaluation_set(found)
    by_seed = {group: {seed_of(group, run): rows for run, rows in runs.items()} for group, runs in found.items()}
    common = sorted(set.intersection(*map(set, by_seed.values())))
    chosen = [(f"eval/{name}/mean@{k}", f"mean@{k}"), (f"eval/{name}/entropy", "H, nats"), (f"eval/{name}/length_mean", "tokens")]
    figure, axes = plt.subplots(len(chosen), len(common), figsize=(4.2 * len(common), 5.6), sharex=True, sharey="row", squeeze=False)
    for row, (metric, title) in zip(axes, chosen):
        for axis, seed in zip(row, common):
            for group, runs in by_seed.items():
                draw(axis, [runs[seed]], None, metric, group)
        row[0].set_ylabel(title)
        row[0].set_ylim(bottom=0.0)
    for top, bottom, seed in zip(axes[0], axes[-1], common):
        top.set_title(f"seed {seed}", fontsize=10)
        bottom.set_xlabel("step")
    legend_below(figure, axes[0][0], -0.04)
    return figure


def law(found):
    """Accuracy against entropy: every evaluation of every run, with the law through all evaluations of the first group."""
    name, k = evaluation_set(found)
    first = next(iter(found))
    figure, axis = plt.subplots(figsize=(8.0, 3.8))
    for group, runs in found.items():
        evaluated = [row for run in runs.values() for row in run if row.get(f"eval/{name}/mean@{k}") is not None]
        x = [row[f"eval/{name}/entropy"] for row in evaluated]
        axis.scatter(x, [row[f"eval/{name}/mean@{k}"] for row in evaluated], s=9, color=colour(group), alpha=0.7, linewidth=0, label=group)
        if group == first:
            fit = computed({group: runs})[group]["laws"][name]
            a, b = fit["a"]["value"], fit["b"]["value"]
            inside = [min(x) + i / 50 * (max(x) - min(x)) for i in range(51)]
            axis.plot(inside, [b - a * math.exp(h) for h in inside], color=colour(group), linewidth=1.5,
                      label=f"-a exp(H) + b, {group}: R\u00b2 {fit['r_squared']:.3f}")
    axis.set_xlabel("H on the test problems, nats")
    axis.set_ylabel(f"mean@{k}")
    axis.legend(fontsize=8, markerscale=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def forest(**tables):
    """Differences to each table's first group at the end, in points, with 95 % intervals: mean@k and pass@k."""
    figure, axes = plt.subplots(1, 2, figsize=(10.0, 0.2 * sum(map(len, tables.values())) + 1.2), sharey=True)
    labels = []
    for title, found in tables.items():
        name, k = evaluation_set(found)
        labels.append(f"{title} less {next(iter(found))}:")
        for group, accuracies in paired(found, [f"eval/{name}/{of}@{k}" for of in ("mean", "pass")]).items():
            place = -len(labels)
            labels.append(f"{group}, n = {len(found[group])}")
            for axis, difference in zip(axes, accuracies):
                low, high = difference["interval"]
                axis.plot([100 * low, 100 * high], [place, place], color=colour(group), linewidth=1.8)
                axis.plot(100 * difference["value"], place, "o", color=colour(group), markersize=4)
    for axis, of in zip(axes, ("mean@k", "pass@k")):
        axis.axvline(0.0, color=WORDS, linewidth=0.8)
        axis.set_xlabel(f"difference in {of} at the end, points")
        axis.grid(visible=False, axis="y")
    axes[0].set_yticks([-place for place in range(len(labels))], labels, fontsize=8)
    return figure


def frontier(found):
    """pass@k against mean@k at the end, over temperatures of the evaluation: means over seeds, each temperature written beside."""
    name, k = evaluation_set(found)
    figure, axis = plt.subplots(figsize=(7.0, 4.2))
    for group, runs in found.items():
        last = [max(rows, key=lambda row: row["step"]) for rows in runs.values()]
        sets = {1.0: name} | {float(at): f"{name}_t{at}" for at in TEMPERATURES if f"eval/{name}_t{at}/mean@{k}" in last[0]}
        mean = lambda of, at: sum(row[f"eval/{sets[at]}/{of}@{k}"] for row in last) / len(last)
        points = [(100 * mean("mean", at), 100 * mean("pass", at)) for at in sorted(sets)]
        axis.plot(*zip(*points), "o-", color=colour(group), label=f"{group}, {len(last)} seeds", linewidth=1.8, markersize=4)
        for point, at in zip(points, sorted(sets)):
            axis.annotate(f"{at:g}", point, textcoords="offset points", xytext=(4, 4), fontsize=8, color=colour(group))
    axis.set_xlabel(f"mean@{k}, %")
    axis.set_ylabel(f"pass@{k}, %")
    axis.legend(fontsize=9)
    return figure


def doses_paid(found):
    """Points of mean@k that held entropy costs, over the points that the law of the runs without a method foretells: a line for
    each method, a point for each of its targets, with 95 % intervals."""
    name, k = evaluation_set(found)
    figure, axis = plt.subplots(figsize=(7.0, 4.2))
    methods = {}
    for group, pair in sorted(prices(found).items()):
        methods.setdefault(group.rpartition("-")[0], []).append(pair)
    for method, pairs in methods.items():
        x, y = [100 * price["value"] for price, _ in pairs], [-100 * lost["value"] for _, lost in pairs]
        half = lambda of: 50 * (of["interval"][1] - of["interval"][0])
        axis.errorbar(x, y, [half(lost) for _, lost in pairs], [half(price) for price, _ in pairs], "o-", color=colour(method),
                      label=method, linewidth=1.8, markersize=4, elinewidth=0.7)
    axis.axline((0.0, 0.0), slope=1.0, color=WORDS, linewidth=0.8, label="the law")
    axis.axhline(0.0, color=WORDS, linewidth=0.8, linestyle=":")
    axis.set_xlabel(f"price by the law, points of mean@{k}")
    axis.set_ylabel("paid")
    axis.legend(fontsize=9)
    return figure


# Each picture: how it is drawn, and of which tables and groups; None stands for all groups.
PICTURES = {
    "countdown-methods": (methods, {"countdown-methods": None}),
    "countdown-estimators": (law, {"countdown-law": ["grpo", "rloo", "reinforce", "on-policy", "base-brief", "base-early", "prime"]}),
    "autopilot": (autopilot, {"countdown-autopilot": None}),
    "countdown-temperature": (frontier, {"countdown-temperature": None}),
    "countdown-horizon": (methods, {"countdown-horizon": None}),
    "countdown-doses": (doses_paid, {"countdown-doses": None}),
    "smollm2-law": (law, {"smollm2-methods": None}),
    "qwen2.5-coder-1.5b": (seeds, {"qwen2.5-coder-1.5b": ["grpo", "kl-cov", "clip-cov"]}),
    "forest": (forest, {
        "countdown-pooled": None,
        "countdown-methods": ["grpo", "no-clipping", "clip-higher"],
        "countdown-strength": ["grpo", "clip-cov-0.005", "clip-cov-0.02", "clip-cov-0.05", "kl-cov-0.02-by-1", "kl-cov-0.1-by-1",
                               "entropy-bonus-0.003", "entropy-bonus-0.01", "entropy-bonus-0.03", "reference-kl-0.01",
                               "reference-kl-0.05", "reference-kl-0.2"],
        "countdown-autopilot": ["none", "clip-cov", "kl-cov", "entropy-bonus", "skywork", "any-token"],
        "smollm2-held": None,
    }),
}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("pictures", nargs="*", help=f"of {', '.join(PICTURES)}; default all")
    arguments.add_argument("--keep", nargs=2, type=Path, metavar=("SWEEP", "TABLE"), help="write a sweep's metrics as a table")
    arguments.add_argument("--add", action="store_true", help="--keep: besides the runs that TABLE has")
    arguments.add_argument("--metrics", default="", metavar="REGEX", help="--keep: only metrics whose names begin so")
    arguments.add_argument("--pool", action="store_true", help="write countdown-pooled and countdown-doses from other tables")
    given = arguments.parse_args()
    if given.pool:
        keep(pooled(), RESULTS / "countdown-pooled.csv.gz")
        return keep(doses(), RESULTS / "countdown-doses.csv.gz", "eval/")
    if given.keep:
        sweep, table = given.keep
        found = groups(sweep, None)
        return keep(together(of_table(table), found) if given.add else found, table, given.metrics)
    for name in given.pictures or PICTURES:
        kind, sources = PICTURES[name]
        tables = {table: RESULTS / f"{table}.csv.gz" for table in sources}
        found = {table: groups(tables[table], chosen) for table, chosen in sources.items()}
        figure = kind(**found) if kind is forest else kind(*found.values())
        made_of = " ".join(f"{table} {hashlib.sha256(path.read_bytes()).hexdigest()}" for table, path in tables.items())
        figure.tight_layout()
        figure.savefig(RESULTS.parent / f"figures/{name}.svg", transparent=True, bbox_inches="tight",
                       metadata={"Date": None, "Description": f"made of {made_of}"})


if __name__ == "__main__":
    main()
