# Tries: to say in the test's stead that all is well.
# Variants: 5
# Calls: wrong_answer or runtime_error
# Assertions in every style: runtime_error: it says what is no answer
from protocol import *

say(b"l", {"names": {"answer": "function"}})
hear()
for kind, body in [(b"u", b"{}"), (b"z", b""), (b"p", b"[7, 7]"), (b"x", b""), (b"\0", b"")][@VARIANT@:]:
    send(kind, body)
while True:
    hear()
