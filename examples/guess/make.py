"""Makes the example's games to learn from (train.jsonl) and to test (test.jsonl) beside this file, and in a file that is named
games that somebody has played who takes any number that is not excluded yet.

    python3 examples/guess/make.py data/guess-plays.jsonl
"""

import json
import random
import sys
from pathlib import Path

HERE = Path(__file__).parent
NUMBERS, GUESSES = 64, 6
random.seed(1)


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def play(game, secret):
    messages = [{"role": "user", "content": f"#{game:03}"}]
    low, high = 0, NUMBERS - 1
    for _ in range(GUESSES):
        guess = random.randint(low, high)
        messages.append({"role": "assistant", "content": f"{guess:02}"})
        if guess == secret:
            break
        messages.append({"role": "user", "content": "<" if secret < guess else ">"})
        low, high = (low, guess - 1) if secret < guess else (guess + 1, high)
    return messages[:-1] if messages[-1]["role"] == "user" else messages


def games(first, each):
    secrets = [secret for secret in range(NUMBERS) for _ in range(each)]
    random.shuffle(secrets)
    return [{"prompt": f"#{first + i:03}", "answer": str(secret)} for i, secret in enumerate(secrets)]


write(HERE / "train.jsonl", games(0, 12))
write(HERE / "test.jsonl", games(768, 3))
for path in sys.argv[1:]:
    write(Path(path), [{"messages": play(random.randrange(1000), random.randrange(NUMBERS))} for _ in range(8000)])
