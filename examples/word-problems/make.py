"""Writes train.jsonl and test.jsonl: little stories about how many things somebody has, of one to four steps. And worked.jsonl, other
stories with their calculation, to show a model how it is written down (`isentrope sft`).

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
TEST, TRAIN, WORKED = 26, 100, 50  # problems of each number of steps


def story(steps):
    """A story with so many changes, the numbers in it, and its calculation. Every number on the way is above 0."""
    person, thing, number = random.choice(PEOPLE), random.choice(THINGS), random.randint(3, 20)
    sentences, numbers, worked = [f"{person} has {number} {thing}."], [number], []
    for step in range(steps):
        change = random.choice(["gain", "gain", "loss", "loss", "times"])
        if change == "times" and number * 2 <= 60:
            factor = random.choice([factor for factor in TIMES if number * factor <= 60])
            number, event, done = number * factor, TIMES[factor], f"* {factor}"
        elif change == "loss" and number > 3:
            less = random.randint(2, number - 1)
            number, event, done = number - less, random.choice(LOSSES).format(less), f"- {less}"
        else:
            more = random.randint(2, 20)
            number, event, done = number + more, random.choice(GAINS).format(more), f"+ {more}"
        worked.append(f"{numbers[-1]} {done} = {number}.")
        numbers.append(number)
        sentences.append(f"{'Then ' if step else ''}{person} {event}.")
    question = f"How many {thing} does {person} have now? Put the final answer in \\boxed{{}}."
    return " ".join([*sentences, question]), tuple(numbers), " ".join([*worked, f"\\boxed{{{number}}}"])


def new_stories(steps, count):
    """Stories with numbers that no other story has, whoever has what."""
    found = []
    while len(found) < count:
        problem, numbers, worked = story(steps)
        if numbers not in seen:
            seen.add(numbers)
            found.append((problem, numbers[-1], worked))
    return found


random.seed(1)
files, seen = {"test": [], "train": [], "worked": []}, set()
for steps in range(1, 5):
    source = f"{steps}_step{'s' if steps > 1 else ''}"
    found = new_stories(steps, TEST + TRAIN)
    rows = [{"problem": problem, "answer": str(number), "data_source": source} for problem, number, _ in found]
    files["test"] += rows[:TEST]
    files["train"] += rows[TEST:]
for steps in range(1, 5):
    files["worked"] += [{"problem": problem, "response": worked} for problem, _, worked in new_stories(steps, WORKED)]
for name, rows in files.items():
    Path(__file__).with_name(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
