"""The Produce response, versions 3 to 11, written by hand; byte for byte what kio writes, as a property test checks."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.fetch_response import LeaderIdAndEpoch, NodeEndpoint, encode_node_endpoints
from system_under_test.protocol.messages import RawResponse
from system_under_test.protocol.wire import INT32, NO_TAGS, array_size, nullable_string, string, tagged

_PARTITION_3 = struct.Struct(">ihqq")
_PARTITION_5 = struct.Struct(">ihqqq")
_LEADER = struct.Struct(">ii")


@dataclass(frozen=True, slots=True)
class RecordError:
    """One record of a refused batch, and what is wrong with it."""

    batch_index: int
    message: str | None


@dataclass(slots=True)
class PartitionResult:
    """Not frozen: one is made for each partition of each answer, and a frozen one takes four times as long to make."""

    index: int
    error: ErrorCode = ErrorCode.none
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[RecordError, ...] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch | None = None


class ProduceResponseData(NamedTuple):
    topics: list[tuple[str, list[PartitionResult]]]
    throttle_ms: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def encode_produce_response(version: int, data: ProduceResponseData) -> RawResponse:
    flexible = version >= 9
    out = bytearray(array_size(len(data.topics), flexible))
    for name, partitions in data.topics:
        out += string(name, flexible)
        out += array_size(len(partitions), flexible)
        for part in partitions:
            out += _partition(version, part)
        if flexible:
            out += NO_TAGS
    out += INT32.pack(data.throttle_ms)
    if flexible:
        endpoints = data.node_endpoints if version >= 10 else ()
        out += tagged([(0, encode_node_endpoints(endpoints))]) if endpoints else NO_TAGS
    return RawResponse([bytes(out)])


def _partition(version: int, part: PartitionResult) -> bytes:
    flexible = version >= 9
    fixed = (part.index, part.error, part.base_offset, part.log_append_time_ms)
    out = bytearray(_PARTITION_5.pack(*fixed, part.log_start_offset) if version >= 5 else _PARTITION_3.pack(*fixed))
    if version >= 8:
        out += array_size(len(part.record_errors), flexible)
        for each in part.record_errors:
            out += INT32.pack(each.batch_index) + nullable_string(each.message, flexible)
            if flexible:
                out += NO_TAGS
        out += nullable_string(part.error_message, flexible)
    if flexible:
        leader = part.current_leader if version >= 10 else None
        if leader is None:
            out += NO_TAGS
        else:
            out += tagged([(0, _LEADER.pack(leader.leader_id, leader.leader_epoch) + NO_TAGS)])
    return bytes(out)
