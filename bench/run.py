"""Compares isentrope with transformers at sampling, forward and forward + backward, and prints a Markdown table.

Builds the release binary, makes the checkpoints that are missing, and runs both sides in turn, each measurement in a
process of its own. README.md says what is measured and how the table is read.
"""

import argparse
import statistics
import sys
from pathlib import Path

from processes import ROOT, alternate, build, make_missing, measure, table, warn_if_busy
from work import Batch, Shape, generate_flops, score_flops, train_flops

HERE = Path(__file__).resolve().parent
# The largest model gets fewer prompts: 16 sequences of it already keep the machine busy for long.
PROMPTS = {"tiny": 32, "small": 32, "half-b": 2, "mixture": 8, "hybrid": 8}
JOBS = {
    "generate": ("sampling", generate_flops),
    "score": ("forward", score_flops),
    "train": ("forward + backward", train_flops),
}
HEADINGS = ["model", "job", "isentrope s", "transformers s", "ratio", "isentrope tokens/s", "transformers tokens/s"]
HEADINGS += ["isentrope MiB", "transformers MiB", "isentrope share", "transformers share"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch and transformers")
    parser.add_argument("--models", type=Path, default=ROOT / "target" / "bench-models", help="checkpoint directory")
    parser.add_argument("--sizes", nargs="+", choices=PROMPTS, default=list(PROMPTS))
    parser.add_argument("--rounds", type=int, default=5, help="processes of each side per measurement")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions inside a process, after one warm-up")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scored-only", action="store_true", help="a stricter opponent: see README.md")
    parser.add_argument("--gflops", type=float, default=318.0, help="the machine's peak, for the share column")
    args = parser.parse_args()
    if min(args.rounds, args.repeats, args.threads) < 1 or args.gflops <= 0:
        parser.error("--rounds, --repeats, --threads and --gflops must be positive")
    return args


def compare(args, engine, size, job):
    """One row of the table."""
    model = args.models / size
    batch = Batch(prompts=PROMPTS[size], group=8, prompt_tokens=16, new_tokens=64)
    task = [model, "--only", job, "--prompts", batch.prompts, "--group", batch.group]
    task += ["--prompt-tokens", batch.prompt_tokens, "--new-tokens", batch.new_tokens]
    task += ["--repeats", args.repeats, "--threads", args.threads]
    peer = [args.python, HERE / "peers_transformers.py"] + ["--scored-only"] * args.scored_only
    ours, theirs = alternate(args.rounds, lambda: measure([engine, *task]), lambda: measure([*peer, *task]))

    name, count = JOBS[job]
    gflop = count(Shape(model), batch) / 1e9
    seconds = [statistics.median(result["seconds"] for result, _ in side) for side in (ours, theirs)]
    memory = [statistics.median(mebibytes for _, mebibytes in side) for side in (ours, theirs)]
    per_sequence = batch.new_tokens if job == "generate" else batch.prompt_tokens + batch.new_tokens - 1
    row = [size, name, *(f"{s:.3f}" for s in seconds), f"{seconds[1] / seconds[0]:.2f}"]
    row += [f"{batch.sequences * per_sequence / s:.0f}" for s in seconds]
    row += [f"{mebibytes:.0f}" for mebibytes in memory]
    return row + [f"{gflop / s / args.gflops:.0%}" for s in seconds]


def main():
    args = arguments()
    warn_if_busy()
    engine = build("isentrope", "example", "engine_bench")
    make_missing(args.python, args.models, args.sizes)
    rows = []
    for size in args.sizes:
        for job in JOBS:
            rows.append(compare(args, engine, size, job))
            print(f"{size}, {JOBS[job][0]}: ratio {rows[-1][4]}", file=sys.stderr)
    print(table(HEADINGS, rows))


if __name__ == "__main__":
    main()
