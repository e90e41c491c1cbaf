# Tries: to say of its names what no honest process says.
# Variants: 14
# Calls: wrong_answer or runtime_error or output_limit or time_limit
# Assertions: wrong_answer or runtime_error or output_limit or time_limit
from protocol import *

CASES = [
    b'{"names": []}', b'{"names": null}', b'{"names": "answer"}', b'{"names": {"answer": 5}}', b'{"names": {"answer": {"a": []}}}',
    b'{"names": {"answer": "class", "check": "module", "": "value", "a b": "class", "\\u0000": "value"}}',
    b'{}', b'[]', b'null', b'', b'{"names": {"answer"', b'{"error": 5}', b'{"error": "", "names": {}}',
    b'{"error": "ValueError: ' + b"x" * 1_000_000 + b'"}',
]
send(b"l", CASES[@VARIANT@])
while True:
    hear()
    send(b"a", b'{"v": true, "o": []}')
