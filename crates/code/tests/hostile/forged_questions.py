# Tries: to have the test's process tell what it expects, by asking it what a program has no reason to ask.
# Variants: 34
# Assertions about objects: wrong_answer or runtime_error or time_limit
from protocol import *


def question(op, *operands):
    return {"op": op, "v": ["r", 0], "o": [["t", list(operands)]]}


CASES = [
    question("stdin", "__getattribute__", "__class__"), question("stdin", "__getattribute__", "buffer"),
    question("stdin", "__getattribute__", "__init__"), question("stdin", "__class__", "x"), question("stdin", "__reduce_ex__", 2),
    question("stdin", "write", "x"), question("stdin", "read", -1), question("stdin", "input", ""), question("stdin"),
    question("stdin", ["H", 0], 1),
    question("global", "FOUND"), question("global", "__builtins__"), question("set_global", "answer", True), question("share", []),
    question("invoke", "eval", ["r", 0]), question("eval", "FOUND"), question("call", ["H", 0], ["r", 0], {}), question("no such"),
    question("getattr", ["H", 0], "__dict__"), question("getattr", ["H", 1], "__init__"), question("getattr", ["H", 0], "_found"),
    question("getattr", ["H", 0], "holds"), question("getattr", ["g", "builtins", "object"], "__subclasses__"),
    question("setattr", ["H", 0], "holds", True), question("setattr", ["H", 1], "holds", True), question("delattr", ["H", 1], "holds"),
    question("str", ["H", 0]), question("format", ["H", 0], "{0.__class__}"), question("eq", ["H", 0], ["H", 0]),
    question("deepcopy", ["H", 0]), question("await", ["H", 0]), question("batch", ["H", 0], 1 << 40), question("next", ["H", 0]),
    question("contains", ["H", 0], 1),
]
assert len(CASES) == 34
say(b"l", {"names": {"answer": "value"}})
known = ""
while True:
    kind, asked = hear()
    if kind == b"a":
        known += json.dumps(asked)
    elif asked["op"] in ("call", "invoke") and not known:
        say(b"q", CASES[@VARIANT@])
    elif asked["op"] == "global":
        say(b"a", {"v": ["fn", 0, "answer", None], "o": []})
    elif " is " in known:  # the answer, it seems
        at = known.index(" is ")
        say(b"a", {"v": known[at - 1:at + 13], "o": []})
        known = ""
    else:
        say(b"a", {"v": True, "o": []})
        known = ""
