"""The Fetch response, versions 4 to 17, written by hand: the broker's hottest answer.

kio's writer is general and in Python; this one knows its message and passes record bytes through untouched, as
buffers of their own. It must agree with kio byte for byte, which a property test checks.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import NamedTuple

from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import RawResponse
from system_under_test.protocol.wire import (
    INT32,
    NO_TAGS,
    array_size,
    null_array,
    nullable_string,
    string,
    tagged,
    uvarint,
)
from system_under_test.world import Buffer

_SESSION = struct.Struct(">ihi")
_PARTITION_4 = struct.Struct(">ihqq")
_PARTITION_5 = struct.Struct(">ihqqq")
_EPOCH_END = struct.Struct(">iq")
_LEADER = struct.Struct(">ii")
_ABORTED = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class EpochEndOffset:
    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LeaderIdAndEpoch:
    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class NodeEndpoint:
    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(slots=True)
class PartitionData:
    """Not frozen: one is made for each partition of each answer, and a frozen one takes four times as long to make."""

    index: int
    error: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] | None = None
    """None for read_uncommitted."""
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    preferred_read_replica: int = -1
    records: Buffer | None = b""


class TopicData(NamedTuple):
    name: str
    """Used up to version 12."""
    topic_id: uuid.UUID
    """Used from version 13."""
    partitions: list[PartitionData]


class FetchResponseData(NamedTuple):
    topics: list[TopicData]
    throttle_ms: int = 0
    error: ErrorCode = ErrorCode.none
    session_id: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def encode_fetch_response(version: int, data: FetchResponseData) -> RawResponse:
    flexible = version >= 12
    head = bytearray()
    out: list[Buffer] = []
    if version >= 7:
        head += _SESSION.pack(data.throttle_ms, data.error, data.session_id)
    else:
        head += INT32.pack(data.throttle_ms)
    head += array_size(len(data.topics), flexible)
    for topic in data.topics:
        head += topic.topic_id.bytes if version >= 13 else string(topic.name, flexible)
        head += array_size(len(topic.partitions), flexible)
        for part in topic.partitions:
            head = _partition(version, part, head, out)
        if flexible:
            head += NO_TAGS
    if flexible:
        head += _top_tags(version, data)
    out.append(bytes(head))
    return RawResponse(out)


def _partition(version: int, part: PartitionData, head: bytearray, out: list[Buffer]) -> bytearray:
    """Add one partition; the buffer that the caller goes on with."""
    flexible = version >= 12
    fixed = (part.index, part.error, part.high_watermark, part.last_stable_offset)
    head += _PARTITION_5.pack(*fixed, part.log_start_offset) if version >= 5 else _PARTITION_4.pack(*fixed)
    if part.aborted is None:
        head += null_array(flexible)
    else:
        head += array_size(len(part.aborted), flexible)
        for each in part.aborted:
            head += _ABORTED.pack(each.producer_id, each.first_offset)
            if flexible:
                head += NO_TAGS
    if version >= 11:
        head += INT32.pack(part.preferred_read_replica)
    records = part.records
    if records is None:
        head += null_array(flexible)
    else:
        head += uvarint(len(records) + 1) if flexible else INT32.pack(len(records))
        if records:
            out += (bytes(head), records)
            head = bytearray()
    if flexible:
        head += _partition_tags(part)
    return head


def _partition_tags(part: PartitionData) -> bytes:
    if part.diverging_epoch is None and part.current_leader is None:
        return NO_TAGS
    fields: list[tuple[int, bytes]] = []
    if part.diverging_epoch is not None:
        end = part.diverging_epoch
        fields.append((0, _EPOCH_END.pack(end.epoch, end.end_offset) + NO_TAGS))
    if part.current_leader is not None:
        leader = part.current_leader
        fields.append((1, _LEADER.pack(leader.leader_id, leader.leader_epoch) + NO_TAGS))
    return tagged(fields)


def _top_tags(version: int, data: FetchResponseData) -> bytes:
    if version < 16 or not data.node_endpoints:
        return NO_TAGS
    return tagged([(0, encode_node_endpoints(data.node_endpoints))])


def encode_node_endpoints(endpoints: tuple[NodeEndpoint, ...]) -> bytes:
    parts = [array_size(len(endpoints), True)]
    for each in endpoints:
        parts += (INT32.pack(each.node_id), string(each.host, True), INT32.pack(each.port))
        parts += (nullable_string(each.rack, True), NO_TAGS)
    return b"".join(parts)
