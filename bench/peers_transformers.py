"""transformers at the work of the benchmark, in float32. One job to a process, so that its memory is its own."""

import argparse
import json
import statistics
import time

import torch
from transformers import AutoModelForCausalLM


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="checkpoint directory")
    parser.add_argument("--only", choices=["generate", "score", "train"], required=True)
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--group", type=int, default=8, help="samples per prompt")
    parser.add_argument("--prompt-tokens", type=int, default=16)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scored-only", action="store_true", help="run the head on scored positions only")
    return parser.parse_args()


def generate(model, prompts, new_tokens):
    """Samples exactly `new_tokens` tokens at temperature 1 from the whole vocabulary."""
    with torch.no_grad():
        model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
            pad_token_id=0,
        )


def scores(model, sequences, new_tokens, scored_only):
    """Log-prob and entropy of the last `new_tokens` tokens."""
    # A plain call has logits everywhere; the fastest way that transformers offers is to ask for those that are needed.
    kept = new_tokens if scored_only else 0
    logits = model(sequences[:, :-1], logits_to_keep=kept).logits[:, -new_tokens:]
    log_softmax = torch.log_softmax(logits, dim=-1)
    logprobs = log_softmax.gather(-1, sequences[:, -new_tokens:, None])[..., 0]
    with torch.no_grad():
        return logprobs, -(log_softmax.exp() * log_softmax).sum(-1)


def forward(model, *task):
    with torch.no_grad():
        scores(model, *task)


def forward_backward(model, *task):
    """The gradient of the mean log-prob, too."""
    model.zero_grad(set_to_none=True)
    logprobs, _ = scores(model, *task)
    (-logprobs.mean()).backward()


def median_seconds(job, repeats):
    job()  # the first call pays for allocation and warm-up
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    highest = min(model.config.vocab_size, 50)
    prompts = torch.randint(3, highest, (args.prompts, args.prompt_tokens)).repeat_interleave(args.group, 0)
    sequences = len(prompts)
    if args.only == "generate":
        seconds = median_seconds(lambda: generate(model, prompts, args.new_tokens), args.repeats)
        rate = {"new_tokens_per_s": round(sequences * args.new_tokens / seconds, 1)}
        what = "generate"
    else:
        response = torch.randint(3, highest, (sequences, args.new_tokens))
        tokens = torch.cat([prompts, response], dim=1)
        job, what = (forward, "forward") if args.only == "score" else (forward_backward, "forward+backward")
        seconds = median_seconds(lambda: job(model, tokens, args.new_tokens, args.scored_only), args.repeats)
        rate = {"tokens_per_s": round(sequences * (args.prompt_tokens + args.new_tokens - 1) / seconds, 1)}
    measured = {"tool": "transformers", "what": what, "sequences": sequences, "seconds": round(seconds, 6)}
    print(json.dumps(measured | rate))


if __name__ == "__main__":
    main()
