# Tries: to have the test's process tell what it expects, by asking it what only a test may ask.
# Variants: 6
# Calls: runtime_error: it says what is no answer
# Assertions in every style: runtime_error: it says what is no answer
from protocol import *


def question(op, *operands):
    return {"op": op, "v": ["r", 0], "o": [["t", list(operands)]]}


CASES = [
    question("global", "FOUND"), question("global", "__builtins__"), question("call", "check", 0, [], {}),
    question("call", "eval", 0, ["FOUND"], {}), question("no such"), {"op": []},
]
say(b"l", {"names": {"answer": "function"}})
hear()
say(b"q", CASES[@VARIANT@])
while True:
    kind, asked = hear()
    if kind == b"a":
        known = json.dumps(asked)
        at = known.index(" is ")  # the answer, it seems
        say(b"a", {"v": known[at - 1:at + 13], "o": []})
    else:
        say(b"a", {"v": True, "o": []})
