"""Writes tokenizer.json beside this file: byte pairs of worked examples of the task, so that a piece of a program is a token.

    cargo run -p isentrope-data --example demonstrations -- programs 20000 > demonstrations.jsonl
    python3 assets/programs-base/tokenizer.py demonstrations.jsonl

Digits stand alone, and commas and the ends of lines are always at a token's edge, so that a prompt's tokens are the same with and
without a response behind it. Every byte has a token. It was made with tokenizers 0.23.3.
"""

import json
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

# The end of a text, 256 bytes, and the 255 commonest pieces: a response has nine tokens on average.
VOCABULARY = 512
PIECE = Regex(r"[0-9]|,?[^0-9,\n]+\n?|,|\n")

texts = [row["prompt"] + row["response"] for row in map(json.loads, Path(sys.argv[1]).read_text().splitlines())]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [pre_tokenizers.Split(PIECE, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
)
tokenizer.decoder = decoders.ByteLevel()
trainer = trainers.BpeTrainer(
    vocab_size=VOCABULARY,
    special_tokens=["<|endoftext|>"],
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False,
)
tokenizer.train_from_iterator(texts, trainer)
tokenizer.save(str(Path(__file__).parent / "tokenizer.json"))
