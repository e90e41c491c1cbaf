import json
import os
import struct

INWARD, OUTWARD = 3, 4


def send(kind, body):
    data = struct.pack("<cI", kind, len(body)) + body
    while data:
        data = data[os.write(OUTWARD, data):]


def say(kind, message):
    send(kind, json.dumps(message).encode())


def hear():
    parts = b""
    while len(parts) < 5 or len(parts) < 5 + struct.unpack("<I", parts[1:5])[0]:
        parts += os.read(INWARD, 1 if len(parts) < 5 else 5 + struct.unpack("<I", parts[1:5])[0] - len(parts)) or os._exit(1)
    return parts[:1], json.loads(parts[5:])


def take_over(names, reply):
    """Speaks for this process from here on: it has defined `names`, and answers with what `reply` makes of a question."""
    say(b"l", {"names": names})
    while True:
        send(b"a", reply(hear()[1]))
