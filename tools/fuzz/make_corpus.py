"""Writes the corpora: one small input of each kind that a reader knows, and a few wrong ones. `python3 make_corpus.py`

Only the standard library is used. Recipes, scripts and the fixtures of other tests, which say how they are made, are links.
"""

import json
import os
import struct
from pathlib import Path

HERE = Path(__file__).parent
CRATES = HERE.parent.parent / "crates"


def put(target, name, data):
    path = HERE / "corpus" / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def link(target, name, file):
    """Takes a file of the repository as it is, so that nobody has to copy a change of it."""
    path = HERE / "corpus" / target / name
    path.unlink(missing_ok=True)
    path.symlink_to(os.path.relpath(file, path.parent))


def tensors(header, data):
    header = header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))
    return struct.pack("<Q", len(header)) + header.encode() + data


def entry(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


put("safetensors", "one", tensors({"a": entry("F32", [2, 2], 0, 16)}, struct.pack("<4f", 1, -2, 0.5, 3)))
put("safetensors", "three-types", tensors(
    {"__metadata__": {"format": "pt"}, "a.weight": entry("F16", [3], 0, 6), "b.weight": entry("BF16", [1, 2], 6, 10),
     "c": entry("F32", [0], 10, 10)}, bytes(10)))
put("safetensors", "scalar", tensors({"a": entry("F32", [], 0, 4)}, bytes(4)))
put("safetensors", "not-a-number", tensors({"a": entry("F32", [1], 0, 4)}, b"\0\0\xc0\x7f"))
put("safetensors", "twice", tensors('{"a":%s,"a":%s}' % ((json.dumps(entry("F32", [1], 0, 4)),) * 2), bytes(4)))
put("safetensors", "short", struct.pack("<Q", 1 << 40) + b"{}")

base = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 100, "rms_norm_eps": 1e-6, "max_position_embeddings": 512,
        "hidden_act": "silu", "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": [2, 3]}
put("config", "llama", json.dumps(base | {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "rope_theta": 500000.0, "tie_word_embeddings": False,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 128}}))
put("config", "qwen2", json.dumps(base | {
    "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 1,
    "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}}))
put("config", "qwen3", json.dumps(base | {
    "model_type": "qwen3", "head_dim": 32, "attention_bias": False, "layer_types": ["full_attention"] * 2,
    "dtype": "float32", "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}))
put("config", "mistral", json.dumps(base | {"model_type": "mistral", "sliding_window": None}))
hybrid = base | {
    "model_type": "qwen3_5_text", "layer_types": ["linear_attention", "full_attention"], "head_dim": 32,
    "attn_output_gate": True, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
    "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "mtp_num_hidden_layers": 1,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.25}}
put("config", "qwen3.5", json.dumps(hybrid))
put("config", "qwen3.5-moe", json.dumps({
    "model_type": "qwen3_5_moe", "architectures": ["Qwen3_5MoeForConditionalGeneration"], "image_token_id": 7,
    "text_config": hybrid | {
        "model_type": "qwen3_5_moe_text", "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48,
        "num_experts": 8, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.001}}))
put("config", "generation", json.dumps({"eos_token_id": 2, "pad_token_id": 0, "temperature": 0.6, "top_p": 0.95, "top_k": 20,
                                        "do_sample": True}))
put("config", "special-tokens", json.dumps({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "unk_token": None}))
put("config", "adapter", json.dumps({"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "m", "r": 4,
    "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "exclude_modules": ".*\\.1\\..*", "use_rslora": True, "bias": "none",
    "rank_pattern": {"layers\\.0\\..*": 2}, "alpha_pattern": {"^q_proj": 3.5}, "layers_to_transform": [0], "layers_pattern": "layers",
    "init_lora_weights": "gaussian", "modules_to_save": None}))
put("config", "adapter-regex", json.dumps({"peft_type": "LORA", "r": 1, "target_modules": ".*\\.(self_attn|mlp)\\.[a-z]*_proj"}))
put("config", "empty", "{}")

for name in ["character", "byte-bpe", "byte-fallback"]:
    file = json.loads((CRATES / "compute/model/tests/fixtures/tokenizer" / name / "tokenizer.json").read_text())
    put("tokenizer", name, json.dumps(file, ensure_ascii=False, separators=(",", ":")))
vocab = {"<unk>": 0, "a": 1, "b": 2, "##b": 3, "▁": 4, "<s>": 5}
special = {"id": 5, "content": "<s>", "special": True, "normalized": False, "single_word": False, "lstrip": False,
           "rstrip": False}
stages = [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "Strip", "strip_left": True,
          "strip_right": False}, {"type": "Prepend", "prepend": "▁"},
          {"type": "Replace", "pattern": {"Regex": " +"}, "content": "▁"}]
splits = [{"type": "Whitespace"}, {"type": "Digits", "individual_digits": True}, {"type": "Punctuation",
          "behavior": "Isolated"}, {"type": "Split", "pattern": {"Regex": "\\p{L}"}, "behavior": "MergedWithNext",
                                    "invert": False}, {"type": "FixedLength", "length": 3}]
template = {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}}
decoders = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
models = {
    "word-piece": {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##",
                   "max_input_chars_per_word": 100, "vocab": vocab},
    "word-level": {"type": "WordLevel", "unk_token": "<unk>", "vocab": vocab},
    "unigram": {"type": "Unigram", "unk_id": 0, "byte_fallback": False, "vocab": [[token, -1.5] for token in vocab]},
}
for name, model in models.items():
    put("tokenizer", name, json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [special],
        "normalizer": {"type": "Sequence", "normalizers": stages},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splits}, "post_processor": template,
        "decoder": {"type": "Sequence", "decoders": decoders}, "model": model,
    }, ensure_ascii=False, separators=(",", ":")) + "\0a B<s> é 12")

put("template", "chatml", "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m['content'] | trim }}<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
put("template", "namespace", "{% set ns = namespace(last=-1) %}{% for m in messages[::-1] %}{% if m.role == 'user' and "
    "ns.last < 0 %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{{ ns.last }}\0"
    '[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[{"name":"f","arguments":{"x":1}}]}]')
put("template", "tools", "{% macro call(c) %}{{ c.name }}({{ c.arguments | tojson(indent=2) }}){% endmacro %}{% for m in messages "
    "%}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ call(c) }}{% endfor %}{% elif m.content is string %}{{ "
    "m.content.split('</think>')[-1].lstrip('\\n') }}{% endif %}{% endfor %}")
put("template", "refusal", "{% if messages[0].role != 'system' %}{{ raise_exception('no ' ~ 'system') }}{% endif %}")
put("template", "filters", "{{ [3, 1, 2] | sort | join(', ') }} {{ 'a-b' | replace('-', ' ') | upper }} {{ range(3) | list | tojson }}"
    "{{ messages | map(attribute='content') | list }} {{ '%s' | format('x') }} {{ [1, 2, 3] | batch(2) | list }}")
put("template", "blocks", "{% block a %}{% raw %}{{ }}{% endraw %}{% endblock %}{# c #}{% generation %}x{% endgeneration %}")
put("template", "broken", "{% for %}{{ (1 }}")

rows = [
    {"problem": "1 + 1?", "answer": "2"},
    {"prompt": [{"role": "user", "content": "2 x 3 = 6?"}], "reward_model": {"ground_truth": "6", "style": "rule"},
     "data_source": "math", "extra_info": {"index": 0}},
    {"question": "A sum", "answer": "It is\n#### 42"},
    {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], "solution": "so \\boxed{7}"},
]
put("jsonl", "kinds", "".join(json.dumps(row) + "\n" for row in rows))
for number, row in enumerate(rows):
    put("jsonl", f"row-{number}", json.dumps(row) + "\n")
put("json", "array", json.dumps(rows, indent=1))
put("json", "data", json.dumps({"version": 1, "data": rows}))
put("json", "columns", json.dumps({"prompt": ["1+1?", "1+2?"], "answer": ["2", 3]}))
put("json", "columns-of-pandas", json.dumps({"prompt": {"0": "1+1?", "1": "1+2?"}, "answer": {"0": "2", "1": None}}))
put("json", "lines", "".join(json.dumps(row) + "\n" for row in rows))
put("jsonl", "odd", "\ufeff" + json.dumps(rows[0]) + "\r\n\n" + json.dumps({"problem": None, "answer": [1, 2.5, True]}))
put("separated", "comma", '\ufeffquestion,answer\r\n"1, ""2""\n3?",7\r\nx,\r\n')
put("separated", "tab", "problem\tsolution\tlevel\n1+1?\tso \\boxed{2}\t1\nA sum\t#### 42\t2\n")
put("separated", "json", 'prompt,reward_model\n"[{""role"": ""user"", ""content"": ""2x3?""}]","{""ground_truth"": ""6""}"\n')
put("separated", "uneven", 'a,b,a\n1\n1,2,3\n"open')

fixtures = CRATES / "judge/data/tests/fixtures"
for path in [fixtures / "verl.parquet", fixtures / "benchmarks/dapo.parquet", fixtures / "benchmarks/eurus.parquet"]:
    link("parquet", path.stem, path)

for name in ["quickstart", "countdown-clip-cov", "qwen2.5-7b-grpo", "qwen2.5-0.5b-own-data"]:
    link("recipe", name, CRATES.parent / "recipes" / f"{name}.toml")
put("recipe", "verifiers", '[model]\npath = "m"\n[data]\nfiles = ["a.jsonl"]\n[reward]\nverifier = [{ kind = "math", weight = 1 }]\n')
put("recipe", "names-of-others", "lora_r = 8\nnum_generations = 8\n[trainer]\nnnodes = 1\n")

for number, (ground_truth, response) in enumerate([
    ("42", "so \\boxed{42}."), ("\\frac{1}{2}", "The answer is 0.5"), ("(-\\infty, 3] \\cup \\{5\\}", "$x \\le 3$ or $x = 5$"),
    ("\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "\\boxed{\\begin{bmatrix}1&2\\\\3&4\\end{bmatrix}}"),
    ("x^2 + 2x + 1", "\\boxed{(x+1)^{2}}"), ("\\text{(B)}", "Answer: B"), ("3\\sqrt[3]{2} \\pm 5!", "\\boxed{5!\\pm3\\cdot2^{1/3}}"),
    ("10:30", "at half past ten \\boxed{10{:}30\\text{ a.m.}}"), ("1,234.50", "\\boxed{\\$1234.5}"), ("50\\%", "\\boxed{\\frac12}"),
]):
    put("grader", f"pair-{number}", ground_truth + "\0" + response)

scripts = CRATES / "app/isentrope/src/recipe/foreign/convert/scripts"
for path in [*scripts.glob("*.py"), *scripts.glob("*.sh")]:
    link("script", path.name, path)
put("script", "trl-command", "trl grpo --model_name_or_path m --dataset_name d --learning_rate 1e-5 \\\n  --use_peft --lora_r 16\n")
put("script", "variables.sh", "M='a b'\nexport N=${M:-x}\nfor i in 1 2; do\npython3 -m verl.trainer.main_ppo "
    "actor_rollout_ref.model.path=\"$N\" data.train_files=[$M,b.parquet] +a.b=null\ndone\n")

logs = CRATES / "app/lab/tests/fixtures/logs"
for name in ["trl-grpo", "trl-sft"]:
    link("log_state", name, next((logs / name).glob("checkpoint-*/trainer_state.json")))
for number, path in enumerate(sorted(logs.glob("trl-grpo/runs/*/events*"))):
    link("event_file", f"trl-{number}", path)
link("event_file", "verl-tensorboard", next((logs / "verl-tensorboard").glob("events*")))
link("log_lines", "verl", logs / "verl.jsonl")
put("log_lines", "nan", '{"step": 1, "entropy": NaN}\n{"step": 2.0, "a": {"b": -Infinity}}\n{"step": 1, "entropy": 0.5}')
put("log_lines", "wandb", '{"_step": 0, "_runtime": 1.5, "train/global_step": 1, "train/reward": 0.5, "train/entropy": 1.25}\n')
put("log_lines", "ours", '{"step":0,"eval/a/entropy":1.5}\n{"step":1,"policy/entropy":1.25,"grad/norm":null}\n')
put("log_state", "list", '[{"loss": 0.5, "epoch": 1, "step": 1}, {"eval_loss": NaN, "epoch": 2, "step": 2}]')
put("log_table", "history", ',_step,_runtime,train/global_step,train/reward,table\n0,0,1.5,1.0,0.25,"{""a"": 1}"\n1,1,2.5,2.0,,\n')
response = {"step": 1, "sampled_step": 1, "position": 0, "origin": "a.jsonl:1", "sample": 0, "verdict": "correct", "reward": 1.0,
            "truncated": False, "temperature": 1.0, "prompt_text": "1+1=", "prompt_tokens": 2, "tokens": [5, 6, 7, 8],
            "pieces": ["2", ""], "logprobs": [-0.5, -1.25], "entropies": [0.5, 1.5], "logprobs_after": [-0.25, None]}
learnt = {"update": 1, "advantages": 0.5, "mean_advantage": 0.125, "mean_logprob": -0.75, "covariances": [0.09375, -0.1875],
          "selected": [1], "clipped": [0]}
put("tokens", "two", "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [response | learnt, response]))
put("tokens", "by-token", json.dumps(response | learnt | {"advantages": [0.5, None], "pieces": ["</script>", "\u202e\n"]}) + "\n")
put("tokens", "lengths", json.dumps(response | learnt | {"covariances": [1.0]}) + "\n")

# Lines behind a journal's heading, with checksums that the target repairs.
numbers = {"tokens": [3, 4], "logprobs": [3204448256, 3204448256], "entropies": [1048576000, 0]}
judged = {"text": "7 8", **numbers, "truncated": False, "reward": 1.0,
          "judgement": {"verdict": "correct", "extracted": None, "reason": "equal", "score": 1.0}}


def journal_line(prompt, sample, **content):
    entry = {"asked": {"prompt": prompt, "greedy": False, "sample": sample}, "of": 1, **content}
    return "00000000 " + json.dumps(entry, separators=(",", ":")) + "\n"


played = {"after": 0, "part": numbers, "text": "x", "reward": 0.3, "metrics": {"tries": 1.0}}
put("journal", "response", journal_line(0, 0, response=judged))
put("journal", "turns", journal_line(0, 1, turn=played) * 2 + journal_line(1, 0, turn=played | {"cut": True}))
put("journal", "both", journal_line(0, 0, turn=played, response=judged) + journal_line(0, 1))
put("journal", "masks", journal_line(0, 0, response=judged | {
    "kept": {"masks": [[3, 7], []], "log_masses": [3184315597, 0]}, "given": [[0, 1]], "given_text": [[0, 1]]}))
put("journal", "cut-off", journal_line(0, 0, response=judged)[:-9])
