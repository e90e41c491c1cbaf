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
        self.queries = heads * head_dim
        keys = config["num_key_value_heads"] * head_dim
        # Of a mixture's experts those that a token goes to, and the router. transformers 5 writes the second name.
        experts = config.get("num_experts", config.get("num_local_experts", 0))
        chosen = config.get("num_experts_per_tok", 1)
        inner = chosen * config["moe_intermediate_size"] if experts else config["intermediate_size"]
        layers = config["num_hidden_layers"]
        linear = config.get("layer_types", []).count("linear_attention")
        self.attentions = layers - linear
        # A hybrid's attention has a gate as wide as its queries.
        mixers = self.attentions * hidden * ((3 if linear else 2) * self.queries + 2 * keys)
        if linear:
            key_heads, value_heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
            key_dim, value_dim = config["linear_key_head_dim"], config["linear_value_head_dim"]
            keys, values = key_heads * key_dim, value_heads * value_dim
            product = hidden * (2 * keys + 3 * values + 2 * value_heads)
            # A state is read by a key, written to, and read by a query.
            state = 3 * values * key_dim + config["linear_conv_kernel_dim"] * (2 * keys + values)
            mixers += linear * (product + state)
        self.blocks = mixers + layers * hidden * (3 * inner + experts)
        self.head = hidden * config["vocab_size"]

    def flops(self, tokens, scored, visible):
        """One forward pass: `tokens` run through the blocks, `scored` through the head, and `visible` counts the keys
        seen, summed over the tokens."""
        return 2 * (self.blocks * tokens + self.head * scored) + 4 * self.attentions * self.queries * visible


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


def score_flops(shape, batch):
    """Forward; every sequence by itself."""
    length = batch.prompt_tokens + batch.new_tokens - 1
    return shape.flops(
        tokens=batch.sequences * length,
        scored=batch.sequences * batch.new_tokens,
        visible=batch.sequences * triangle(length),
    )


def train_flops(shape, batch):
    """Backward is twice forward."""
    return 3 * score_flops(shape, batch)
