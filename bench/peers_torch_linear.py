"""PyTorch's x @ W.T in float32 at one shape: peers_torch_linear.py ROWS IN OUT THREADS"""

import json
import statistics
import sys
import time

import torch

# Long enough for a steady clock, short enough to alternate often.
SECONDS = 1.0
MINIMUM_REPEATS = 5


def main(rows, inputs, outputs, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
    y = torch.empty(rows, outputs)
    seconds = []
    with torch.no_grad():
        for _ in range(3):
            torch.mm(x, weight.T, out=y)
        while sum(seconds) < SECONDS or len(seconds) < MINIMUM_REPEATS:
            start = time.perf_counter()
            torch.mm(x, weight.T, out=y)
            seconds.append(time.perf_counter() - start)
    gflops = 2e-9 * rows * inputs * outputs / statistics.median(seconds)
    print(json.dumps({"rows": rows, "in": inputs, "out": outputs, "gflops": round(gflops, 1)}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
