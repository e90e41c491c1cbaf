"""TRL's GRPOTrainer on the arithmetic recipe's problems: what each rollout and its updates took.

Verdicts are those of `isentrope grade`, so that both sides are rewarded for the same responses. It takes some
hundredths of a second per rollout.
"""

import argparse
import json
import platform
import statistics
import subprocess
import tempfile
import time

import torch
import transformers
import trl
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer
from trl_clock import Clock
from trl_clock import settings as settings_alike


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="checkpoint directory, or the name of a model on the hub")
    parser.add_argument("data", help="JSONL file of problems with their answers")
    parser.add_argument("--isentrope", required=True, help="the program that judges responses")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--group", type=int, default=8, help="responses per prompt")
    parser.add_argument("--new-tokens", type=int, default=40, help="longest response")
    parser.add_argument("--updates", type=int, default=2, help="updates per rollout")
    parser.add_argument("--learning-rate", type=float, default=5e-6)
    parser.add_argument("--steps", type=int, default=6, help="rollouts; the first is not reported")
    parser.add_argument("--micro-batch", type=int, default=64, help="responses in one pass of an update")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16 as TRL does by default; else in float32, as we do")
    parser.add_argument("--lora", type=int, help="train adapters of this rank in every linear layer, by peft")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.prompts * args.group % (args.updates * args.micro_batch):
        parser.error("the responses of an update must be a multiple of --micro-batch")
    return args


class Trainer(GRPOTrainer):
    """Notes the seconds of each rollout: sampling, verdicts and the log-probs that later updates need."""

    def _generate_and_score_completions(self, inputs):
        started = time.perf_counter()
        outputs = super()._generate_and_score_completions(inputs)
        self.rollout_seconds.append(time.perf_counter() - started)
        return outputs


class Grader:
    """The reward: 1 for a right answer, else 0. Notes what the responses of each rollout were like."""

    __name__ = "grade"

    def __init__(self, isentrope, group):
        self.command = [isentrope, "grade", "--in", "-", "--verifier", "math"]
        self.group = group
        self.tokens, self.rewards, self.without_signal = [], [], []

    def __call__(self, completions, completion_ids, answer, **_):
        pairs = zip(completions, answer, strict=True)
        lines = [{"response": completion[0]["content"], "gold": gold} for completion, gold in pairs]
        given = "".join(json.dumps(line) + "\n" for line in lines)
        judged = subprocess.run(self.command, input=given, capture_output=True, text=True, check=True).stdout
        rewards = [float(json.loads(line)["score"]) for line in judged.splitlines()]
        groups = [set(rewards[i : i + self.group]) for i in range(0, len(rewards), self.group)]
        self.tokens.append(sum(map(len, completion_ids)))
        self.rewards.append(statistics.fmean(rewards))
        self.without_signal.append(sum(len(group) == 1 for group in groups) / len(groups))
        return rewards


def settings(args, directory):
    return GRPOConfig(
        **settings_alike(directory, args.group, args.new_tokens),
        model_init_kwargs={"dtype": "float32"},
        use_cpu=True,
        bf16=args.bf16,
        max_steps=args.steps * args.updates,
        per_device_train_batch_size=args.micro_batch,
        gradient_accumulation_steps=args.prompts * args.group // (args.updates * args.micro_batch),
        steps_per_generation=args.prompts * args.group // args.micro_batch,
        epsilon=0.2,
        learning_rate=args.learning_rate,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        seed=1,
    )


def train(args, directory):
    with open(args.data) as lines:
        rows = [json.loads(line) for line in lines]
    data = [{"prompt": [{"role": "user", "content": row["problem"]}], "answer": row["answer"]} for row in rows]
    clock, grader = Clock(), Grader(args.isentrope, args.group)
    trainer = Trainer(
        model=args.model,
        reward_funcs=grader,
        args=settings(args, directory),
        train_dataset=Dataset.from_list(data),
        processing_class=AutoTokenizer.from_pretrained(args.model),
        callbacks=[clock],
        peft_config=args.lora and LoraConfig(r=args.lora, lora_alpha=2 * args.lora, target_modules="all-linear"),
    )
    trainer.rollout_seconds = []
    trainer.train()
    if len(trainer.rollout_seconds) != args.steps or len(clock.seconds) != args.steps * args.updates:
        raise SystemExit(
            f"{len(trainer.rollout_seconds)} rollouts and {len(clock.seconds)} updates were timed instead of {args.steps} and "
            f"{args.steps * args.updates}: this script does not fit TRL {trl.__version__}"
        )
    seconds = [sum(clock.seconds[i : i + args.updates]) for i in range(0, len(clock.seconds), args.updates)]
    columns = zip(seconds, trainer.rollout_seconds, grader.tokens, grader.rewards, grader.without_signal)
    names = ("seconds", "rollout", "tokens", "reward", "without_signal")
    return [dict(zip(names, column)) for column in columns]


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as directory:
        steps = train(args, directory)
    versions = {"TRL": trl.__version__, "transformers": transformers.__version__, "PyTorch": torch.__version__}
    versions["Python"] = platform.python_version()
    print(json.dumps({"steps": steps[1:], "versions": versions}))


if __name__ == "__main__":
    main()
