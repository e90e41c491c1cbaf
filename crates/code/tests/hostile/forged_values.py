# Tries: to answer with what no honest process answers.
# Variants: 74
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
    # Objects of the question, and of the test.
    value(["q", 0]), value(["q", 1]), value(["q", -1]), value(["q", "0"]), value(["H", 0]), value(["H", -1]), value(["H", 1 << 70]),
    value(["H", True]), value(["r", 0]), value(["r", -1], ["l", []]), value(["r", 0], ["t", [["r", 0]]]), value(["r", 0], ["fs", [["r", 0]]]),
    # Values that are none.
    value(["i", "0x" + "f" * 300_000]), value(["i", "z"]), value(["i"]), value(["f", "1e9999"]), value(["f", "nan"]), value(["f", []]),
    value(["fraction", "0x1", "0x0"]), value(["decimal", "sNaN"]), value(["decimal", "1e999999999"]), value(["decimal", "x"]),
    value(["date", "9999-99-99"]), value(["timedelta", 1 << 70, 0, 0]), value(["range", "0x0", "0x1", "0x0"]), value(["b", "zz"]),
    value(["r", 0], ["datetime", [0, 0, 0, 0, 0, 0, 0, 0], None]), value(["r", 0], ["deque", [1], -5]), value(["r", 0], ["s", [["r", 0]]]),
    value(["r", 0], ["d", [["r", 0]], [1]]), value(["r", 0], ["dd", [], [], ["g", "builtins", "eval"]]),
    # Classes and names of the other side.
    value(["g", "builtins", "eval"]), value(["g", "os", "system"]), value(["g", "builtins", "type"]), value(["m", "os"]), value(["m", "ctypes"]),
    value(["m", "no_such_module"]), value(["r", 0], ["record", "Point", ["__class__"], [1]]), value(["r", 0], ["record", "x", ["count"], [1]]),
    value(["r", 0], ["o", "TestCase", ["a"], [1]]), value(["r", 0], ["o", "str", ["__class__"], [1]]),
    value(["h", 5, ["c", 6, "str", [["E", [["builtins", "SystemExit"]]], ["E", [["builtins", "OSError"]]]]]]),
    value(["h", 5, ["c", 5, "A", [["c", 5, "A", []]]]]), value(["c", 7, "\0", []]), value(["c", 7, "AssertionError", [["g", "builtins", "str"]]]),
    # Errors.
    raised(5), raised(None), raised(["e", [["builtins", "SystemExit"]], [0]]), raised(["e", [["unittest.case", "SkipTest"]], ["skipped"]]),
    raised(["e", [["builtins", "StopIteration"]], []], line="x" * 900_000), raised(["h", 9, ["c", 10, "Odd", [["E", [["builtins", "KeyboardInterrupt"]]]]]]),
]
assert len(CASES) == 74
take_over({"answer": "value"}, lambda question: CASES[@VARIANT@] if question["op"] in ("call", "invoke") else value(["fn", 0, "answer", None]))
