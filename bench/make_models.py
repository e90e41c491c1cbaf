"""Random-weight checkpoints for the benchmarks, written by transformers: make_models.py OUT [NAME...]"""

import sys
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen3_5TextConfig, Qwen3MoeConfig

# About 1 million weights, 31 million, the exact shape of Qwen2.5-0.5B, 120 million of which a token goes through a
# quarter, and 34 million of which six of eight layers are linear attention.
SHAPES = {
    "tiny": dict(
        vocab_size=64,
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
    ),
    "small": dict(
        vocab_size=16384,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=2,
    ),
    "half-b": dict(
        vocab_size=151936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
    ),
    "mixture": dict(
        vocab_size=16384,
        hidden_size=512,
        moe_intermediate_size=256,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=64,
        num_experts=32,
        num_experts_per_tok=4,
        norm_topk_prob=True,
    ),
    "hybrid": dict(
        vocab_size=16384,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=128,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
    ),
}
KINDS = {"mixture": Qwen3MoeConfig, "hybrid": Qwen3_5TextConfig}
SPECIAL = ["<pad>", "<eos>", "<bos>"]
CHARACTERS = "0123456789+-*/()=,;:!?. \nabcdefghijklmnopqrstuvwxyz"


def tokenizer():
    """One token a character: enough for programs that want a tokenizer beside the weights."""
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *CHARACTERS])}
    characters = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    characters.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=characters, pad_token="<pad>", eos_token="<eos>", bos_token="<bos>", padding_side="left"
    )


def main(out, names):
    for name in names or SHAPES:
        torch.manual_seed(0)
        kind = KINDS.get(name, Qwen2Config)
        config = kind(
            **SHAPES[name],
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=2,
        )
        model = AutoModelForCausalLM.from_config(config)
        model.save_pretrained(Path(out) / name)
        tokenizer().save_pretrained(Path(out) / name)
        print(f"{name}: {sum(parameter.numel() for parameter in model.parameters())} weights")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
