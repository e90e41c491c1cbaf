"""Makes tokenizer.json: printable ASCII and the line feed, and pairs merged as they are frequent in worked examples (BPE).

    python make_tokenizer.py examples.jsonl

The examples are lines of {"prompt": ..., "response": ...} of the built-in task programs. Digits are in no pair, so that every
digit is a token of its own.
"""

import collections
import json
import sys

VOCABULARY = 192


def merges(texts, count):
    counts = collections.Counter(texts)
    tokens = {text: list(text) for text in counts}
    merged = []
    while len(merged) < count:
        pairs = collections.Counter()
        for text, its in tokens.items():
            for pair in zip(its, its[1:]):
                if not any(c.isdigit() for c in "".join(pair)):
                    pairs[pair] += counts[text]
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merged.append(best)
        for text, its in tokens.items():
            tokens[text] = apply(best, its)
    return merged


def apply(pair, tokens):
    result = []
    for token in tokens:
        if result and (result[-1], token) == pair:
            result[-1] += token
        else:
            result.append(token)
    return result


def written(text):
    return text.replace(" ", "\u0120").replace("\n", "\u010a")


characters = ["\n"] + [chr(code) for code in range(32, 127)]
rows = [json.loads(line) for line in open(sys.argv[1])]
pairs = merges([row[key] for row in rows for key in ("prompt", "response")], VOCABULARY - 1 - len(characters))
end = "<|endoftext|>"
vocabulary = [end] + characters + ["".join(pair) for pair in pairs]
assert len(set(vocabulary)) == VOCABULARY
flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
tokenizer = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [{"id": 0, "content": end, **flags}],
    "normalizer": None,
    "pre_tokenizer": byte_level,
    "post_processor": None,
    "decoder": {**byte_level, "use_regex": True},
    "model": {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {written(token): number for number, token in enumerate(vocabulary)},
        "merges": [[written(part) for part in pair] for pair in pairs],
    },
}
with open("tokenizer.json", "w") as file:
    json.dump(tokenizer, file, indent=1, ensure_ascii=False)
    file.write("\n")
