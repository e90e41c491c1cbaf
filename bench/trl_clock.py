"""What TRL's trainers are timed with: a clock, and the settings that all comparisons have alike."""

import time

from transformers import TrainerCallback


def settings(directory, group, tokens):
    """Of GRPOConfig: responses to a prompt, tokens of each at most, a mean over tokens, no reference model, and no files."""
    return dict(
        output_dir=directory,
        num_generations=group,
        max_completion_length=tokens,
        temperature=1.0,
        loss_type="dapo",  # a mean over tokens, as objective.aggregation = "token-mean"
        beta=0.0,
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )


def one_update(responses):
    """Of GRPOConfig: one update of so many responses, in one pass, to each rollout."""
    return dict(
        per_device_train_batch_size=responses, gradient_accumulation_steps=1, steps_per_generation=1, learning_rate=1e-6
    )


class Clock(TrainerCallback):
    """The seconds of each optimizer step; those of the first after a rollout include the rollout."""

    def __init__(self):
        self.seconds = []

    def on_step_begin(self, *_, **__):
        self.started = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.started)
