"""The numbers of docs/paper/results.md, as Markdown tables, from the runs of sweeps that are done or from the tables in docs/paper/results.

    python3 experiments/tables.py ends docs/paper/results/countdown-methods.csv.gz
    python3 experiments/tables.py less docs/paper/results/countdown-methods.csv.gz clip-cov no-clipping
    python3 experiments/tables.py spent docs/paper/results/countdown-methods.csv.gz
    python3 experiments/tables.py at docs/paper/results/countdown-methods.csv.gz 0.25
    python3 experiments/tables.py at docs/paper/results/smollm2-rivals.csv.gz 1.0 grpo
    python3 experiments/tables.py foretold docs/paper/results/countdown-law.csv.gz 0.15
    python3 experiments/tables.py law docs/paper/results/countdown-methods.csv.gz
    python3 experiments/tables.py held docs/paper/results/countdown-autopilot.csv.gz 0.25
    python3 experiments/tables.py held docs/paper/results/countdown-steps.csv.gz 0.18 --since 80 --until 160
    python3 experiments/tables.py course docs/paper/results/countdown-methods.csv.gz attempts
    python3 experiments/tables.py tokens docs/paper/results/countdown-strength.csv.gz --group grpo --group clip-cov-0.02
    python3 experiments/tables.py theory docs/paper/results/smollm2-rivals.csv.gz --group on-policy

`ends`: before the first step and after the last. `less`: one group less another, over the seeds that both have, with p of the
paired t test and of the exact sign-flip test. `spent`: how much of all entropy that is spent, and of all accuracy that is gained,
by a twelfth and a third of the steps. `at`: where entropy first comes down to so many nats, between evaluations in a straight line;
with a group, how much more each knows there than that one, over the seeds of both.
`foretold`: from the evaluations of so large a part of a run, how far forms miss its last evaluation; above 0, they say too much.
`law`: least squares of R = -a exp(H) + b and of a line in H; which runs leave the law is what `isentrope law` says. `held`: how near
entropy H was to a target H*, the tracking error being the mean |ln(H / H*)| of the second half of the steps. `course`: a metric over steps. `tokens`: how
covariance is concentrated in the first step, and of which kinds the tokens are that are picked. `theory`: how the change of
entropy on a step's own states goes with the covariances, and both by difficulty.

All are means over seeds with 95 % intervals by Student's t, accuracies in percent. Intervals are cut off at what a number can be, such
as 0 and 100 %. Ends and differences of a sweep's own directory, with tests, are in its table.md.
"""

import argparse
import csv
import itertools
import math
from pathlib import Path

from runs import evaluation_set, groups, least_squares, mean_and_error, mean_and_half, seed_of, within

# What numbers can be: the least and the greatest.
ANY, FROM_0, SHARE, SHARES_APART = (-math.inf, math.inf), (0.0, math.inf), (0.0, 1.0), (-1.0, 1.0)


class Group:
    """The runs of a group by seed: rows of metrics.jsonl by step, and those of them that have an evaluation."""

    def __init__(self, group, runs, name, since, end):
        self.since = since
        runs = {seed_of(group, run): [row for row in rows if since <= row["step"] <= end] for run, rows in runs.items()}
        self.steps = {seed: {int(row["step"]): row for row in rows} for seed, rows in runs.items()}
        self.evaluations = {
            seed: [row for row in rows if row.get(f"eval/{name}/entropy") is not None] for seed, rows in runs.items()
        }


def shown(values, can_be, scale=1.0, digits=1, sign=""):
    """Mean and interval, cut off at what the numbers can be; of one seed, its number."""
    if not values:
        return ""
    mean, half = mean_and_half(values)
    low, high = max(mean - half, can_be[0]), min(mean + half, can_be[1])
    number, low, high = (f"{scale * value:{sign}.{digits}f}" for value in (mean, low, high))
    return number if len(values) < 2 else f"{number} [{low}, {high}]"


def tests(differences):
    """p of the paired t test, and of all assignments of signs, of at most 20 differences."""
    if not 2 <= len(differences) <= 20 or max(differences) - min(differences) < 1e-12:
        return "no test"
    mean, error = mean_and_error(differences)
    least = abs(sum(differences)) - 1e-9 * sum(map(abs, differences))  # sums in another order differ in their last bits
    far = [abs(sum(signed)) >= least for signed in itertools.product(*((value, -value) for value in differences))]
    p = 1 - within(abs(mean) / error, len(differences) - 1)
    return f"p {f'{p:.3f}' if p >= 0.0005 else '< 0.001'}, exact {sum(far) / len(far):.3f}"


def number(text, what, is_right):
    """A number of the command line."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not is_right(value):
        raise SystemExit(f"{text!r} is not {what}")
    return value


def table(heads, rows):
    print("| " + " | ".join(heads) + " |")
    print("|---|" + "---:|" * (len(heads) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def columns(name, k, first):
    """Metrics of the end, as (heading, metric, what it can be, factor, digits), of which the runs have values."""
    sets = [(name, "")] + sorted({(key.split("/")[1], ", T " + key.split("/")[1].rsplit("_t", 1)[1]) for key in first
                                  if key.startswith(f"eval/{name}_t")})
    chosen = [("H", f"eval/{name}/entropy", FROM_0, 1.0, 3)]
    for of_set, temperature in sets:
        chosen += [(f"{what}@{k}{temperature}", f"eval/{of_set}/{what}@{k}", SHARE, 100.0, 1) for what in ("mean", "pass", "maj")]
    chosen += [("length", f"eval/{name}/length_mean", FROM_0, 1.0, 1), ("attempts", f"eval/{name}/attempts", FROM_0, 1.0, 2),
               ("gave up", f"eval/{name}/gave_up", SHARE, 100.0, 1), ("false steps", f"eval/{name}/false_steps", SHARE, 100.0, 1)]
    parts = sorted({key.split("/")[2] for key in first if key.startswith(f"eval/{name}/") and key.endswith(f"/mean@{k}")
                    and key.count("/") == 3})
    chosen += [(f"{part}, mean@{k}", f"eval/{name}/{part}/mean@{k}", SHARE, 100.0, 1) for part in parts]
    return [column for column in chosen if first.get(column[1]) is not None]


def ends(found, name, k, _):
    # Of what any group has measured: groups may be evaluated on other problems.
    chosen = columns(name, k, {metric: value for runs in found.values() for rows in runs.evaluations.values()
                               for metric, value in rows[0].items()})
    rows = []
    for when, of in (("before", 0), ("", -1)):
        for group, runs in found.items():
            evaluated = [evaluations[of] for evaluations in runs.evaluations.values()]
            row = [str(len(evaluated)),
                   *(shown([row[metric] for row in evaluated if row.get(metric) is not None], can_be, scale, digits)
                     for _, metric, can_be, scale, digits in chosen)]
            if when and any(other[1:] == row for other in rows):
                continue  # groups that begin with one model
            rows.append([f"{when}, {group}" if when and rows else when or group, *row])
    table(["", "seeds", *(head for head, *_ in chosen)], rows)


def less(found, name, k, given):
    if any(group not in found for group in given):
        raise SystemExit(f"less: the groups are {', '.join(found)}")
    a, b = (found[group].evaluations for group in given)
    chosen = columns(name, k, next(iter(a.values()))[0])
    if not a.keys() & b.keys():
        raise SystemExit(f"{given[0]} and {given[1]} have no seed in common")
    rows = []
    for head, metric, (low, high), scale, digits in chosen:
        both = [(a[seed][-1].get(metric), b[seed][-1].get(metric)) for seed in a if seed in b]
        both = [pair for pair in both if None not in pair]
        differences = [x - y for x, y in both]
        rows.append([head, shown(differences, (low - high, high - low), scale, digits, "+"), tests(differences)])
        if head == "H" and len(both) > 1:
            mean, half = mean_and_half([math.log(x / y) for x, y in both])
            rows.append(["H, times", f"{math.exp(mean):.2f} [{math.exp(mean - half):.2f}, {math.exp(mean + half):.2f}]", ""])
    table([f"{given[0]} less {given[1]}", f"{len(both)} seeds", "tests"], rows)


def spent(found, name, k, _):
    rows = []
    for group, runs in found.items():
        row = [group]
        for part in (12, 3):
            for metric in (f"eval/{name}/entropy", f"eval/{name}/mean@{k}"):
                shares = []
                for evaluations in runs.evaluations.values():
                    points = [(evaluation["step"], evaluation[metric]) for evaluation in evaluations]
                    first, last = points[0][1], points[-1][1]
                    shares.append((between(points, points[-1][0] / part) - first) / (last - first))
                row.append(shown(shares, ANY, 100.0, 0))
        rows.append(row)
    table(["of all, %", "entropy by 1/12", "accuracy by 1/12", "entropy by 1/3", "accuracy by 1/3"], rows)


def between(points, x):
    """y at x on the straight lines between points."""
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]


def at(found, name, k, given):
    target = number(given[0], "nats above 0", lambda value: value > 0)
    base = given[1] if len(given) > 1 else None
    if base and base not in found:
        raise SystemExit(f"at: the groups are {', '.join(found)}")
    reached = {group: {seed: one for seed, e in runs.evaluations.items() if (one := crossing(e, f"eval/{name}/entropy", target))}
               for group, runs in found.items()}
    of = lambda metric, crossed: {seed: a[metric] + share * (b[metric] - a[metric]) for seed, (a, b, share) in crossed.items()}
    rows = []
    for group, crossed in reached.items():
        accuracies = [shown([*of(f"eval/{name}/{what}@{k}", crossed).values()], SHARE, 100.0) for what in ("mean", "pass", "maj")]
        row = [group, f"{len(crossed)} of {len(found[group].evaluations)}", shown([*of("step", crossed).values()], FROM_0, 1.0, 0), *accuracies]
        if base:
            here, there = (of(f"eval/{name}/mean@{k}", reached[name_of]) for name_of in (group, base))
            row.append(shown([here[seed] - there[seed] for seed in here if seed in there], SHARES_APART, 100.0, 1, "+") if group != base else "")
        rows.append(row)
    heads = [f"at {target} nats", "runs", "step", *(f"{what}@{k}" for what in ("mean", "pass", "maj"))]
    table([*heads, f"mean@{k} less that of {base}"] if base else heads, rows)


def crossing(evaluations, metric, target):
    """The evaluations before and after entropy first comes down to a target, and how far between them it does."""
    for before, after in zip(evaluations, evaluations[1:]):
        if before[metric] > target >= after[metric]:
            return before, after, (before[metric] - target) / (before[metric] - after[metric])
    return None


FORMS = {"the law": math.exp, "a line in H": float}


LEAST = 3  # evaluations of a fit


def fits(evaluations, group, name, k):
    """Intercept, slope and R² of accuracy in each form of the entropy."""
    if len(evaluations) < LEAST:
        raise SystemExit(f"a fit wants {LEAST} evaluations, and has {len(evaluations)} of a run of {group}")
    accuracies = [row[f"eval/{name}/mean@{k}"] for row in evaluations]
    return {form: least_squares([of(row[f"eval/{name}/entropy"]) for row in evaluations], accuracies) for form, of in FORMS.items()}


def foretold(found, name, k, given):
    part = number(given[0], "a part of a run, between 0 and 1", lambda value: 0 < value < 1)
    starts = [evaluations[LEAST - 1]["step"] / evaluations[-1]["step"] for runs in found.values()
              for evaluations in runs.evaluations.values() if len(evaluations) >= LEAST]
    if starts and part < max(starts):
        least = math.ceil(100 * max(starts)) / 100
        raise SystemExit(f"of the first {part} some runs have fewer than {LEAST} evaluations, and a fit wants these: all have from {least} on")
    rows = []
    for group, runs in found.items():
        misses = {form: [] for form in (*FORMS, "the last value")}
        for evaluations in runs.evaluations.values():
            prefix = [row for row in evaluations if row["step"] <= part * evaluations[-1]["step"]]
            end = evaluations[-1]
            for form, (intercept, slope, _) in fits(prefix, group, name, k).items():
                misses[form].append(intercept + slope * FORMS[form](end[f"eval/{name}/entropy"]) - end[f"eval/{name}/mean@{k}"])
            misses["the last value"].append(prefix[-1][f"eval/{name}/mean@{k}"] - end[f"eval/{name}/mean@{k}"])
        rows.append([group, str(len(prefix)), *(text for values in misses.values() for text in (
            shown(values, ANY, 100.0, 1, "+"), shown([abs(value) for value in values], FROM_0, 100.0)))])
    heads = [head for form in (*FORMS, "the last value") for head in (f"{form}, points", "missed by")]
    table([f"from the first {100 * part:.0f} %", "evaluations", *heads], rows)


def law(found, name, k, _):
    rows = []
    for group, runs in found.items():
        of_runs = [fits(evaluations, group, name, k) for evaluations in runs.evaluations.values()]
        exponential, line = ([of_run[form] for of_run in of_runs] for form in FORMS)
        rows.append([group, shown([r2 for *_, r2 in exponential], SHARE, 1.0, 3), shown([r2 for *_, r2 in line], SHARE, 1.0, 3),
                     shown([a[2] - b[2] for a, b in zip(exponential, line)], SHARES_APART, 1.0, 3, "+"),
                     shown([-slope for _, slope, _ in exponential], ANY, 1.0, 2), shown([b for b, *_ in exponential], ANY, 1.0, 2),
                     shown([b + slope for b, slope, _ in exponential], ANY, 100.0, 0)])
    table(["", "R², the law", "R², a line in H", "the law less the line", "a", "b", "ceiling b - a, %"], rows)


def held(found, name, k, given):
    target = number(given[0], "nats above 0", lambda value: value > 0)
    rows = []
    for group, runs in found.items():
        first, least, greatest, error = [], [], [], []
        for steps in runs.steps.values():
            # In steps since then, which is before any of them.
            ratio = {step - runs.since: row["policy/entropy"] / target for step, row in steps.items()
                     if step > runs.since and row.get("policy/entropy")}
            reached = next((step for step, value in ratio.items() if abs(value - 1) <= 0.1 + 1e-12), None)
            if reached is not None:
                after = [value for step, value in ratio.items() if step >= reached]
                first.append(reached)
                least.append(min(after))
                greatest.append(max(after))
            late = [abs(math.log(value)) for step, value in ratio.items() if step > max(ratio) / 2]
            error.append(sum(late) / len(late))
        rows.append([group, f"{len(first)} of {len(runs.steps)}", shown(first, FROM_0, 1.0, 0), shown(least, FROM_0, 1.0, 2),
                     shown(greatest, FROM_0, 1.0, 2), shown(error, FROM_0, 1.0, 3)])
    table([f"target {target}", "runs within 10 %", "from step", "least H / H* after that", "greatest", "tracking error, second half"], rows)


def course(found, name, k, given):
    metric = f"eval/{name}/{given[0]}"
    if not any(row.get(metric) is not None for runs in found.values() for rows in runs.evaluations.values() for row in rows):
        raise SystemExit(f"nothing has measured {metric}")
    steps = sorted({int(row["step"]) for runs in found.values() for rows in runs.evaluations.values() for row in rows})
    chosen = [step for i, step in enumerate(steps) if i % max(1, len(steps) // 6) == 0 or step == steps[-1]]
    can_be, scale, digits = (SHARE, 100.0, 1) if "@" in metric else (FROM_0, 1.0, 2)
    rows = []
    for group, runs in found.items():
        of = lambda step: [seed[step][metric] for seed in runs.steps.values() if seed.get(step, {}).get(metric) is not None]
        rows.append([group, *(shown(of(step), can_be, scale, digits) for step in chosen)])
    table([f"{given[0]}, step", *map(str, chosen)], rows)


def tokens(found, name, k, _):
    """The paper's table 1, and of which kinds what is picked is, at first and in the second half."""
    shares = ["0.02", "0.2", "2", "20", "50"]
    rows, kinds = [], []
    for group, runs in found.items():
        steps = [[row for _, row in sorted(seed.items()) if row.get("cov/mean") is not None] for seed in runs.steps.values()]
        first = [rows[0] for rows in steps if rows and rows[0].get("cov/top_2_percent") is not None]
        if first:
            of = lambda metric: [row[metric] for row in first if row.get(metric) is not None]
            rows.append([group, str(len(first)), *(shown(of(f"cov/top_{share}_percent"), ANY, 1.0, 2) for share in shares),
                         shown(of("cov/mean"), ANY, 1.0, 3)])
        for when, part in (("steps 1 to 5", lambda n: slice(0, 5)), ("second half", lambda n: slice(n // 2, None))):
            means = []
            for metric in QUADRANTS:
                of_runs = [[row[metric] for row in rows[part(len(rows))] if row.get(metric) is not None] for rows in steps]
                means.append([sum(values) / len(values) for values in of_runs if values])
            if any(sum(values) for values in means):  # something is picked
                kinds.append([f"{group}, {when}", *(shown(values, SHARE, 100.0, 0) for values in means)])
    if not rows and not kinds:
        raise SystemExit("nothing has measured covariances of tokens")
    table(["mean covariance of the top, first step", "seeds", *(f"{share} %" for share in shares), "all"], rows)
    print()
    table(["tokens picked, %", "likely, of better", "unlikely, of worse", "unlikely, of better", "likely, of worse"], kinds)


QUADRANTS = [f"cov/quadrant_{logprob}_logprob_{advantage}_advantage" for logprob, advantage in
             (("high", "positive"), ("low", "negative"), ("low", "positive"), ("high", "negative"))]


def theory(found, name, k, _):
    """How the fall of entropy on the states of a step goes with what should cause it: over steps, and from one step to the next."""
    for group, runs in found.items():
        steps = [[row for _, row in sorted(seed.items()) if row.get("theory/entropy_change") is not None] for seed in runs.steps.values()]
        if not all(steps):
            raise SystemExit(f"{group} has not measured the theory (lab.track_theory)")
        rows = []
        for metric, sign in (("exact", 1), ("group_covariance", -1), ("token_covariance", -1), ("token_covariance_pi", -1)):
            over, differences, signs, always = [], [], [], []
            for rows_of_run in steps:
                pairs = [(sign * row[f"theory/{metric}"], row["theory/entropy_change"]) for row in rows_of_run
                         if row.get(f"theory/{metric}") is not None]
                over.append(correlation(pairs))
                differences.append(correlation([(b[0] - a[0], b[1] - a[1]) for a, b in zip(pairs, pairs[1:])]))
                if pairs:
                    signs.append(sum(x * y > 0 for x, y in pairs) / len(pairs))
                    always.append(max(sum(y < 0 for _, y in pairs), sum(y > 0 for _, y in pairs)) / len(pairs))
            over, differences = ([value for value in values if value is not None] for values in (over, differences))
            rows.append([metric, shown(over, (-1, 1), 1.0, 2), shown(differences, (-1, 1), 1.0, 2), shown(signs, SHARE, 100.0, 0),
                         shown(always, SHARE, 100.0, 0)])
        table([group, "correlation over steps", "of changes from step to step", "sign right, %", "one sign always, %"], rows)
        print()
        rows = []
        for bucket in ("0", "0_25", "25_50", "50_75", "75_100", "100"):
            of = {what: [[row[f"theory/accuracy_{bucket}/{what}"] for row in rows_of_run
                          if row.get(f"theory/accuracy_{bucket}/{what}") is not None] for rows_of_run in steps]
                  for what in ("group_covariance", "entropy_change", "groups")}
            mean = lambda what: [sum(values) / len(values) for values in of[what] if values]
            rows.append([bucket.replace("_", " to "), shown(mean("groups"), FROM_0, 1.0, 1), shown(mean("group_covariance"), ANY, 1.0, 3),
                         shown([-value for value in mean("entropy_change")], ANY, 1000.0, 1)])
        table(["of a prompt's responses right, %", "prompts a step", "covariance within the group", "fall of entropy, 1/1000 nats a step"], rows)


def correlation(pairs):
    """None where either never varies."""
    mean = [sum(values) / len(pairs) for values in zip(*pairs)]
    x, y, both = (sum((pair[i] - mean[i]) * (pair[j] - mean[j]) for pair in pairs) for i, j in ((0, 0), (1, 1), (0, 1)))
    return both / math.sqrt(x * y) if len(pairs) > 2 and x > 0 and y > 0 else None


# How many values each wants after the source.
WANTED = {"less": (2,), "at": (1, 2), "foretold": (1,), "held": (1,), "course": (1,)}
TABLES = {table.__name__: table for table in (ends, less, spent, at, foretold, law, held, course, tokens, theory)}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=TABLES)
    arguments.add_argument("source", type=Path, help="directory of a sweep, or a table in docs/paper/results")
    arguments.add_argument("rest", nargs="*", help="what the table wants: groups, nats, a part of 1, a metric")
    arguments.add_argument("--group", action="append", help="a group of the sweep's, once for each; default all")
    arguments.add_argument("--since", type=int, default=0, metavar="STEP", help="as if the runs had begun there")
    arguments.add_argument("--until", type=int, default=math.inf, metavar="STEP", help="as if the runs had ended there")
    arguments.add_argument("--set", help="the evaluation set; default the one with the shortest name")
    given = arguments.parse_args()
    wanted = WANTED.get(given.what, (0,))
    if len(given.rest) not in wanted:
        raise SystemExit(f"{given.what} wants {' or '.join(map(str, wanted))} values after the source (--help)")
    try:
        runs = groups(given.source, given.group)
    except (OSError, KeyError, csv.Error) as error:
        raise SystemExit(f"{given.source} is neither the directory of a sweep nor a table of `figures.py keep`: {error}")
    name, k = evaluation_set({group: list(seeds.values()) for group, seeds in runs.items()})
    name = given.set or name
    found = {group: Group(group, seeds, name, given.since, given.until) for group, seeds in runs.items()}
    for group, of_group in found.items():
        if not all(of_group.evaluations.values()):
            raise SystemExit(f"a run of {group} has no evaluation of {name} in these steps")
    TABLES[given.what](found, name, k, given.rest)


if __name__ == "__main__":
    main()
