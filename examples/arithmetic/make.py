"""Writes train.jsonl and test.jsonl: sums, differences and products of small numbers. And two other mixtures to train on: easy.jsonl
has no differences, which are the hardest to learn, and hard.jsonl has 200 more.

    python3 examples/arithmetic/make.py
"""

import json
import random
from pathlib import Path

# The larger number always comes first, so no problem is another one with its numbers exchanged.
KINDS = {
    "sum": [(f"{a} + {b}", a + b) for a in range(11, 100) for b in range(11, a)],
    "difference": [(f"{a} - {b}", a - b) for a in range(12, 100) for b in range(3, a)],
    "product": [(f"{a} * {b}", a * b) for a in range(3, 16) for b in range(3, min(a, 12) + 1)],
}
TEST, TRAIN = 26, 100  # problems of each kind; there are only 59 products beside those of the test
MORE = 200  # differences

random.seed(1)
files = {"test": [], "train": [], "easy": [], "hard": []}
for kind, problems in KINDS.items():
    random.shuffle(problems)
    problem = "What is {}? Put the final answer in \\boxed{{}}."
    rows = [{"problem": problem.format(text), "answer": str(answer), "data_source": kind} for text, answer in problems]
    files["test"] += rows[:TEST]
    files["train"] += rows[TEST : TEST + TRAIN]
    files["easy"] += [] if kind == "difference" else rows[TEST : TEST + TRAIN]
    files["hard"] += rows[TEST : TEST + TRAIN + (MORE if kind == "difference" else 0)]
for name, rows in files.items():
    Path(__file__).with_name(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
