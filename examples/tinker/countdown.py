"""Reinforcement learning from a script: the countdown game, through Tinker's client.

    pip install tinker
    isentrope tinker assets/countdown-base --out runs/tinker
    export TINKER_BASE_URL=http://127.0.0.1:8000 TINKER_API_KEY=tml-none
    python examples/tinker/countdown.py

A prompt such as `3 5 7>22:` asks for 22 from the three numbers; `3*5=15,15+7=22!` solves it. The
script prints the share of solved prompts of each step: about 0.1 in the first, several times as much
after 30. Run again it prints the same numbers, because a sampler's tokens follow from its weights,
its number in the session and the request's.
"""

import operator
import random
import sys

from tinker import AdamParams, Datum, ModelInput, RestClient, SamplingParams, ServiceClient

STEPS, PROMPTS, RESPONSES = int(sys.argv[1]) if len(sys.argv) > 1 else 30, 24, 8
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
OPERATIONS["/"] = lambda a, b: a // b if b and a % b == 0 else 0


def problem():
    """Three or four numbers, and what random steps make of them."""
    while True:
        numbers = [random.randint(1, 9) for _ in range(random.randint(3, 4))]
        left = list(numbers)
        while len(left) > 1:
            random.shuffle(left)
            left.append(random.choice(list(OPERATIONS.values()))(left.pop(), left.pop()))
        if 0 < left[0] < 100:
            return numbers, left[0]


def solves(response, numbers, target):
    """Whether the last attempt uses all numbers rightly and says that it has found the target."""
    if not response.endswith("!"):
        return False
    left = list(numbers)
    for step in response[:-1].split(";")[-1].split(","):
        formula, _, result = step.partition("=")
        sign = next((sign for sign in OPERATIONS if sign in formula), None)
        try:
            a, b = (int(number) for number in formula.split(sign))
            left.remove(a), left.remove(b)
            left.append(int(result))
        except ValueError:
            return False
        if OPERATIONS[sign](a, b) != left[-1] or left[-1] < 1:
            return False
    return left == [target]


def main():
    random.seed(1)
    model = RestClient().get_server_capabilities().result().supported_models[0].model_name
    service = ServiceClient()
    client = service.create_lora_training_client(base_model=model, rank=16, seed=1).result()
    tokenizer = client.get_tokenizer()
    for step in range(STEPS):
        sampler = client.save_weights_and_get_sampling_client().result()
        problems = [problem() for _ in range(PROMPTS)]
        prompts = [
            tokenizer.encode(" ".join(map(str, numbers)) + f">{target}:")
            for numbers, target in problems
        ]
        sampled = [
            sampler.sample(ModelInput.from_ints(prompt), RESPONSES, SamplingParams(max_tokens=96))
            for prompt in prompts
        ]
        data, solved = [], []
        for (numbers, target), prompt, future in zip(problems, prompts, sampled):
            responses = future.result().sequences
            texts = [tokenizer.decode(r.tokens, skip_special_tokens=True) for r in responses]
            rewards = [float(solves(text, numbers, target)) for text in texts]
            mean = sum(rewards) / len(rewards)
            solved.append(mean)
            for response, reward in zip(responses, rewards):
                if reward == mean:
                    continue  # nothing to learn where all are equal
                tokens, before = prompt + response.tokens, [0.0] * (len(prompt) - 1)
                advantages = [(reward - mean) / (PROMPTS * RESPONSES)] * len(response.tokens)
                data.append(Datum(
                    model_input=ModelInput.from_ints(tokens[:-1]),
                    loss_fn_inputs={
                        "target_tokens": tokens[1:],
                        "logprobs": before + response.logprobs,
                        "advantages": before + advantages,
                    },
                ))
        passed = client.forward_backward(data, "importance_sampling")
        stepped = client.optim_step(AdamParams(learning_rate=2e-3))
        passed.result(), stepped.result()
        print(f"step {step}: {sum(solved) / len(solved):.4f} solved", flush=True)
    print(client.save_weights_for_sampler("solver").result().path)


if __name__ == "__main__":
    main()
