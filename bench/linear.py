"""Compares the linear layer's product with PyTorch's x @ W.T in GFLOP/s, and prints a Markdown table.

Both sides run in turn, each measurement in a process of its own.
"""

import argparse
import statistics
import sys
from pathlib import Path

from processes import alternate, build, measure, table, warn_if_busy

HERE = Path(__file__).resolve().parent
# Rows, input features, output features: training first, then decoding.
SHAPES = [(2048, 896, 4864), (4096, 2048, 2048), (2048, 4096, 4096)]
SHAPES += [(rows, *features) for rows in (4, 8, 16) for features in ((896, 4864), (2048, 2048), (896, 896))]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each side per shape")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if min(args.rounds, args.threads) < 1:
        parser.error("--rounds and --threads must be positive")
    return args


def compare(args, kernels, shape):
    """One row of the table."""
    ours, theirs = alternate(
        args.rounds,
        lambda: measure([kernels, *shape], {"ISENTROPE_THREADS": str(args.threads)}),
        lambda: measure([args.python, HERE / "peers_torch_linear.py", *shape, args.threads]),
    )
    gflops = [statistics.median(result["gflops"] for result, _ in side) for side in (ours, theirs)]
    return ["{} x {} x {}".format(*shape), *(f"{g:.0f}" for g in gflops), f"{gflops[0] / gflops[1]:.2f}"]


def main():
    args = arguments()
    warn_if_busy()
    kernels = build("isentrope-kernels", "example", "linear_bench")
    rows = [compare(args, kernels, shape) for shape in SHAPES]
    print(table(["rows x in x out", "isentrope GFLOP/s", "PyTorch GFLOP/s", "ratio"], rows))


if __name__ == "__main__":
    main()
