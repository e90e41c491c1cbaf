# Tries: to keep the test's process busy with questions.
# Calls: wrong_answer or runtime_error or time_limit
# Assertions: runtime_error: it says what is no answer
from protocol import *

say(b"l", {"names": {"answer": "function"}})
hear()
while True:
    say(b"q", {"op": "no such", "v": ["r", 0], "o": [["t", ["x" * 1000]]]})
    hear()
