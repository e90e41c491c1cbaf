# Tries: to answer before it is asked, many times.
# Calls: wrong_answer
# Assertions in every style: wrong_answer or runtime_error
from protocol import *

NAMES = {"answer": "function"}

say(b"l", {"names": NAMES})
for _ in range(100):
    send(b"a", b'{"v": true, "o": []}')
while True:
    hear()
