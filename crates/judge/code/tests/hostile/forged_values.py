# Tries: to answer with what no honest process answers.
# Variants: 88
# Calls: wrong_answer or runtime_error or output_limit or memory_limit or time_limit
# Assertions: wrong_answer or runtime_error or output_limit or memory_limit or time_limit
from protocol import *


def value(v, *objects):
    return json.dumps({"v": v, "o": list(objects)}).encode()


def raised(x, *objects, **more):
    return json.dumps({"x": x, "o": list(objects), **more}).encode()


CASES = [
    # What is no message.
    b"", b"x", b"\xff", b"null", b"5", b"[]", b"{}", b'{"v": 1}', b'{"o": []}', b'{"v": NaN, "o": []}', b'{"v": Infinity, "o": []}',
    b'{"v": 1e999, "o": []}', b'{"v": "\\ud800", "o": []}', b'{"v": 1, "v": "again", "o": [], "o": []}', b'{"v": {}, "o": []}',
    b'{"v": 1, "o": {}}', b'{"v": 1, "o": "objects"}', b'{"v": 1, "o": [5]}', b'{"v": 1, "o": [[]]}', b'{"v": 1, "o": [[[]]]}',
    b"[" * 100_000 + b"]" * 100_000, b'{"v": ' + b"[" * 90_000 + b"]" * 90_000 + b', "o": []}', b'{"v": ' + b"9" * 200_000 + b', "o": []}',
    # Objects of the question, and of other processes.
    value(["q", 0]), value(["q", 1]), value(["q", -1]), value(["q", "0"]), value(["x", 0]), value(["x"]), value(["x", {}]), value(["x", 1, 2]),
    value(["p", "answer", 0]), value(["p"]), value(["r", 0]), value(["r", -1], ["l", []]), value(["r", True], ["l", []]),
    value(["r", 0], ["t", [["r", 0]]]), value(["r", 0], ["fs", [["r", 0]]]), value(["r", 0], ["it", [["r", 0]]]), value(["r", 0], ["it", 5]),
    # Values that are none.
    value(["i", "0x" + "f" * 300_000]), value(["i", "z"]), value(["i"]), value(["f", "1e9999"]), value(["f", "nan"]), value(["f", []]),
    value(["fraction", "0x1", "0x0"]), value(["decimal", "sNaN"]), value(["decimal", "1e999999999"]), value(["decimal", "x"]),
    value(["date", "9999-99-99"]), value(["timedelta", 1 << 70, 0, 0]), value(["range", "0x0", "0x1", "0x0"]), value(["b", "zz"]),
    value(["datetime", "now"]), value(["time", 5]), value(["complex", "1", "j"]), value([[]]), value([{}]), value([]),
    value(["r", 0], ["deque", [["r", 0]]]), value(["r", 0], ["s", [["r", 0]]]), value(["r", 0], ["d", [["r", 0]], [1]]),
    value(["r", 0], ["d", [1]]), value(["r", 0], ["d", [1], 5]), value(["r", 0], ["l", {"a": 1}]), value(["r", 0], ["l", [], [], [], []]),
    # Classes, and objects of the question that change.
    value(["r", 0], ["o", ["a"], [1], "TestCase"]), value(["r", 0], ["o", ["__class__"], [1], "str"]), value(["r", 0], ["o", [], [], []]),
    *(json.dumps({"v": "x", "o": [], "m": m}).encode() for m in (
        5, [5], [[0, []]], [[0, ["l", []]]], [[0, ["t", []]]], [[-1, ["d", [], []]]], [[1, ["o", ["a"], [1], "Node"]]], [["0", ["l", []]]])),
    # Errors.
    raised(5), raised(None), raised(["e", [["builtins", "SystemExit"]], [0]]), raised(["e", [["unittest.case", "SkipTest"]], ["skipped"]]),
    raised(["e", [["builtins", "StopIteration"]], []], line="x" * 900_000), raised(["e", [["builtins", "eval"]], []]),
    raised(["e", [["os", "error"]], []]), raised(["e", 5, []]), raised(["e", [[[], []]], []]), raised(["e", [["builtins", "AssertionError"]], []]),
]
assert len(CASES) == 88, len(CASES)
take_over({"answer": "function"}, lambda question: CASES[@VARIANT@])
