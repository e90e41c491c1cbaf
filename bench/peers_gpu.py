"""transformers and TRL on a GPU, at the work of `bench/gpu.sh`'s models: bf16, random weights that are drawn there, nothing fetched.

One job to a process, so that its memory is its own. The last line that it prints is a JSON object: `lines`, each with what was
done and either its seconds and tokens or what is to be said of it, and `versions`; or `missing`, the module that this Python lacks;
or `failed`, why there are no lines.

  sample  a prefill, then a static cache and a step that is captured once as a CUDA graph: a token and its log-prob of each sequence
  train   log-prob and entropy of the sampled tokens, forward and backward with SDPA; --checkpointing computes activations again
  grpo    steps of TRL's GRPOTrainer: sampling, one update with AdamW, exact f32 weights and passes in bf16

`--device cpu --tiny` tries the script where there is no GPU; its times mean nothing.
"""

import argparse
import inspect
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")


def end_with(**said):
    """Prints what this process has to say, and ends it."""
    print(json.dumps(said))
    sys.exit()


try:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM, StaticCache
except ModuleNotFoundError as error:
    end_with(missing=error.name)

HERE = Path(__file__).resolve().parent
# As config.json has them on the hub. `--config` names a file with any other.
SHAPES = {
    "0.5B": dict(
        vocab_size=151936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    ),
    "7B": dict(
        vocab_size=152064,
        hidden_size=3584,
        intermediate_size=18944,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        tie_word_embeddings=False,
    ),
}
TINY = dict(vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
# A log-prob whose sums were rounded to bf16 on two ways is not off by more, unless one of them computes something else.
ALIKE = 0.5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=["sample", "train", "grpo"])
    parser.add_argument("--shape", choices=SHAPES, default="0.5B", help="of Qwen2.5")
    parser.add_argument("--config", type=Path, help="a config.json of Qwen2 instead")
    parser.add_argument("--sequences", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=256, help="tokens of a prompt")
    parser.add_argument("--sampled", type=int, default=64, help="tokens that are sampled after it")
    parser.add_argument("--checkpointing", action="store_true", help="train: keep the inputs of blocks alone")
    parser.add_argument("--group", type=int, default=8, help="grpo: responses to a prompt")
    parser.add_argument("--steps", type=int, default=4, help="grpo: steps; the first is not counted")
    parser.add_argument(
        "--tokenizer", type=Path, default=HERE.parent / "assets" / "countdown-base", help="grpo: a token for each digit"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="two small layers of the shape")
    args = parser.parse_args()
    if args.sampled < 2 or args.steps < 2 or args.repeats < 1 or args.sequences % args.group:
        parser.error("--sampled and --steps must be at least 2, --repeats 1, and --sequences a multiple of --group")
    return args


def model_of(args, dtype):
    """The model, with weights of its own initializer, drawn on the device."""
    shape = json.loads(args.config.read_text()) if args.config else SHAPES[args.shape]
    if args.tiny:
        shape |= TINY | {"num_key_value_heads": 2}
    known = [*SHAPES["7B"], "head_dim", "rms_norm_eps", "rope_theta"]
    config = Qwen2Config(
        **{key: shape[key] for key in known if key in shape},
        max_position_embeddings=32768,
        initializer_range=shape["hidden_size"] ** -0.5,  # by which logits are neither all alike nor one alone
        pad_token_id=0,
        eos_token_id=0,
        attn_implementation="sdpa",
        dtype=dtype,
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(args.device):
            return Qwen2ForCausalLM(config)
    finally:
        torch.set_default_dtype(before)


def wait(args):
    if args.device == "cuda":
        torch.cuda.synchronize()


def seconds_of(args, job, before=lambda: None):
    """The median, after a first call that pays for allocation and warm-up."""
    seconds = []
    for _ in range(1 + args.repeats):
        before()
        wait(args)
        started = time.perf_counter()
        job()
        wait(args)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


class Sampler:
    """Sequences that are sampled together. All it computes with keeps its place, so a graph can be captured of a step."""

    def __init__(self, args, model, prompts):
        self.model, self.prompts = model, prompts
        self.cache = StaticCache(config=model.config, max_cache_len=args.prompt + args.sampled)
        # Releases have called it either.
        parameters = inspect.signature(type(model).forward).parameters
        self.cache_name = "cache" if "cache" in parameters else "past_key_values"
        self.takes_position = "cache_position" in parameters
        self.token = torch.zeros(len(prompts), 1, dtype=torch.long, device=args.device)
        self.logprob = torch.zeros(len(prompts), 1, device=args.device)
        self.position = torch.zeros(1, dtype=torch.long, device=args.device)
        self.places = torch.arange(args.prompt + args.sampled, device=args.device)

    def draw(self, tokens, positions, mask=None):
        """Feeds tokens at these positions; draws the next one of each sequence at temperature 1, and keeps its log-prob."""
        given = {self.cache_name: self.cache, "attention_mask": mask, "use_cache": True, "logits_to_keep": 1}
        if self.takes_position:
            given["cache_position"] = positions
        logits = self.model(tokens, position_ids=positions[None], **given).logits[:, -1]
        logprobs = torch.log_softmax(logits.float(), dim=-1)
        # The largest of p / e, e exponential, is a draw from p; no number goes to the host for it.
        drawn = (logprobs.exp() / torch.empty_like(logprobs).exponential_()).argmax(-1, keepdim=True)
        self.token.copy_(drawn)
        self.logprob.copy_(logprobs.gather(-1, drawn))

    def prefill(self):
        positions = torch.arange(self.prompts.shape[1], device=self.prompts.device)
        self.draw(self.prompts, positions)
        self.position.fill_(self.prompts.shape[1])

    def step(self):
        # By whatever makes masks else, a graph could not be captured: this one is computed on the device alone.
        mask = (self.places <= self.position)[None, None, None]
        self.draw(self.token, self.position, {"full_attention": mask})
        self.position.add_(1)

    def captured(self):
        """The step as a CUDA graph."""
        self.cache.reset()
        self.prefill()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self.step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay


def sample(args):
    model = model_of(args, torch.bfloat16).eval()
    torch.manual_seed(0)
    prompts = torch.randint(model.config.vocab_size, (args.sequences, args.prompt), device=args.device)
    fed = args.sequences * args.prompt
    with torch.no_grad():
        sampler = Sampler(args, model, prompts)
        seconds = seconds_of(args, sampler.prefill, before=sampler.cache.reset)
        lines = [{"what": "prefill", "seconds": seconds, "tokens": fed, "said": "static cache"}]
        step, how = sampler.step, "static cache"
        if args.device == "cuda":
            step, how = sampler.captured(), "static cache, a CUDA graph"

        tokens, logprobs = [], []

        def begin():
            sampler.cache.reset()
            sampler.prefill()
            tokens[:], logprobs[:] = [sampler.token.clone()], [sampler.logprob.clone()]

        def decode():
            for _ in range(args.sampled - 1):
                step()
                tokens.append(sampler.token.clone())
                logprobs.append(sampler.logprob.clone())

        seconds = seconds_of(args, decode, before=begin)
        decoded = args.sequences * (args.sampled - 1)
        lines.append({"what": f"decoding {args.sequences} sequences", "seconds": seconds, "tokens": decoded, "said": how})
        # What training computes of the same tokens.
        worst = 0.0
        for row in range(args.sequences):
            whole = torch.cat([prompts[row], *(token[row] for token in tokens)])
            scored, _ = scores(model, whole[None], args.sampled)
            drawn = torch.cat([logprob[row] for logprob in logprobs])
            worst = max(worst, (scored[0] - drawn).abs().max().item())
    if not worst <= ALIKE:
        end_with(failed=f"a log-prob of sampling is {worst:.3g} off that of a forward pass: this script computes something else")
    said = f"log-probs of tokens are up to {worst:.2g} off those with which they were drawn"
    lines.append({"what": "sampling against training", "said": said})
    return lines


def scores(model, sequences, sampled):
    """Log-probs of the last `sampled` tokens, which have a gradient, and the entropies there, which have none."""
    logits = model(sequences[:, :-1], logits_to_keep=sampled, use_cache=False).logits
    log_softmax = torch.log_softmax(logits.float(), dim=-1)
    logprobs = log_softmax.gather(-1, sequences[:, -sampled:, None])[..., 0]
    with torch.no_grad():
        entropies = -(log_softmax.exp() * log_softmax).sum(-1)
    return logprobs, entropies


def train(args):
    model = model_of(args, torch.bfloat16).train()
    if args.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    torch.manual_seed(0)
    length = args.prompt + args.sampled
    sequences = torch.randint(model.config.vocab_size, (args.sequences, length), device=args.device)

    def update():
        model.zero_grad(set_to_none=True)
        logprobs, _ = scores(model, sequences, args.sampled)
        (-logprobs.mean()).backward()

    kept = "inputs of blocks are kept, the rest is computed again" if args.checkpointing else "all activations are kept"
    seconds = seconds_of(args, update)
    return [{"what": "forward and backward", "seconds": seconds, "tokens": args.sequences * length, "said": f"SDPA, {kept}"}]


def grpo(args):
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer
    from trl_clock import Clock, one_update, settings

    # Exact weights, as ours are, and TRL's default; its passes are in bf16.
    model = model_of(args, torch.float32)
    random.seed(0)
    prompt = lambda: "".join(random.choices("0123456789", k=args.prompt))
    prompts = args.sequences // args.group
    data = Dataset.from_list([{"prompt": prompt()} for _ in range(prompts * args.steps)])
    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    lengths = []

    def coin(completion_ids, **_):
        lengths.extend(map(len, completion_ids))
        return [float(random.random() < 0.5) for _ in completion_ids]

    clock = Clock()
    with tempfile.TemporaryDirectory() as directory:
        config = GRPOConfig(
            **settings(directory, args.group, args.sampled),
            **one_update(args.sequences),
            use_cpu=args.device == "cpu",
            bf16=True,
            max_steps=args.steps,
            generation_kwargs={"min_new_tokens": args.sampled},
        )
        trainer = GRPOTrainer(
            model=model, reward_funcs=coin, args=config, train_dataset=data, processing_class=tokenizer, callbacks=[clock]
        )
        trainer.train()
    if len(clock.seconds) != args.steps or set(lengths) != {args.sampled}:
        end_with(failed=f"{len(clock.seconds)} steps with responses of {sorted(set(lengths))} tokens are not what was asked for")
    seconds = statistics.median(clock.seconds[1:])
    what = f"GRPO step, {prompts} x {args.group} responses"
    return [{"what": what, "seconds": seconds, "tokens": args.sequences * args.sampled, "said": "weights in f32, passes in bf16"}]


def versions(job):
    names = ["torch", "transformers"] + ["trl"] * (job == "grpo")
    return ", ".join(f"{name} {__import__(name).__version__}" for name in names)


def main():
    args = arguments()
    if args.device == "cuda" and not torch.cuda.is_available():
        end_with(failed=f"torch {torch.__version__} finds no GPU that it can use")
    try:
        lines = {"sample": sample, "train": train, "grpo": grpo}[args.job](args)
    except ModuleNotFoundError as error:
        end_with(missing=error.name)
    except torch.OutOfMemoryError:
        end_with(failed="it has run out of memory")
    end_with(lines=lines, versions=versions(args.job))


if __name__ == "__main__":
    main()
