"""Compares a whole GRPO step with TRL's GRPOTrainer, and prints a Markdown table.

Builds the release binary, makes the checkpoint if it is missing, and runs `isentrope train` and the trainer in turn, each
measurement in a process of its own. README.md says what is measured and how the table is read.
"""

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from processes import HERE, ROOT, alternate, build, make_missing, measure, run, table, warn_if_busy


@dataclass(frozen=True)
class Job:
    name: str
    prompts: int
    new_tokens: int
    forced: bool
    """Whether all responses have the full length, on sums for random weights; else the built-in task."""
    target: int
    """The ratio to reach."""
    group: int = 8


JOBS = {
    "large": Job("tiny, 32 x 8 responses of 64", 32, 64, forced=True, target=3),
    "small": Job("tiny, 4 x 8 responses of 64", 4, 64, forced=True, target=4),
    "free": Job("countdown, 32 x 8 responses of up to 128", 32, 128, forced=False, target=5),
}
HEADINGS = ["job", "isentrope s", "TRL s", "ratio", "target", "isentrope tokens", "TRL tokens"]
HEADINGS += ["isentrope MiB", "TRL MiB", "rollout", "update", "outside the model"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch, transformers and trl")
    parser.add_argument("--models", type=Path, default=ROOT / "target" / "bench-models", help="directory of tiny")
    parser.add_argument(
        "--base", type=Path, default=ROOT / "assets" / "countdown-base", help="the built-in task's model"
    )
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--rounds", type=int, default=5, help="processes of each side per job")
    parser.add_argument("--steps", type=int, default=6, help="steps of a process; the first is not counted")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if min(args.rounds, args.threads) < 1 or args.steps < 2:
        parser.error("--rounds and --threads must be positive, and --steps at least 2")
    return args


def without_end(model, copy):
    """Copies a checkpoint but for its end-of-sequence token, so that all responses of ours have the full length."""
    shutil.copytree(model, copy)
    for name in ("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json"):
        if (copy / name).exists():
            values = json.loads((copy / name).read_text())
            kept = {key: value for key, value in values.items() if key not in ("eos_token_id", "eos_token")}
            (copy / name).write_text(json.dumps(kept))
    return copy


def write_sums(path):
    """Problems that accept half of all digits, so that about every other ending of random characters is right."""
    number = lambda: random.randint(10, 99)
    rows = [{"prompt": f"{number()}+{number()}*{number()}=", "answer": random.sample(range(10), 5)} for _ in range(4096)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def recipe(job, args, model, data, out):
    """One update per rollout, no evaluation, and no checkpoint but the last."""
    lines = ["[run]", f"steps = {args.steps}", f"out = {json.dumps(str(out))}"]
    lines += ["[model]", f"path = {json.dumps(str(model))}"]
    lines += ["[data]", f"files = [{json.dumps(str(data))}]" if job.forced else 'task = "countdown"']
    lines += ["[rollout]", f"prompts = {job.prompts}", f"responses = {job.group}", f"max_tokens = {job.new_tokens}"]
    lines += ["[optimizer]", "learning_rate = 1e-6", "[eval]", "every = 0", "[checkpoint]", "every = 0"]
    return "\n".join(lines) + "\n"


def rows_of(path):
    return [json.loads(row) for row in path.read_text().splitlines()]


def isentrope_steps(job, args, isentrope, model, data, directory):
    """Runs our side. Returns the medians over its steps, its peak memory in MiB, and the run's directory."""
    out = directory / "run"
    path = directory / "recipe.toml"
    path.write_text(recipe(job, args, model, data, out))
    _, mebibytes = run([isentrope, "train", path, "--overwrite", "--threads", args.threads])
    steps = [row for row in rows_of(out / "timings.jsonl") if row["step"] > 1]
    tokens = [row["response/length_mean"] for row in rows_of(out / "metrics.jsonl") if row["step"] > 1]
    median = lambda seconds: statistics.median(map(seconds, steps))
    return {
        "seconds": median(lambda step: step["time/step_s"]),
        "rollout": median(lambda step: step["time/rollout_s"] / step["time/step_s"]),
        "update": median(lambda step: step["time/update_s"] / step["time/step_s"]),
        "outside": median(lambda step: outside_the_model(step) / step["time/step_s"]),
        "response_tokens": statistics.fmean(tokens),
    }, mebibytes


def outside_the_model(step):
    """Seconds of a step that are neither sampling, nor forward and backward passes, nor the optimizer. Verdicts are timed
    within the rollout, and the objective within the update."""
    inside = step["time/rollout_s"] + step["time/update_s"] + step["time/optimizer_s"]
    return step["time/step_s"] - inside + step["time/verify_s"] + step["time/objective_s"]


def trl_steps(job, args, model, data):
    """Runs TRL. Returns the medians over its steps, and its peak memory in MiB."""
    task = [model, data, "--prompts", job.prompts, "--group", job.group, "--new-tokens", job.new_tokens]
    task += ["--steps", args.steps, "--threads", args.threads] + ["--forced"] * job.forced
    result, mebibytes = measure([args.python, HERE / "trl_grpo.py", *task])
    seconds, tokens = statistics.median(result["seconds"]), statistics.fmean(result["response_tokens"])
    return {"seconds": seconds, "response_tokens": tokens}, mebibytes


def compare(job, args, isentrope, directory):
    """One row of the table."""
    model = args.models / "tiny" if job.forced else args.base
    ours_model = without_end(model, directory / "model") if job.forced else model
    data = directory / "prompts.jsonl"
    if job.forced:
        write_sums(data)
    else:
        # The built-in task has no file of prompts: the opponent gets those that a run of ours has met.
        isentrope_steps(job, args, isentrope, ours_model, data, directory)
        met = sorted((directory / "run" / "rollouts").glob("*.jsonl"))
        rows = [row for path in met for row in rows_of(path) if row["sample"] == 0]
        data.write_text("".join(json.dumps({"prompt": row["prompt"]}) + "\n" for row in rows))
    ours, theirs = alternate(
        args.rounds,
        lambda: isentrope_steps(job, args, isentrope, ours_model, data, directory),
        lambda: trl_steps(job, args, model, data),
    )

    median = lambda side, key: statistics.median(result[key] for result, _ in side)
    seconds = [median(side, "seconds") for side in (ours, theirs)]
    row = [job.name, *(f"{s:.3f}" for s in seconds), f"{seconds[1] / seconds[0]:.2f}", f"{job.target}"]
    row += [f"{median(side, 'response_tokens'):.1f}" for side in (ours, theirs)]
    row += [f"{statistics.median(mebibytes for _, mebibytes in side):.0f}" for side in (ours, theirs)]
    return row + [f"{median(ours, key):.1%}" for key in ("rollout", "update", "outside")]


def main():
    args = arguments()
    random.seed(0)
    warn_if_busy()
    isentrope = build("isentrope", "bin", "isentrope")
    make_missing(args.python, args.models, ["tiny"])
    rows = []
    for job in (JOBS[name] for name in args.jobs):
        with tempfile.TemporaryDirectory() as directory:
            rows.append(compare(job, args, isentrope, Path(directory)))
        print(f"{job.name}: ratio {rows[-1][3]}", file=sys.stderr)
    print(table(HEADINGS, rows))


if __name__ == "__main__":
    main()
