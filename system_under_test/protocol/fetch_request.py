"""A follower's Fetch request, version 17, written by hand: a broker sends one to each leader for every answer it gets.

It must agree with kio byte for byte, which a property test checks.
"""

from __future__ import annotations

import struct
import uuid
from typing import NamedTuple

from system_under_test.protocol.messages import RawRequest
from system_under_test.protocol.wire import INT32, NO_TAGS, string, uvarint

FETCH_VERSION = 17

_FIXED = struct.Struct(">iiibii")
_PARTITION = struct.Struct(">iiqiqix")  # the last byte: no tags
_REPLICA_STATE = struct.Struct(">bbbiqx")
_READ_UNCOMMITTED = 0


class PartitionToFetch(NamedTuple):
    """In the order of the wire."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchRequestData(NamedTuple):
    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    session_id: int
    session_epoch: int
    topics: dict[uuid.UUID, list[PartitionToFetch]]
    forgotten: dict[uuid.UUID, list[int]]


def encode_fetch_request(data: FetchRequestData) -> RawRequest:
    out = bytearray(
        _FIXED.pack(
            data.max_wait_ms, data.min_bytes, data.max_bytes, _READ_UNCOMMITTED, data.session_id, data.session_epoch
        )
    )
    out += uvarint(len(data.topics) + 1)
    for topic_id, partitions in data.topics.items():
        out += topic_id.bytes
        out += uvarint(len(partitions) + 1)
        for each in partitions:
            out += _PARTITION.pack(*each)
        out += NO_TAGS
    out += uvarint(len(data.forgotten) + 1)
    for topic_id, indexes in data.forgotten.items():
        out += topic_id.bytes
        out += uvarint(len(indexes) + 1)
        for index in indexes:
            out += INT32.pack(index)
        out += NO_TAGS
    out += string("", True)  # no rack: followers read from leaders
    # One tagged field, number 1, of 13 bytes: who fetches.
    out += _REPLICA_STATE.pack(1, 1, 13, data.replica_id, data.replica_epoch)
    return RawRequest(bytes(out))
