"""What a leader checks and changes in batches before it appends them.

Batches stay opaque: header and CRC are looked at, offset and epoch are put in. Records are decoded only where a
topic's configuration asks for it: another codec (``compression.type``), or keys that compaction needs.
A producer's batch with sequences is compared with what it sent before in :mod:`system_under_test.storage.producer_state`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

from system_under_test.protocol.batch import (
    LENGTH_END,
    BatchHeader,
    CorruptBatch,
    TimestampType,
    UnsupportedMagic,
    check_crc,
    decode,
    encode,
    read_header,
    stamp_append_time,
)
from system_under_test.protocol.compression import Compression
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.storage.config import LogConfig
from system_under_test.world import Buffer

_MAGIC_AT, _LENGTH, _LEAST_OLD_MESSAGE = 16, struct.Struct(">i"), 14
_LAST_CODEC = int(max(Compression))


class AppendOrigin(Enum):
    CLIENT = "client"
    COORDINATOR = "coordinator"
    """The broker itself: transaction markers, group metadata."""


@dataclass(frozen=True, slots=True)
class Batch:
    header: BatchHeader
    data: memoryview
    """The whole batch. The header's base offset and epoch are the sender's."""


def validate(records: Buffer, config: LogConfig, now_ms: int, origin: AppendOrigin) -> list[Batch]:
    """The batches, ready to be written, or an :class:`ApiError` with Kafka's code for what is wrong."""
    view = memoryview(records)
    batches: list[Batch] = []
    position, total, size = 0, len(view), 0
    if total == 0:
        raise ApiError(ErrorCode.invalid_record, "at least one record batch is required")
    while position < total:
        header = _checked_header(view, position, config)
        _check_content(header, config, now_ms, origin)
        data = view[position : position + header.size_bytes]
        position += header.size_bytes
        batch = Batch(header, data)
        if not config.takes_batches_as_they_are:
            batch = _as_configured(batch, config, now_ms, origin)
        batches.append(batch)
        size += len(batch.data)
    if origin is AppendOrigin.CLIENT and len(batches) > 1:
        raise ApiError(ErrorCode.invalid_record, f"{len(batches)} batches for one partition, 1 is allowed")
    if size > config.segment_bytes:
        raise ApiError(ErrorCode.record_list_too_large, f"{size} bytes, segment.bytes is {config.segment_bytes}")
    return batches


def _checked_header(view: memoryview, position: int, config: LogConfig) -> BatchHeader:
    try:
        header = read_header(view, position)
        if header.size_bytes > config.max_message_bytes:
            raise ApiError(
                ErrorCode.message_too_large,
                f"{header.size_bytes} bytes, max.message.bytes is {config.max_message_bytes}",
            )
        check_crc(view, position, header)
    except UnsupportedMagic as problem:
        code = ErrorCode.invalid_record if _is_older_format(view, position) else ErrorCode.corrupt_message
        raise ApiError(code, str(problem)) from problem
    except CorruptBatch as problem:
        raise ApiError(ErrorCode.corrupt_message, str(problem)) from problem
    return header


def _is_older_format(view: memoryview, position: int) -> bool:
    """A message set of magic 0 or 1. Any other magic is garbage, and so is a length that no message has."""
    return view[position + _MAGIC_AT] <= 1 and _LENGTH.unpack_from(view, position + 8)[0] >= _LEAST_OLD_MESSAGE


def _check_content(header: BatchHeader, config: LogConfig, now_ms: int, origin: AppendOrigin) -> None:
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise ApiError(
            ErrorCode.invalid_record, f"{header.record_count} records, the last delta is {header.last_offset_delta}"
        )
    if header.attributes & 0x07 > _LAST_CODEC:
        raise ApiError(ErrorCode.unsupported_compression_type, f"codec {header.attributes & 0x07} is not known")
    if origin is AppendOrigin.CLIENT:
        if header.base_offset != 0:
            raise ApiError(ErrorCode.invalid_record, f"the base offset should be 0, it is {header.base_offset}")
        if header.is_control:
            raise ApiError(ErrorCode.invalid_record, "clients may not write control records")
        if header.producer_id >= 0 and header.base_sequence < 0:
            raise ApiError(
                ErrorCode.invalid_record, f"sequence {header.base_sequence} of producer {header.producer_id}"
            )
    if config.message_timestamp_type == "CreateTime":
        _check_timestamps(header, config, now_ms)


def _check_timestamps(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise ApiError(ErrorCode.invalid_timestamp, "LogAppendTime is for brokers to set")
    if header.max_timestamp < 0:
        return
    if now_ms - header.base_timestamp > config.message_timestamp_before_max_ms:
        raise ApiError(ErrorCode.invalid_timestamp, f"{header.base_timestamp} is too old, it is {now_ms} here")
    if header.max_timestamp - now_ms > config.message_timestamp_after_max_ms:
        raise ApiError(ErrorCode.invalid_timestamp, f"{header.max_timestamp} is too far ahead, it is {now_ms} here")


def _as_configured(batch: Batch, config: LogConfig, now_ms: int, origin: AppendOrigin) -> Batch:
    """With the codec and the timestamps that the topic wants."""
    wanted = _wanted_codec(batch.header, config)
    if wanted is not batch.header.compression or (config.is_compacted and origin is AppendOrigin.CLIENT):
        batch = _decoded_once(batch, wanted, config)
    if config.message_timestamp_type == "LogAppendTime":
        stamped = bytearray(batch.data)
        stamp_append_time(stamped, 0, batch.header, now_ms)
        return Batch(read_header(stamped), memoryview(stamped))
    return batch


def _wanted_codec(header: BatchHeader, config: LogConfig) -> Compression:
    if config.compression_type == "producer" or header.is_control:
        return header.compression
    if config.compression_type == "uncompressed":
        return Compression.NONE
    return Compression[config.compression_type.upper()]


def _decoded_once(batch: Batch, wanted: Compression, config: LogConfig) -> Batch:
    header = batch.header
    try:
        records = decode(batch.data)
    except CorruptBatch as problem:
        raise ApiError(ErrorCode.corrupt_message, str(problem)) from problem
    if config.is_compacted and not header.is_control and any(each.key is None for each in records):
        raise ApiError(ErrorCode.invalid_record, "a compacted topic needs a key in every record")
    if wanted is header.compression:
        return batch
    again = encode(
        records,
        base_offset=header.base_offset,
        compression=wanted,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
    )
    return Batch(read_header(again), memoryview(again))


REST_AT = LENGTH_END + 4
"""A batch behind its leader epoch: what an append leaves as it is."""
