"""The pictures of README.md and docs/paper/results.md, from the runs of sweeps that are done.

    pip install matplotlib
    python3 experiments/figures.py methods runs/countdown-methods docs/paper/figures/countdown-methods.svg
    python3 experiments/figures.py cooler runs/countdown-methods docs/paper/figures/countdown-methods-cooler.svg
    python3 experiments/figures.py law runs/countdown-methods docs/paper/figures/countdown-law.svg
    python3 experiments/figures.py law runs/countdown-law docs/paper/figures/countdown-estimators.svg --group grpo --group rloo \\
        --group reinforce --group on-policy --group base-brief --group base-early --group prime
    python3 experiments/figures.py law runs/countdown-law docs/paper/figures/countdown-mixtures.svg --group grpo --group easy --group hard
    python3 experiments/figures.py methods runs/countdown-strength docs/paper/figures/countdown-strength.svg --group grpo \\
        --group clip-cov-0.005 --group clip-cov-0.02 --group clip-cov-0.05 --group kl-cov-0.1-by-5 --group entropy-bonus-0.03 \\
        --group reference-kl-0.05
    python3 experiments/figures.py autopilot runs/countdown-autopilot docs/paper/figures/autopilot.svg
    python3 experiments/figures.py methods docs/paper/results/smollm2-rivals.csv.gz docs/paper/figures/smollm2-rivals.svg --group grpo \\
        --group clip-cov-0.02 --group clip-cov-0.1 --group kl-cov-0.1-by-1 --group kl-cov-0.1-by-5 --group entropy-bonus-0.01 \\
        --group reference-kl-0.05 --group reference-kl-0.2
    python3 experiments/figures.py methods docs/paper/results/smollm2-held.csv.gz docs/paper/figures/smollm2-held.svg
    python3 experiments/figures.py kinds docs/paper/results/smollm2-methods.csv.gz docs/paper/figures/smollm2-kinds.svg --group grpo --group clip-cov
    python3 experiments/figures.py kinds docs/paper/results/smollm2-word-problems.csv.gz docs/paper/figures/word-problems.svg \\
        --group grpo --group clip-cov --group kl-cov --group shown
    python3 experiments/figures.py seeds docs/paper/results/qwen2.5-coder-1.5b.csv.gz docs/paper/figures/qwen2.5-coder-1.5b.svg --group grpo \\
        --group kl-cov --group clip-cov
    python3 experiments/figures.py difficulty docs/paper/results/smollm2-rivals.csv.gz docs/paper/figures/smollm2-difficulty.svg --group on-policy
    python3 experiments/figures.py keep runs/countdown-methods docs/paper/results/countdown-methods.csv.gz

`keep` writes the metrics that pictures and tables need as a table, which the others take in the sweep's place: `docs/paper/results` has
the tables of docs/paper/results.md, so that its pictures can be drawn without hours of runs. With `--add` the runs that the table has
already stay in it: groups and seeds may be made one after the other, on several machines. Lines are means over the seeds that have
finished, bands their 95 % intervals by Student's t, as `isentrope lab seeds` computes them; ISENTROPE names the program, default
`isentrope`. Thin lines are the seeds of groups of two or three. `--group` chooses groups.
"""

import argparse
import math
import re
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from runs import computed, evaluation_set, groups, keep, of_table, seed_of, together

# A picture must be readable on white and on black: its ground is clear and its words are grey.
WORDS = "#7d8590"
COLOURS = ["#8b949e", "#d29922", "#a371f7", "#2f81f7", "#3fb950", "#f778ba", "#db6d28", "#39c5cf"]

plt.rcParams.update({
    "font.family": "sans-serif", "font.size": 10, "svg.fonttype": "path", "svg.hashsalt": "isentrope",
    "text.color": WORDS, "axes.labelcolor": WORDS, "axes.edgecolor": WORDS, "xtick.color": WORDS, "ytick.color": WORDS,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False,
})


def draw(axis, runs, curve, metric, colour, label):
    """A metric over steps: the mean over seeds with its band, or a single run; thin lines are few seeds."""
    series = [[(row["step"], row[metric]) for row in rows if row.get(metric) is not None] for rows in runs]
    if curve is None:
        axis.plot(*zip(*series[0]), color=colour, label=label, linewidth=1.8)
        return
    axis.plot(curve["steps"], curve["mean"], color=colour, label=label, linewidth=1.8)
    if len(runs) < 4:
        for one in series:
            axis.plot(*zip(*one), color=colour, linewidth=0.7, alpha=0.5)
    else:
        axis.fill_between(curve["steps"], curve["low"], curve["high"], color=colour, alpha=0.15, linewidth=0)


def save(figure, out, labelled=None, below=0.0):
    """Writes a picture; with an axis, under all its lines' names, so far below the figure as a part of its height."""
    if labelled:
        handles, labels = labelled.get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=len(labels), bbox_to_anchor=(0.5, below), fontsize=9)
    figure.tight_layout()
    figure.savefig(out, transparent=True, bbox_inches="tight", metadata={"Date": None})


def panels(found, chosen, out):
    """A row of panels, each with a metric of every group over steps."""
    curves = computed(found)
    figure, axes = plt.subplots(1, len(chosen), figsize=(3.7 * len(chosen), 3.3))
    for axis, (metric, title) in zip(axes, chosen):
        if metric == "cov/fraction":
            axis.set_yscale("log")
        for colour, (group, runs) in zip(COLOURS, found.items()):
            measured = [rows for rows in runs.values() if any(row.get(metric) is not None for row in rows)]
            if measured:
                draw(axis, measured, curves[group]["curves"].get(metric), metric, colour, group)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("step")
        if "entropy" in metric:
            axis.set_ylim(bottom=0.0)
    save(figure, out, axes[0], -0.07)


def methods(found, out):
    name, k = evaluation_set(found)
    panels(found, [("policy/entropy", "policy entropy, nats"), (f"eval/{name}/mean@{k}", f"mean@{k}"),
                   (f"eval/{name}/pass@{k}", f"pass@{k}"), (f"eval/{name}/maj@{k}", f"maj@{k}")], out)


def cooler(found, out):
    """Length, and accuracies at the second temperature."""
    name, k = evaluation_set(found)
    first = next(iter(next(iter(found.values())).values()))
    at = sorted({key.split("/")[1] for row in first for key in row if key.startswith(f"eval/{name}_t")})
    if not at:
        raise SystemExit(f"{name} was evaluated at one temperature")
    temperature = at[0].rsplit("_t", 1)[1]
    panels(found, [(f"eval/{name}/length_mean", "response length, tokens"),
                   *((f"eval/{at[0]}/{what}@{k}", f"{what}@{k} at T {temperature}") for what in ("mean", "pass", "maj"))], out)


def difficulty(found, out):
    """The first group's covariance within prompts, and its change of entropy, by the share of a prompt's responses that are right."""
    group, runs = next(iter(found.items()))
    curves = computed({group: runs})[group]["curves"]
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.3))
    for axis, metric, title in zip(axes, ("group_covariance", "entropy_change"), ("covariance within a prompt", "change of entropy, nats a step")):
        for colour, (bucket, label) in zip(COLOURS, (("0_25", "below 25 %"), ("25_50", "25 to 50 %"), ("50_75", "50 to 75 %"), ("75_100", "75 % and more"))):
            metric_of = f"theory/accuracy_{bucket}/{metric}"
            if metric_of not in curves:
                raise SystemExit("nothing has measured the theory by difficulty in several seeds (lab.track_theory)")
            draw(axis, list(runs.values()), curves[metric_of], metric_of, colour, label)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("step")
    save(figure, out, axes[0], -0.07)


def kinds(found, out):
    """Accuracy by kind of problem, which is what parts of a set are."""
    name, k = evaluation_set(found)
    first = next(iter(next(iter(found.values())).values()))
    of_part = re.compile(rf"eval/{re.escape(name)}/(.+)/mean@{k}")
    parts = sorted({match[1] for row in first for key in row if (match := of_part.fullmatch(key))})
    if not parts:
        raise SystemExit(f"the set {name} has no parts")
    panels(found, [(f"eval/{name}/{part}/mean@{k}", f"{part}, mean@{k}") for part in parts], out)


def seeds(found, out):
    """A column for each seed that all groups have, and each run in it: for runs that differ more than a mean would show."""
    name, k = evaluation_set(found)
    by_seed = {group: {seed_of(group, run): rows for run, rows in runs.items()} for group, runs in found.items()}
    common = sorted(set.intersection(*map(set, by_seed.values())))
    if not common:
        raise SystemExit("these groups have no seed in common")
    chosen = [(f"eval/{name}/mean@{k}", f"mean@{k}"), (f"eval/{name}/entropy", "H, nats"), (f"eval/{name}/length_mean", "tokens")]
    figure, axes = plt.subplots(len(chosen), len(common), figsize=(4.2 * len(common), 5.6), sharex=True, sharey="row", squeeze=False)
    for row, (metric, title) in zip(axes, chosen):
        for axis, seed in zip(row, common):
            for colour, (group, runs) in zip(COLOURS, by_seed.items()):
                draw(axis, [runs[seed]], None, metric, colour, group)
        row[0].set_ylabel(title)
        row[0].set_ylim(bottom=0.0)
    for top, bottom, seed in zip(axes[0], axes[-1], common):
        top.set_title(f"seed {seed}", fontsize=10)
        bottom.set_xlabel("step")
    save(figure, out, axes[0][0], -0.04)


def autopilot(found, out):
    name, k = evaluation_set(found)
    panels(found, [("policy/entropy", "policy entropy, nats"), ("cov/fraction", "fraction of tokens picked"),
                   (f"eval/{name}/mean@{k}", f"mean@{k}"), (f"eval/{name}/pass@{k}", f"pass@{k}")], out)


def law(found, out):
    """Accuracy against entropy: every evaluation of every run, with the law through all evaluations of the first group."""
    name, k = evaluation_set(found)
    first = next(iter(found))
    figure, axis = plt.subplots(figsize=(8.0, 3.8))
    for colour, (group, runs) in zip(COLOURS, found.items()):
        evaluated = [row for run in runs.values() for row in run if row.get(f"eval/{name}/mean@{k}") is not None]
        x = [row[f"eval/{name}/entropy"] for row in evaluated]
        axis.scatter(x, [row[f"eval/{name}/mean@{k}"] for row in evaluated], s=9, color=colour, alpha=0.7, linewidth=0, label=group)
        if group == first:
            fit = computed({group: runs})[group]["laws"][name]
            a, b = fit["a"]["value"], fit["b"]["value"]
            inside = [min(x) + i / 50 * (max(x) - min(x)) for i in range(51)]
            axis.plot(inside, [b - a * math.exp(h) for h in inside], color=colour, linewidth=1.5,
                      label=f"-a exp(H) + b, {group}: R\u00b2 {fit['r_squared']:.3f}")
    axis.set_xlabel("H on the test problems, nats")
    axis.set_ylabel(f"mean@{k}")
    axis.legend(fontsize=8, markerscale=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, out)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=["methods", "cooler", "kinds", "difficulty", "seeds", "law", "autopilot", "keep"])
    arguments.add_argument("source", type=Path, help="directory of a sweep, or a table of `keep`")
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--add", action="store_true", help="keep: besides the runs that OUT has")
    arguments.add_argument("--group", action="append", help="a group of the sweep's table, once for each; default all")
    given = arguments.parse_args()
    found = groups(given.source, given.group)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    if given.what == "keep":
        return keep(together(of_table(given.out), found) if given.add else found, given.out)
    if not 1 <= len(found) <= len(COLOURS):
        raise SystemExit(f"{len(found)} groups have finished runs; choose 1 to {len(COLOURS)} of them with --group")
    {"methods": methods, "cooler": cooler, "kinds": kinds, "difficulty": difficulty, "seeds": seeds, "law": law,
     "autopilot": autopilot}[given.what](found, given.out)


if __name__ == "__main__":
    main()
