"""Frames: a kind of one byte, a length of four, and so many bytes. All that processes of a jail say to anybody is frames."""

import os
import struct

HEADER = struct.Struct("<cI")


def read_exactly(fd, length):
    """So many bytes, or what there is until the end."""
    parts = []
    while length:
        part = os.read(fd, min(length, 1 << 20))
        if not part:
            break
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def read_frame(fd):
    """The next frame as (kind, bytes), or None at the end."""
    header = read_exactly(fd, HEADER.size)
    if len(header) < HEADER.size:
        return None
    kind, length = HEADER.unpack(header)
    body = read_exactly(fd, length)
    return (kind, body) if len(body) == length else None


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]


def write_frame(fd, kind, body):
    if len(body) < 4096:
        write_all(fd, HEADER.pack(kind, len(body)) + body)
    else:
        write_all(fd, HEADER.pack(kind, len(body)))
        write_all(fd, body)
