"""Compares the recipe of a real model, recipes/smollm2-135m-arithmetic.toml, with TRL's GRPOTrainer on the same problems.

Runs `isentrope train` and the trainer in turn, each in a process of its own, from the same weights, and prints Markdown
tables: seconds per step (a rollout and its updates), tokens per second, and the ratio. README.md says what is measured.
"""

import argparse
import itertools
import json
import os
import platform
import statistics
import sys
import tempfile
import tomllib
from pathlib import Path

from processes import HERE, ROOT, build, measure, run, table, warn_if_busy

RECIPE = ROOT / "recipes" / "smollm2-135m-arithmetic.toml"
HEADINGS = ["", "s per step", "rollout", "update", "tokens per response", "tokens per s", "reward"]
HEADINGS += ["groups without signal", "MiB"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch, transformers and trl")
    parser.add_argument("--model", help="directory or name of the model, if not the recipe's")
    parser.add_argument("--isentrope", help="the program; built for release if not given")
    parser.add_argument("--rounds", type=int, default=1, help="processes of each side")
    parser.add_argument("--steps", type=int, default=6, help="rollouts of a process; the first is not counted")
    parser.add_argument(
        "--micro-batch", type=int, nargs="+", default=[16, 64], help="TRL's responses in a pass; the fastest counts"
    )
    parser.add_argument("--lora", type=int, help="train adapters of this rank in every linear layer")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if min(args.rounds, args.threads, *args.micro_batch) < 1 or args.steps < 2:
        parser.error("--rounds, --threads and --micro-batch must be positive, and --steps at least 2")
    return args


def lines_of(path):
    return {line["step"]: line for line in map(json.loads, path.read_text().splitlines())}


def isentrope_steps(args, program, model):
    """Every step of a run of ours but the first, and its peak memory in MiB."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "run"
        changed = [f"run.out={json.dumps(str(out))}", f"run.steps={args.steps}", f"model.path={json.dumps(model)}"]
        changed += ["eval.every=0", "checkpoint.every=0"]
        # TRL goes back through every response; with the bonus ours does, too, where a group has no signal.
        changed += ["objective.entropy_bonus.coefficient=0.001"]
        changed += [f"lora={{rank={args.lora},alpha={2 * args.lora}}}"] if args.lora else []
        command = [program, "train", RECIPE, "--threads", args.threads]
        _, mebibytes = run(command + [word for change in changed for word in ("--set", change)])
        timings, metrics = lines_of(out / "timings.jsonl"), lines_of(out / "metrics.jsonl")
    steps = []
    for step in range(2, args.steps + 1):
        time, measured = timings[step], metrics[step]
        steps.append({
            "seconds": time["time/step_s"],
            "rollout": time["time/rollout_s"],
            "tokens": measured["rollout/tokens"],
            "reward": measured["reward/mean"],
            "without_signal": measured["reward/solved_all"] + measured["reward/solved_none"],
        })
    return steps, mebibytes


def trl_steps(args, program, model, micro_batch, precision):
    """The same of TRL, with the versions of what ran."""
    recipe = tomllib.loads(RECIPE.read_text())
    rollout, (data,) = recipe["rollout"], recipe["data"]["files"]
    command = [args.python, HERE / "trl_arithmetic.py", model, ROOT / data, "--isentrope", program]
    command += ["--prompts", rollout["prompts"], "--group", rollout["responses"], "--new-tokens", rollout["max_tokens"]]
    command += ["--updates", rollout["prompts"] // recipe["update"]["prompts"]]
    command += ["--learning-rate", recipe["optimizer"]["learning_rate"]]
    command += ["--steps", args.steps, "--micro-batch", micro_batch, "--threads", args.threads]
    command += ["--lora", args.lora] if args.lora else []
    command += ["--bf16"] if precision == "bfloat16" else []
    # PyTorch's products take their threads from here before any code of the script can say so.
    result, mebibytes = measure(command, {"OMP_NUM_THREADS": str(args.threads), "TOKENIZERS_PARALLELISM": "false"})
    return result["steps"], mebibytes, result["versions"]


def summary(steps, responses):
    """Medians of seconds and means of what the responses were like, over all steps of one side."""
    median = lambda value: statistics.median(map(value, steps))
    mean = lambda key: statistics.fmean(step[key] for step in steps)
    seconds, tokens = (sum(step[key] for step in steps) for key in ("seconds", "tokens"))
    return {
        "seconds": median(lambda step: step["seconds"]),
        "rollout": median(lambda step: step["rollout"]),
        "update": median(lambda step: step["seconds"] - step["rollout"]),
        "length": mean("tokens") / responses,
        "rate": tokens / seconds,
        "reward": mean("reward"),
        "without_signal": mean("without_signal"),
    }


def row(name, side, mebibytes):
    cells = [name, *(f"{side[key]:.2f}" for key in ("seconds", "rollout", "update")), f"{side['length']:.1f}"]
    cells += [f"{side['rate']:.0f}", f"{side['reward']:.3f}", f"{side['without_signal']:.0%}", f"{mebibytes:.0f}"]
    return cells


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, None) or platform.processor() or platform.machine()


def main():
    args = arguments()
    recipe = tomllib.loads(RECIPE.read_text())
    os.chdir(ROOT)  # where the recipe's paths begin
    if args.model and Path(args.model).is_dir():
        args.model = str(Path(args.model).resolve())
    warn_if_busy()
    program = args.isentrope or build("isentrope", "bin", "isentrope")
    model = args.model or recipe["model"]["path"]
    responses = recipe["rollout"]["prompts"] * recipe["rollout"]["responses"]

    ours = "isentrope"
    sides = {ours: lambda: isentrope_steps(args, program, model)}
    # In our precision, and in TRL's default, which some processors have instructions for.
    for size, precision in itertools.product(args.micro_batch, ["float32", "bfloat16"]):
        sides[f"TRL, {precision}, {size} responses in a pass"] = (
            lambda size=size, precision=precision: trl_steps(args, program, model, size, precision)
        )
    steps, mebibytes, versions = {name: [] for name in sides}, {name: [] for name in sides}, {}
    for i in range(args.rounds):
        # Who goes first changes every round; in the first it is ours, which downloads what is missing into the hub's cache.
        for name in list(sides) if i % 2 == 0 else reversed(sides):
            measured, peak, *found = sides[name]()
            steps[name] += measured
            mebibytes[name].append(peak)
            versions |= found[0] if found else {}
            print(f"{name}: {summary(measured, responses)['seconds']:.2f} s per step", file=sys.stderr)

    versions["isentrope"] = run([program, "--version"])[0].split()[-1]
    said = ", ".join(f"{name} {version}" for name, version in sorted(versions.items(), key=lambda item: item[0].lower()))
    print(f"{processor()}, {args.threads} threads, {args.rounds * (args.steps - 1)} steps of each; {said}\n")
    results = {name: summary(steps[name], responses) for name in sides}
    rows = [row(name, results[name], statistics.median(mebibytes[name])) for name in sides]
    print(table(HEADINGS, rows))
    best = min((name for name in sides if name != ours), key=lambda name: results[name]["seconds"])
    of = lambda key: results[best][key] / results[ours][key]
    rates = results[ours]["rate"] / results[best]["rate"]
    parts = f"rollout {of('rollout'):.2f}, update {of('update'):.2f}"
    print(f"\n{best}, against isentrope: {of('seconds'):.2f} times the seconds per step ({parts});")
    print(f"isentrope generates and learns from {rates:.2f} times the tokens per second.")


if __name__ == "__main__":
    main()
