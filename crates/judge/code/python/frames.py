"""Frames: a kind of one byte, a length of four, and so many bytes. All that processes of a jail say to anybody is frames."""

import os
import struct

HEADER = struct.Struct("<cI")


def read_exactly(fd, length):
    """So many bytes, in an array that can be wiped; None if the end comes before."""
    array = bytearray(length)
    left = memoryview(array)
    while left:
        count = os.readv(fd, [left])
        if not count:
            return None
        left = left[count:]
    return array


def read_frame(fd):
    """The next frame as (kind, bytes), or None at the end."""
    header = read_exactly(fd, HEADER.size)
    if header is None:
        return None
    kind, length = HEADER.unpack(header)
    body = read_exactly(fd, length)
    return None if body is None else (kind, body)


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]


def write_frame(fd, kind, *parts):
    """Writes a frame whose body is so many parts, at once if the other end takes it."""
    parts = [HEADER.pack(kind, sum(map(len, parts))), *parts]
    written = os.writev(fd, parts)
    for part in parts:
        write_all(fd, memoryview(part)[min(written, len(part)):])
        written -= min(written, len(part))
