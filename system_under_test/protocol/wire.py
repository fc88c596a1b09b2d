"""The few encodings that the hand-written writers need."""

from __future__ import annotations

import struct

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")
NO_TAGS = b"\0"


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def array_size(count: int, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else INT32.pack(count)


def null_array(flexible: bool) -> bytes:
    return b"\0" if flexible else b"\xff\xff\xff\xff"


def string(text: str, flexible: bool) -> bytes:
    encoded = text.encode()
    return (uvarint(len(encoded) + 1) if flexible else INT16.pack(len(encoded))) + encoded


def nullable_string(text: str | None, flexible: bool) -> bytes:
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    return string(text, flexible)


def tagged(fields: list[tuple[int, bytes]]) -> bytes:
    """Tagged fields, in the order of their tags."""
    if not fields:
        return NO_TAGS
    parts = [uvarint(len(fields))]
    for tag, content in fields:
        parts += (uvarint(tag), uvarint(len(content)), content)
    return b"".join(parts)
