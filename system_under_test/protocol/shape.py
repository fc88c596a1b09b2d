"""Walks over the bytes of a message before kio reads it: every length and count must fit into what is there.

kio's native reader makes room for as many elements as an array says to have before it looks for the first. A frame
of thirty bytes that claims 2,147,483,647 topics asks for 16 GiB at once, and where these are refused the whole process
ends. So nothing reaches it whose counts could not be true, nor a null where the schema has none. A walk makes no objects and costs a few microseconds.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin

from system_under_test.protocol.errors import MalformedRequest

Walk = Callable[[bytes, int], int]
"""From the position at which something begins to the one behind it. Beyond the end: that is for the caller to see."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_SIZES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_LONGEST_VARINT = 5


_MOST_UNKNOWN_TAGS = 100
"""In one request. Each costs a walk and a copy."""


class _UnknownTag(Exception):
    """A tagged field that the schema lacks; ``count_at`` is the number of the fields around it."""

    def __init__(self, count_at: int, start: int, end: int) -> None:
        super().__init__()
        self.count_at, self.start, self.end = count_at, start, end


def checked_request(frame: bytes, header: Walk, body: Walk) -> bytes:
    """The frame, without the tagged fields of newer clients: they are to be ignored (KIP-482), and kio stumbles over them.

    Raises MalformedRequest. Bytes behind the body are none of its business, as in Kafka.
    """
    for _ in range(_MOST_UNKNOWN_TAGS):
        try:
            end = body(frame, header(frame, 0))
        except (IndexError, struct.error):
            end = len(frame) + 1
        except _UnknownTag as unknown:
            frame = _without(frame, unknown)
            continue
        if end > len(frame):
            raise MalformedRequest(f"a request that goes on behind its {len(frame)} bytes")
        return frame
    raise MalformedRequest(f"more than {_MOST_UNKNOWN_TAGS} unknown tagged fields")


def _without(frame: bytes, unknown: _UnknownTag) -> bytes:
    count, fields_at = _uvarint(frame, unknown.count_at)
    if count > 0x7F:
        raise MalformedRequest(f"{count} tagged fields")
    return frame[: unknown.count_at] + bytes((count - 1,)) + frame[fields_at : unknown.start] + frame[unknown.end :]


@cache
def walker(schema: Any) -> Walk:
    """Of one of kio's classes."""
    flexible = bool(schema.__flexible__)
    steps: list[Walk] = []
    tags: dict[int, Walk] = {}
    for field in dataclasses.fields(schema):
        # KIP-482 left the client id as it was, so that any broker can read it.
        step = _value(field, flexible and field.name != "client_id")
        if "tag" in field.metadata:
            tags[field.metadata["tag"]] = step
        else:
            steps.append(step)
    if flexible:
        steps.append(_Tags(tags))
    joined = _joined(steps)
    return joined[0] if len(joined) == 1 else _Sequence(tuple(joined))


def _value(field: dataclasses.Field[Any], flexible: bool) -> Walk:
    kind, optional = _without_none(field.type)
    kafka_type = field.metadata.get("kafka_type")
    if get_origin(kind) is tuple:
        element, _ = _without_none(get_args(kind)[0])
        return _Array(flexible, optional, _one(element, kafka_type, flexible))
    one = _one(kind, kafka_type, flexible)
    return _NullableStruct(one) if optional and dataclasses.is_dataclass(kind) else one


def _one(kind: Any, kafka_type: str | None, flexible: bool) -> Walk:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return walker(kind)
    assert kafka_type is not None
    if kafka_type in _SIZES:
        return _Fixed(_SIZES[kafka_type])
    assert kafka_type in ("string", "bytes", "records"), kafka_type
    if flexible:
        return _compact_bytes
    return _short_bytes if kafka_type == "string" else _long_bytes


def _without_none(kind: Any) -> tuple[Any, bool]:
    arguments = get_args(kind)
    if NoneType not in arguments:
        return kind, False
    (rest,) = (each for each in arguments if each is not NoneType)
    return rest, True


@dataclasses.dataclass(frozen=True, slots=True)
class _Fixed:
    size: int

    def __call__(self, data: bytes, position: int) -> int:  # noqa: ARG002
        return position + self.size


def _joined(steps: list[Walk]) -> list[Walk]:
    """Neighbours of fixed size are one step."""
    joined: list[Walk] = []
    for step in steps:
        if joined and isinstance(step, _Fixed) and isinstance(joined[-1], _Fixed):
            joined[-1] = _Fixed(joined[-1].size + step.size)
        else:
            joined.append(step)
    return joined


@dataclasses.dataclass(frozen=True, slots=True)
class _Sequence:
    steps: tuple[Walk, ...]

    def __call__(self, data: bytes, position: int) -> int:
        for step in self.steps:
            position = step(data, position)
        return position


@dataclasses.dataclass(frozen=True, slots=True)
class _Array:
    flexible: bool
    nullable: bool
    element: Walk

    def __call__(self, data: bytes, position: int) -> int:
        if self.flexible:
            count, position = _uvarint(data, position)
            count -= 1
        else:
            (count,) = _INT32.unpack_from(data, position)
            position += 4
        # No element is smaller than a byte.
        if count > len(data) - position:
            raise MalformedRequest(f"an array of {count} elements in {max(0, len(data) - position)} bytes")
        # kio takes a null for any array, and handlers would stumble over it. Kafka refuses it here, too.
        if count < 0 and not self.nullable:
            raise MalformedRequest("null for an array that is never null")
        element = self.element
        if isinstance(element, _Fixed):
            return position + max(count, 0) * element.size
        for _ in range(count):
            position = element(data, position)
        return position


@dataclasses.dataclass(frozen=True, slots=True)
class _NullableStruct:
    """KIP-893: a byte tells whether it is there."""

    struct: Walk

    def __call__(self, data: bytes, position: int) -> int:
        return position + 1 if data[position] > 127 else self.struct(data, position + 1)


@dataclasses.dataclass(frozen=True, slots=True)
class _Tags:
    known: dict[int, Walk]

    def __call__(self, data: bytes, position: int) -> int:
        if not data[position]:
            return position + 1
        count_at = position
        count, position = _uvarint(data, position)
        for _ in range(count):
            start = position
            tag, position = _uvarint(data, position)
            size, position = _uvarint(data, position)
            if size > len(data) - position:
                raise MalformedRequest(f"a tagged field of {size} bytes, {max(0, len(data) - position)} are there")
            if tag not in self.known:
                raise _UnknownTag(count_at, start, position + size)
            # kio reads a field that it knows by its own lengths, so these are looked at, too.
            if self.known[tag](data, position) != position + size:
                raise MalformedRequest(f"a field of tag {tag} that is not as long as it says")
            position += size
        return position


def _uvarint(data: bytes, position: int) -> tuple[int, int]:
    value = data[position]
    if value < 0x80:
        return value, position + 1
    value &= 0x7F
    for number in range(1, _LONGEST_VARINT):
        byte = data[position + number]
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value, position + number + 1
    raise MalformedRequest("a number of more than 32 bits")


def _compact_bytes(data: bytes, position: int) -> int:
    size, position = _uvarint(data, position)
    return position + max(0, size - 1)


def _short_bytes(data: bytes, position: int) -> int:
    (size,) = _INT16.unpack_from(data, position)
    return position + 2 + max(0, int(size))


def _long_bytes(data: bytes, position: int) -> int:
    (size,) = _INT32.unpack_from(data, position)
    return position + 4 + max(0, int(size))
