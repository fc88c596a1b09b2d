"""Walking over the batches of a file: by headers alone, or checking every byte.

A walk stops at the first batch that cannot be one, and says where and why. Bytes behind a bad batch are never
looked at: without its length nobody knows where the next one would begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from system_under_test.protocol.batch import HEADER_BYTES, BatchHeader, CorruptBatch, check_crc, read_header
from system_under_test.world import File

_HEADER_WINDOW_BYTES = 8 * 1024
_SCAN_WINDOW_BYTES = 1 << 20
MAX_RELATIVE_OFFSET = 2**31 - 1


class Found(NamedTuple):
    position: int
    header: BatchHeader


class BadBatch(Exception):
    """At ``position`` there is no valid batch."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(f"position {position}: {problem}")
        self.position = position
        self.problem = problem


def walk_headers(file: File, position: int, end: int) -> Iterator[Found]:
    """Headers from ``position``, which begins a batch, to ``end``. Raises :class:`BadBatch`; no CRC is computed."""
    window, window_at = b"", position
    while position < end:
        at = position - window_at
        if at + HEADER_BYTES > len(window):
            window, window_at, at = file.read_at(position, min(_HEADER_WINDOW_BYTES, end - position)), position, 0
        try:
            header = read_header(window, at)
        except CorruptBatch as problem:
            raise BadBatch(position, str(problem)) from problem
        if position + header.size_bytes > end:
            raise BadBatch(position, f"batch of {header.size_bytes} bytes, {end - position} are there")
        yield Found(position, header)
        position += header.size_bytes


def _walk_checked(file: File, end: int) -> Iterator[Found]:
    """All batches with their CRC checked, a megabyte at a time."""
    window, window_at = b"", 0
    for found in walk_headers(file, 0, end):
        position, header = found
        at = position - window_at
        if at + header.size_bytes > len(window):
            wanted = max(_SCAN_WINDOW_BYTES, header.size_bytes)
            window, window_at, at = file.read_at(position, min(wanted, end - position)), position, 0
        try:
            check_crc(window, at, header)
        except CorruptBatch as problem:
            raise BadBatch(position, str(problem)) from problem
        yield found


@dataclass(frozen=True, slots=True)
class Scan:
    batches: list[Found]
    """All that are valid, in order."""
    next_offset: int
    valid_bytes: int
    problem: str | None
    """Why the rest is not valid; None when everything is."""


def scan(file: File, size: int, base_offset: int, ends_at: int | None = None) -> Scan:
    """Check every byte of a segment's log, and that its offsets and leader epochs rise.

    Base offset and leader epoch lie outside of the CRC. One that jumped up by a flipped bit looks like a gap (which
    compaction may leave) or a new epoch, until the batch behind contradicts it: then the one that jumped is the bad one.
    The last batch's offset is contradicted by the next segment, which begins where this one ends (``ends_at``). Nothing
    contradicts the last batch of a segment's leader epoch, nor the last one of a log's offset.
    """
    batches: list[Found] = []
    expected, epoch = base_offset, -1
    jumped_from: tuple[int, int] | None = None
    """Expected offset and epoch before the last batch, if that batch jumped beyond them."""
    valid_bytes, problem = 0, None
    try:
        for found in _walk_checked(file, size):
            header = found.header
            contradiction = _contradiction(header, base_offset, expected, epoch)
            if contradiction is not None:
                if jumped_from is not None and _contradiction(header, base_offset, *jumped_from) is None:
                    bad = batches.pop()
                    expected, epoch = jumped_from
                    raise BadBatch(bad.position, f"offset or leader epoch too high: the next batch has {contradiction}")
                raise BadBatch(found.position, contradiction)
            jumped = header.base_offset > expected or header.partition_leader_epoch > epoch
            jumped_from = (expected, epoch) if jumped else None
            expected, epoch = header.next_offset, max(epoch, header.partition_leader_epoch)
            batches.append(found)
        if ends_at is not None and expected > ends_at and jumped_from is not None:
            bad = batches.pop()
            expected, epoch = jumped_from
            raise BadBatch(bad.position, f"offset {bad.header.base_offset} too high: the next segment is {ends_at}")
        valid_bytes = size
    except BadBatch as bad_batch:
        valid_bytes, problem = bad_batch.position, str(bad_batch)
    return Scan(batches, expected, valid_bytes, problem)


def _contradiction(header: BatchHeader, base_offset: int, expected: int, epoch: int) -> str | None:
    if header.base_offset < expected:
        return f"base offset {header.base_offset} where {expected} or more should be"
    if header.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        return f"last offset {header.last_offset} too far from the segment's {base_offset}"
    if header.partition_leader_epoch < epoch:
        return f"leader epoch {header.partition_leader_epoch} after {epoch}"
    return None
