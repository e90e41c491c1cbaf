"""Trains all weights through Tinker's client, and asserts what the server promises of them."""

import json
import sys

import tinker
import torch
from tinker import types
from transformers import AutoModelForCausalLM

SERVER_OUT = sys.argv[1]
service = tinker.ServiceClient()
rest = tinker.RestClient()
base = rest.get_server_capabilities().result().supported_models[0].model_name
client = service.create_lora_training_client(base_model=base, rank=8, seed=1).result()
assert client.get_info().is_lora is False

TOKENS = [5, 9, 12, 7, 20, 21, 8, 9]
datum = types.Datum(
    model_input=types.ModelInput.from_ints(TOKENS[:-1]),
    loss_fn_inputs={"target_tokens": TOKENS[1:], "weights": [1.0] * (len(TOKENS) - 1)},
)
adam = types.AdamParams(learning_rate=1e-3)


def step(of):
    passed = of.forward_backward([datum], "cross_entropy")
    stepped = of.optim_step(adam)
    stepped.result()
    return passed.result().metrics["loss:sum"]


losses = [step(client) for _ in range(6)]
assert losses[-1] < 0.8 * losses[0], losses


def custom(_, logprobs):
    loss = -logprobs[0].sum()
    return loss, {"custom": loss.item()}


before = client.forward([datum], "cross_entropy").result().metrics["loss:sum"]
metrics = client.forward_backward_custom([datum], custom).result().metrics
assert abs(metrics["custom"] - before) < 1e-4, (metrics, before)
client.optim_step(adam).result()

# The log-probs of a sampler, of its weights under a name, and of training are the same numbers.
prompt = types.ModelInput.from_ints(TOKENS)
trained = client.forward([datum], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].tolist()
snapshot = client.save_weights_and_get_sampling_client().result()
path = client.save_weights_for_sampler("final").result().path
named = service.create_sampling_client(model_path=path).result()
params = types.SamplingParams(max_tokens=12, seed=3)
answers = [of.sample(prompt, 1, params).result().sequences[0] for of in (snapshot, named)]
assert answers[0].tokens == answers[1].tokens and answers[0].logprobs == answers[1].logprobs
for of in (snapshot, named):
    assert of.compute_logprobs(prompt).result()[1:] == trained

# Training goes on from a saved state as it would have gone on.
state = client.save_state("state").result().path
other = service.create_training_client_from_state_with_optimizer(state).result()
assert [step(client) for _ in range(3)] == [step(other) for _ in range(3)]
client.load_state_with_optimizer(state).result()
assert client.forward([datum], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].tolist() \
    == trained

# transformers loads the saved model.
model = AutoModelForCausalLM.from_pretrained(f"{SERVER_OUT}/{path.removeprefix('tinker://')}")
with torch.no_grad():
    logits = model(torch.tensor([TOKENS])).logits[0, :-1].float()
theirs = logits.log_softmax(-1).gather(-1, torch.tensor(TOKENS[1:])[:, None])[:, 0].tolist()
assert all(abs(a - b) < 1e-3 for a, b in zip(theirs, trained)), (theirs, trained)

# Lists, and deletion.
run = state.removeprefix("tinker://").split("/")[0]
assert rest.get_training_run(run).result().is_lora is False
assert rest.get_weights_info_by_tinker_path(path).result().is_lora is False
found = rest.list_checkpoints(run).result().checkpoints
assert {of.tinker_path for of in found} == {path, state} and all(of.size_bytes for of in found)
assert run in [of.training_run_id for of in rest.list_training_runs().result().training_runs]
rest.delete_checkpoint_from_tinker_path(state).result()
left = rest.list_user_checkpoints().result()
assert [of.tinker_path for of in left.checkpoints] == [path] and left.cursor.total_count == 1
greedy = types.SamplingParams(max_tokens=12, temperature=0)
answer = named.sample(prompt, 1, greedy).result().sequences[0]
service.close("success").result()
print(json.dumps({"path": path, "prompt": TOKENS, "logprobs": answer.logprobs}))
