"""Floating-point operations that a job needs, counted from the shape of the model. README.md has the formula."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Batch:
    """`prompts` prompts of `prompt_tokens` tokens with `group` samples of `new_tokens` tokens each."""

    prompts: int
    group: int
    prompt_tokens: int
    new_tokens: int

    @property
    def sequences(self):
        return self.prompts * self.group


class Shape:
    """The sizes in a checkpoint's config.json that the count depends on."""

    def __init__(self, model):
        config = json.loads((Path(model) / "config.json").read_text())
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        head_dim = config.get("head_dim") or hidden // heads
        self.layers = config["num_hidden_layers"]
        self.queries = heads * head_dim
        keys = config["num_key_value_heads"] * head_dim
        # Of a mixture's experts those that a token goes to, and the router.
        experts, chosen = config.get("num_experts", 0), config.get("num_experts_per_tok", 1)
        inner = chosen * config["moe_intermediate_size"] if experts else config["intermediate_size"]
        self.block = hidden * (2 * self.queries + 2 * keys + 3 * inner + experts)
        self.head = hidden * config["vocab_size"]

    def flops(self, tokens, scored, visible):
        """One forward pass: `tokens` run through the blocks, `scored` through the head, and `visible` counts the keys
        seen, summed over the tokens."""
        linear = 2 * (self.layers * self.block * tokens + self.head * scored)
        return linear + 4 * self.layers * self.queries * visible


def triangle(n):
    """1 + 2 + ... + n: the keys seen by n tokens in a row."""
    return n * (n + 1) // 2


def generate_flops(shape, batch):
    """A prompt is computed once for its whole group, and the last token sampled is never fed back."""
    prompt, last = batch.prompt_tokens, batch.prompt_tokens + batch.new_tokens - 1
    return shape.flops(
        tokens=batch.prompts * prompt + batch.sequences * (batch.new_tokens - 1),
        scored=batch.prompts + batch.sequences * (batch.new_tokens - 1),
        visible=batch.prompts * triangle(prompt) + batch.sequences * (triangle(last) - triangle(prompt)),
    )


def train_flops(shape, batch):
    """Forward, and backward at twice its cost; every sequence by itself."""
    length = batch.prompt_tokens + batch.new_tokens - 1
    return 3 * shape.flops(
        tokens=batch.sequences * length,
        scored=batch.sequences * batch.new_tokens,
        visible=batch.sequences * triangle(length),
    )
