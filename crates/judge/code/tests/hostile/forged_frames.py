# Tries: frames that are too long, cut off, or without end.
# Variants: 8
# Calls: runtime_error or output_limit or time_limit
# Assertions: runtime_error or output_limit or time_limit
from protocol import *


def stall():
    while True:
        hear()


def flood(data):
    while True:
        os.write(OUTWARD, data)


def behave(variant):
    say(b"l", {"names": {"answer": "function"}})
    hear()
    [
        lambda: os.write(OUTWARD, b"a\xff\xff\xff\xff"),
        lambda: os.write(OUTWARD, b"a\xff\xff\xff\x0f{}"),
        lambda: os.write(OUTWARD, b"a"),
        lambda: os.write(OUTWARD, b"a\x09\0\0\0{"),
        lambda: os.write(OUTWARD, b"a\x09\0\0\0{") and os._exit(0),
        lambda: flood(b"q\x02\0\0\0{}" * 1000),
        lambda: flood(b"\0" * 65536),
        lambda: os.write(OUTWARD, b"a\xff\xff\x0f\0") and flood(b" " * 65536),
    ][variant]()
    stall()


behave(@VARIANT@)
