"""Writes train.jsonl and test.jsonl: little stories about how many things somebody has, of one to four steps.

    python3 examples/word-problems/make.py
"""

import json
import random
from pathlib import Path

PEOPLE = ["Anna", "Ben", "Carla", "Dan", "Eva", "Finn", "Gina", "Hugo", "Iris", "Jack", "Kate", "Leo"]
THINGS = ["apples", "books", "cards", "coins", "cookies", "eggs", "flowers", "marbles", "pencils", "shells", "stamps", "stickers"]
GAINS = ["finds {} more", "buys {} more", "gets {} more from a friend"]
LOSSES = ["gives {} to a friend", "loses {}", "sells {}"]
TIMES = {2: "doubles them", 3: "makes them three times as many"}
TEST, TRAIN = 26, 100  # problems of each number of steps


def story(steps):
    """A story with so many changes, the numbers in it, and the one at its end. Every number on the way is between 1 and 99."""
    person, thing, number = random.choice(PEOPLE), random.choice(THINGS), random.randint(3, 20)
    sentences, numbers = [f"{person} has {number} {thing}."], [number]
    for step in range(steps):
        change = random.choice(["gain", "gain", "loss", "loss", "times"])
        if change == "times" and number * 2 <= 60:
            factor = random.choice([factor for factor in TIMES if number * factor <= 60])
            number, event = number * factor, TIMES[factor]
        elif change == "loss" and number > 3:
            less = random.randint(2, number - 1)
            number, event = number - less, random.choice(LOSSES).format(less)
        else:
            more = random.randint(2, 20)
            number, event = number + more, random.choice(GAINS).format(more)
        numbers.append(number)
        sentences.append(f"{'Then ' if step else ''}{person} {event}.")
    question = f"How many {thing} does {person} have now? Put the final answer in \\boxed{{}}."
    return " ".join([*sentences, question]), tuple(numbers), number


random.seed(1)
files, seen = {"test": [], "train": []}, set()
for steps in range(1, 5):
    rows = []
    while len(rows) < TEST + TRAIN:
        problem, numbers, answer = story(steps)
        if numbers not in seen:  # nor with other people or things
            seen.add(numbers)
            rows.append({"problem": problem, "answer": str(answer), "data_source": f"{steps}_step{'s' if steps > 1 else ''}"})
    files["test"] += rows[:TEST]
    files["train"] += rows[TEST:]
for name, rows in files.items():
    Path(__file__).with_name(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
