"""Requests of every API and version that is served, filled with the values on which handlers stumble."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from random import Random
from types import NoneType
from typing import Any, get_args, get_origin

from kio.index import load_request_schema

from system_under_test.protocol import batch
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.batch import Record
from system_under_test.protocol.messages import encode_request

TOPIC = "fuzzed"
_STRINGS = (
    TOPIC,
    TOPIC,
    TOPIC,
    "other",
    "",
    "..",
    "a b",
    "\0",
    "é" * 40,
    "x" * 300,
    "1",
    "-1",
    "retention.ms",
    "broker",
)
_NUMBERS = (0, 0, 0, 1, 1, 2, 3, -1, -1, -2, -3, 7, 100)
_LIMITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_UUIDS = (None, uuid.UUID(int=1), uuid.UUID(int=2**128 - 1))


def topic_batch() -> bytes:
    return batch.encode([Record(0, 1_700_000_000_000, b"k", b"v", ())], timestamp_ms=1_700_000_000_000)


def request(api: ApiKey, version: int, random: Random, *, number: int = 7) -> bytes:
    """One that can be read, with its size."""
    body = _instance(load_request_schema(api, version), random)
    return b"".join(bytes(each) for each in encode_request(api, version, number, "fuzz", body))


def _instance(schema: Any, random: Random) -> Any:
    return schema(**{each.name: _value(each, random) for each in dataclasses.fields(schema)})


def _value(field: dataclasses.Field[Any], random: Random) -> Any:
    kind: Any = field.type
    if NoneType in get_args(kind):
        if random.random() < 0.2:
            return None
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    kafka_type = field.metadata.get("kafka_type")
    if get_origin(kind) is tuple:
        element = get_args(kind)[0]
        return tuple(_one(element, kafka_type, random) for _ in range(random.choice((0, 1, 1, 1, 2, 3))))
    return _one(kind, kafka_type, random)


def _one(kind: Any, kafka_type: str | None, random: Random) -> Any:
    if dataclasses.is_dataclass(kind):
        return _instance(kind, random)
    match kafka_type:
        case "string":
            return random.choice(_STRINGS)
        case "bool":
            return random.random() < 0.5
        case "uuid":
            return random.choice(_UUIDS)
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=random.choice((0, 1, 30, -1, 2**31 - 1)))
        case "float64":
            return random.choice((0.0, -1.0, 1e300, float("nan"), float("inf")))
        case "bytes" | "records":
            return random.choice((topic_batch(), topic_batch(), b"", b"garbage" * 12, topic_batch()[:-1], bytes(80)))
        case "uint16":
            return random.choice((0, 1, 2**16 - 1))
        case "int8" | "int16" | "int32" | "int64":
            limit = 1 << _LIMITS[kafka_type]
            return random.choice((limit - 1, -limit)) if random.random() < 0.12 else random.choice(_NUMBERS)
    raise AssertionError(kafka_type)
