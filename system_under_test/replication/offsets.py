"""ListOffsets on a leader: by special timestamp or by time, never beyond what the asker may see (KIP-79, KIP-207)."""

from __future__ import annotations

from typing import NamedTuple

from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.replication.partition import Partition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5


class OffsetFound(NamedTuple):
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


NOTHING_FOUND = OffsetFound()


def find_offset(
    partition: Partition, timestamp: int, current_leader_epoch: int, *, is_consumer: bool, not_available: ErrorCode
) -> OffsetFound:
    """Raises ``not_available`` while this leader's high watermark has not reached the start of its epoch: it may lie
    before what consumers have seen already."""
    leadership = partition.leading(current_leader_epoch)
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return OffsetFound(-1, log.start_offset, _epoch(partition, log.start_offset))
    if timestamp == LATEST_TIERED:
        return NOTHING_FOUND
    end = log.high_watermark if is_consumer else log.end_offset
    lags = is_consumer and log.high_watermark < leadership.epoch_start_offset
    if timestamp == LATEST:
        if lags:
            raise ApiError(not_available)
        return OffsetFound(-1, end, _epoch(partition, end))
    if timestamp == MAX_TIMESTAMP:
        found = log.offset_of_max_timestamp()
    elif timestamp >= 0:
        found = log.offset_for_timestamp(timestamp, end)
    else:
        raise ApiError(ErrorCode.unsupported_version, f"timestamp {timestamp}")
    if found is not None and found[1] < end:
        return OffsetFound(*found)
    if lags:
        raise ApiError(not_available)
    return NOTHING_FOUND


def _epoch(partition: Partition, offset: int) -> int:
    epoch = partition.log.epochs.epoch_for_offset(offset)
    return -1 if epoch is None else epoch
