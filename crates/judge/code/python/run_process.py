"""The process of a run, from the fork until its program begins."""

import json
import os
import random
import resource
import signal
import sys
import traceback

from frames import HEADER, read_frame, write_all

# Descriptors of a run that talks in messages.
INWARD, OUTWARD = 3, 4
# Stack that deep recursion may take in interpreters that recurse on it (before 3.11), in bytes.
STACK = 256 << 20


def become(main, order, inward, outward, errors, ready):
    """Makes the forked process what `order` says, and runs `main(content)` in it. Never returns."""
    status = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setpgid(0, 0)
        content = read_frame(0)
        if content is None:
            os._exit(status)
        content = json.loads(content[1])
        os.close(ready)
        null = os.open(os.devnull, os.O_RDWR)
        if order["mode"] == "script":
            wire(file_with(content.pop("input")), outward, errors)
        else:
            wire(null, null, errors, inward, outward)
        limit(order)
        random.seed(0)
        status = main(content)
    except BaseException as error:  # a mistake of this file, or memory for nothing at all
        try:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        except BaseException:
            pass
    finally:
        os._exit(status & 0xFF if type(status) is int else 1)


def wire(*descriptors):
    """Makes these the descriptors 0, 1, 2, ... and closes all others."""
    high = [os.dup2(fd, 200 + number) for number, fd in enumerate(descriptors)]
    for number, fd in enumerate(high):
        os.dup2(fd, number)
    os.closerange(len(high), 256)
    for number in range(3, len(high)):
        os.set_inheritable(number, False)


def file_with(text):
    """A file without a name that holds `text`, at its beginning: a script's input can be read in every way."""
    path = f"/tmp/.input-{os.getpid()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    write_all(fd, text.encode("utf-8", "surrogatepass"))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def limit(order):
    def lower(what, soft, hard):
        _, highest = resource.getrlimit(what)
        if highest != resource.RLIM_INFINITY:
            soft, hard = min(soft, highest), min(hard, highest)
        resource.setrlimit(what, (soft, hard))

    lower(resource.RLIMIT_CORE, 0, 0)
    # Programs that recurse deeply ask for an endless stack, and may: it is memory, which is limited.
    lower(resource.RLIMIT_STACK, STACK, resource.getrlimit(resource.RLIMIT_STACK)[1])
    lower(resource.RLIMIT_CPU, order["cpu_s"], order["cpu_s"] + 1)
    lower(resource.RLIMIT_AS, order["memory_bytes"], order["memory_bytes"])


def last_line(error):
    """The last line of an error's traceback."""
    try:
        lines = traceback.format_exception_only(type(error), error)
        text = lines[-1] if isinstance(error, SyntaxError) else lines[0]
        return text.strip().split("\n")[0][:500]
    except BaseException:
        return type(error).__name__


class Channel:
    """Messages from and to the other side of the pipes."""

    def send(self, kind, body):
        write_all(OUTWARD, HEADER.pack(kind, len(body)) + body)

    def receive(self):
        frame = read_frame(INWARD)
        if frame is None:
            os._exit(0)
        return frame


def standard_streams():
    """Fresh text streams on the descriptors 0, 1 and 2."""
    for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream = open(fd, mode, encoding="utf-8", errors="surrogateescape", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
