"""What TRL's trainers are timed with."""

import time

from transformers import TrainerCallback


class Clock(TrainerCallback):
    """The seconds of each optimizer step; those of the first after a rollout include the rollout."""

    def __init__(self):
        self.seconds = []

    def on_step_begin(self, *_, **__):
        self.started = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.started)
