"""Writes problems.jsonl and held_out.jsonl: numbers, and the largest number that can be made of them.

    python3 examples/own-reward/problems.py
"""

import itertools
import json
import random
from pathlib import Path


def results(numbers):
    """Everything that can be made of all the numbers, two at a time, without fractions and negative numbers."""
    if len(numbers) == 1:
        return {numbers[0]}
    made = set()
    for i, j in itertools.permutations(range(len(numbers)), 2):
        a, b = numbers[i], numbers[j]
        rest = tuple(n for k, n in enumerate(numbers) if k not in (i, j))
        steps = [a + b, a * b]
        if a >= b:
            steps.append(a - b)
        if b and a % b == 0:
            steps.append(a // b)
        for step in steps:
            made |= results(rest + (step,))
    return made


def main():
    all_numbers = itertools.combinations_with_replacement(range(1, 8), 3)
    problems = []
    for numbers in all_numbers:
        best = max(results(numbers))
        if best <= 99:  # the base model has seen no larger numbers
            problems.append((numbers, best))
    random.Random(1).shuffle(problems)
    here = Path(__file__).parent
    for name, part in [("held_out", problems[:16]), ("problems", problems[16:])]:
        with open(here / f"{name}.jsonl", "w") as file:
            for numbers, best in part:
                row = {
                    "problem": " ".join(map(str, numbers)) + ">99:",
                    "answer": best,
                    "data_source": "largest",
                    "extra_info": {"numbers": numbers},
                }
                file.write(json.dumps(row) + "\n")


main()
