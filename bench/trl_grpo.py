"""TRL's GRPOTrainer in float32: seconds per step (sampling, one update) on random rewards, of every step but the first.

The rewards are drawn, not computed, so verifying costs it nothing.
"""

import argparse
import json
import os
import random
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch
from datasets import Dataset
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer
from trl_clock import Clock, one_update, settings


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="checkpoint directory")
    parser.add_argument("data", help="JSONL file with a prompt in every row")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--group", type=int, default=8, help="responses per prompt")
    parser.add_argument("--new-tokens", type=int, default=64, help="longest response")
    parser.add_argument("--forced", action="store_true", help="every response has the full length")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


class Lengths:
    """Rewards by a coin, noting how long the responses are."""

    __name__ = "coin"

    def __init__(self):
        self.tokens = []

    def __call__(self, completion_ids, **_):
        self.tokens.append(sum(map(len, completion_ids)) / len(completion_ids))
        return [float(random.random() < 0.5) for _ in completion_ids]


def train(args, directory):
    with open(args.data) as rows:
        data = Dataset.from_list([{"prompt": json.loads(row)["prompt"]} for row in rows])
    config = GRPOConfig(
        **settings(directory, args.group, args.new_tokens),
        **one_update(args.prompts * args.group),
        model_init_kwargs={"dtype": "float32"},
        use_cpu=True,
        bf16=False,
        max_steps=args.steps,
        generation_kwargs={"min_new_tokens": args.new_tokens} if args.forced else {},
    )
    clock, lengths = Clock(), Lengths()
    trainer = GRPOTrainer(
        model=args.model,
        reward_funcs=lengths,
        args=config,
        train_dataset=data,
        processing_class=AutoTokenizer.from_pretrained(args.model),
        callbacks=[clock],
    )
    trainer.train()
    return clock.seconds[1:], lengths.tokens[1:]


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    random.seed(0)
    with tempfile.TemporaryDirectory() as directory:
        seconds, tokens = train(args, directory)
    print(json.dumps({"tool": "trl", "seconds": seconds, "response_tokens": tokens}))


if __name__ == "__main__":
    main()
