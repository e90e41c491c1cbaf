"""How long a step takes on several ranks: measured on one and two, predicted for more by a model of measured parts and counted
bytes. Prints Markdown tables.

Needs a launcher of MPI and two idle cores. Every rank has one thread. The table of the large model is computed from the figures
in `CLUSTER` alone, and measures nothing. docs/guides/several-machines.md says what the model is and what comes out.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from processes import ROOT, build, measure, table, warn_if_busy
from ranks import job as launched

RECIPE = ROOT / "recipes" / "countdown-kl-cov.toml"
BASE = ROOT / "assets" / "countdown-base"
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass(frozen=True)
class Job:
    """recipes/countdown-kl-cov.toml with these settings. An update may be spread over as many ranks as it has shards."""

    name: str
    shape: dict
    """What differs from assets/countdown-base in config.json; if anything does, the weights are random."""
    prompts: int
    minibatch: int
    max_tokens: int
    shards: int = 8
    settings: dict = field(default_factory=dict)


JOBS = {
    "countdown": Job("countdown, 64 x 8 responses of up to 256", {}, 64, 16, 256),
    "small": Job(
        "22 million random weights, 16 x 8 responses of up to 64",
        {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "num_attention_heads": 8, "head_dim": 64},
        16,
        8,
        64,
        # No answer is right, so that nothing else would have a gradient.
        settings={"objective.entropy_bonus.coefficient": 1e-3},
    ),
}
# A rank of a cluster: a server with processors alone, and its network.
CLUSTER = {"flop_s": 2.5e12, "memory_bytes_s": 300e9, "network_bytes_s": 12.5e9}
# recipes/qwen2.5-7b-kl-cov.toml: weights; responses of a rollout, with their mean and longest length if they come to that;
# updates of a rollout.
LARGE = {"weights": 7.6e9, "responses": 2048, "mean": 2048, "longest": 8192, "updates": 8}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found = [name for name in ("mpirun.openmpi", "mpirun.mpich") if shutil.which(name)] or ["mpirun"]
    parser.add_argument("--isentrope", type=Path, help="the program; built for release if not given")
    parser.add_argument("--mpirun", default=found[0], help="the launcher [default: %(default)s]")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--steps", type=int, default=8, help="of a run; the first is not counted")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind, in turn")
    args = parser.parse_args()
    if args.steps < 2 or args.rounds < 1:
        parser.error("--steps must be at least 2, and --rounds positive")
    return args


class Bench:
    """Runs of parts of a job, in directories of their own."""

    def __init__(self, args, program, job, directory):
        self.args, self.program, self.job, self.directory, self.count = args, program, job, directory, 0
        self.model = self.make_model() if job.shape else BASE

    def make_model(self):
        """A checkpoint with random weights of the job's shape."""
        shape, made = self.directory / "shape", self.directory / "made"
        shutil.copytree(BASE, shape)
        config = json.loads((shape / "config.json").read_text())
        (shape / "config.json").write_text(json.dumps(config | self.job.shape))
        settings = {"model.path": shape, "run.out": made, "run.steps": 1, "sft.batch": 1, "eval.every": 0}
        command = [self.program, "sft", ROOT / "recipes" / "countdown-base.toml", *words(settings)]
        subprocess.run(list(map(str, command)), check=True, capture_output=True, cwd=ROOT)
        return made / "checkpoints" / "step-000001"

    def weights(self):
        """How many weights the model has."""
        with open(self.model / "model.safetensors", "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")

    def start(self, share, ranks, threads, seed):
        self.count += 1
        out = self.directory / f"run-{self.count}"
        settings = {
            "run.steps": self.args.steps,
            "run.seed": seed,
            "run.out": out,
            "model.path": self.model,
            "rollout.prompts": self.job.prompts // share,
            "rollout.max_tokens": self.job.max_tokens,
            "update.prompts": self.job.minibatch // share,
            "update.shards": self.job.shards // share,
            "eval.every": 0,
            "checkpoint.every": 0,
            "lab.record_tokens": 0,
            # So little that responses stay as long as they are, and all runs have the same work.
            "optimizer.learning_rate": 1e-9,
            **self.job.settings,
        }
        command = [self.program, "train", RECIPE, "--threads", threads, *words(settings)]
        if ranks > 1:
            command = launched(self.args.mpirun, ranks, *command)
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        return out, subprocess.Popen(list(map(str, command)), env=os.environ | MPI, text=True, cwd=ROOT, **streams)

    def run(self, seed, share=1, ranks=1, threads=1, copies=1):
        """The steps but the first of as many runs at the same time, each with a seed of its own."""
        lines = []
        started = [self.start(share, ranks, threads, seed + copy) for copy in range(copies)]
        for out, process in started:
            _, said = process.communicate()
            if process.returncode != 0:
                sys.exit(f"{' '.join(process.args)} failed:\n{said}")
            of_run = [json.loads(line) for line in (out / "timings.jsonl").read_text().splitlines()]
            lines += [Step.of(line) for line in of_run if line["step"] > 1]
        return lines


def words(settings):
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


@dataclass(frozen=True)
class Step:
    """Seconds of a step and its parts, and megabytes sent."""

    rollout: float
    passes: float
    """Forward and back, in all updates; on several ranks with the exchanges."""
    objective: float
    optimizer: float
    rest: float
    step: float
    sent: float

    @classmethod
    def of(cls, line):
        rollout, optimizer, step = line["time/rollout_s"], line["time/optimizer_s"], line["time/step_s"]
        update, objective = line["time/update_s"], line["time/objective_s"]
        rest = step - rollout - update - optimizer
        return cls(rollout, update - objective, objective, optimizer, rest, step, line.get("throughput/sent_mb", 0.0))


def median(steps, part):
    return statistics.median(getattr(step, part) for step in steps)


def slowest(steps, part, ranks):
    """What the slowest of so many ranks is expected to take, if each takes what one of `steps` has taken."""
    count = len(steps)
    ordered = sorted(getattr(step, part) for step in steps)
    return sum(value * ((i + 1) ** ranks - i**ranks) / count**ranks for i, value in enumerate(ordered))


def predicted(whole, share, ranks, exchange):
    """A step on ranks of which each has a share. `whole` are steps of one rank, `share` such of a share, and `exchange` the
    seconds of all exchanges."""
    spread = slowest(share, "rollout", ranks) + slowest(share, "passes", ranks) + median(whole, "optimizer") / ranks
    # What every rank computes for the whole minibatch is no shorter.
    return spread + median(whole, "objective") + median(whole, "rest") + exchange


def sent_bytes(weights, ranks, updates):
    """Bytes that a rank sends for the gradients and weights of a step: as many as around a ring."""
    return updates * 2 * 4 * weights * (ranks - 1) / ranks


PARTS = ("rollout", "passes", "objective", "optimizer", "rest", "step")


def measured_table(kinds, weights, updates):
    alone = median(kinds["1 x 1"], "step")

    def row(name, seconds, sent=("", "")):
        return [name, *(f"{second:.3f}" for second in seconds), f"{alone / seconds[-1]:.2f}", *sent]

    rows = [row(kind, [median(kinds[kind], part) for part in PARTS]) for kind in ("1 x 1", "1 x 2")]
    sent = (f"{median(kinds['2 x 1'], 'sent'):.1f}", f"{sent_bytes(weights, 2, updates) / 1e6:.1f}")
    rows.append(row("2 x 1", [median(kinds["2 x 1"], part) for part in PARTS], sent))
    rows.append(row("two halves, apart", [slowest(kinds["1 / 2"], part, 2) for part in PARTS]))
    headings = ["ranks x threads", *(f"{part} s" for part in PARTS), "speed", "MB sent", "of it for updates"]
    return table(headings, rows)


def predicted_table(kinds, exchange_of_two):
    alone = median(kinds["1 x 1"], "step")
    rows = []
    for ranks in (2, 4, 8):
        seconds = predicted(kinds["1 x 1"], kinds[f"1 / {ranks}"], ranks, exchange_of_two * 2 * (ranks - 1) / ranks)
        measured = f"{median(kinds['2 x 1'], 'step'):.3f}" if ranks == 2 else ""
        rows.append([str(ranks), f"{seconds:.3f}", measured, f"{alone / seconds:.2f}", f"{alone / seconds / ranks:.0%}"])
    return table(["ranks", "predicted s", "measured s", "speed", "of the ideal"], rows)


def large_table():
    """Steps of the large recipe on servers of `CLUSTER`, computed alone."""
    tokens, weights, updates = LARGE["responses"] * LARGE["mean"], LARGE["weights"], LARGE["updates"]
    # However few responses a rank has, each token of the longest one reads all weights.
    tail = LARGE["longest"] * 4 * weights / CLUSTER["memory_bytes_s"]
    rows = []
    for ranks in (1, 4, 16, 64, 256, 1024):
        sampling = max(2 * weights * tokens / ranks / CLUSTER["flop_s"], tail)
        # A response is whole on a rank, and each update waits for its longest.
        of_update = max(tokens / updates / ranks, LARGE["longest"])
        passes = updates * 6 * weights * of_update / CLUSTER["flop_s"]
        exchange = sent_bytes(weights, ranks, updates) / CLUSTER["network_bytes_s"]
        step = sampling + passes + exchange
        alone = rows[0][1] if rows else step
        rows.append((ranks, step, sampling, passes, exchange, alone / step))
    lines = [[f"{ranks:,}", *(f"{second:,.0f}" for second in seconds), f"{speed:.1f}", f"{speed / ranks:.0%}"]
             for ranks, *seconds, speed in rows]
    return table(["ranks", "step s", "sampling s", "passes s", "exchange s", "speed", "of the ideal"], lines)


def exchange_seconds(mpirun, weights):
    """Seconds of adding a gradient of so many weights exactly over two ranks here, and of giving the weights back."""
    program = build("isentrope-ranks", "example", "sum_speed")
    result, _ = measure(launched(mpirun, 2, program, max(1, round(weights * 4 / 2**20)), 20), MPI)
    return statistics.median(result["seconds"])


KINDS = {
    "1 x 1": {},
    "1 x 2": {"threads": 2},
    "2 x 1": {"ranks": 2},
    # Two at once, so that a share has as little of the machine's memory to itself as a rank has.
    "1 / 2": {"share": 2, "copies": 2},
    "1 / 4": {"share": 4, "copies": 2},
    "1 / 8": {"share": 8, "copies": 2},
}


def main():
    args = arguments()
    program = args.isentrope.resolve() if args.isentrope else build("isentrope", "bin", "isentrope")
    warn_if_busy()
    for job in (JOBS[name] for name in args.jobs):
        with tempfile.TemporaryDirectory() as directory:
            bench = Bench(args, program, job, Path(directory))
            kinds = {kind: [] for kind in KINDS}
            for i in range(args.rounds):
                for kind, what in KINDS.items():
                    kinds[kind] += bench.run(2 * i, **what)
            weights, updates = bench.weights(), job.prompts // job.minibatch
        exchange = updates * exchange_seconds(args.mpirun, weights)
        print(f"**{job.name}**: {weights:,} weights, {updates} updates in a step\n")
        print(measured_table(kinds, weights, updates), end="\n\n")
        print(predicted_table(kinds, exchange), end="\n\n")
    print("**7.6 billion weights**: predicted\n")
    print(large_table())


if __name__ == "__main__":
    main()
