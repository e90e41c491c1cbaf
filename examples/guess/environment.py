"""Guess a number from 00 to 63 in six guesses. The model writes two digits; "<" says that the number is less, ">" that it is more.
The reward is 1 if the number is found, else less than 1: the share of what there is to find out that the guesses have found out."""

from math import log2


class Guess:
    def reset(self, problem, seed):
        self.secret, self.low, self.high = int(problem["ground_truth"]), 0, 63
        self.guesses, self.share = 0, 0

    def step(self, message):
        self.guesses += 1
        guess = int(message) if message.isascii() and message.isdigit() else 64
        if guess == self.secret:
            return {"done": True, "reward": 1 - self.share, "metrics": {"guesses": self.guesses}}
        if self.secret < guess:
            self.high = min(self.high, guess - 1)
        else:
            self.low = max(self.low, guess + 1)
        share = 1 - log2(max(self.high - self.low, 0) + 2) / log2(65)
        before, self.share = self.share, round(64 * share) / 64  # so that shares add up to 1 exactly
        return {"messages": "<" if self.secret < guess else ">", "reward": self.share - before}
