"""What a leader refuses, with which code, and what it changes in a batch."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from system_under_test.protocol.batch import Record, TimestampType, decode, encode, read_header
from system_under_test.protocol.compression import Compression
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.storage.config import LogConfig
from system_under_test.storage.validation import AppendOrigin, validate

NOW = 1_000_000
GOOD = encode([(b"k", b"v"), (b"k", b"w")], timestamp_ms=NOW)


def refusal(
    records: bytes | bytearray, overrides: dict[str, str] | None = None, origin: AppendOrigin = AppendOrigin.CLIENT
) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        validate(records, LogConfig.of({}, overrides or {}), NOW, origin)
    return refused.value.code


def patched(position: int, layout: str, value: int) -> bytes:
    """A batch with one field changed and a CRC that is right again."""
    changed = bytearray(GOOD)
    struct.pack_into(layout, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(changed[21:]))
    return bytes(changed)


def test_good_batches_are_taken_as_they_are() -> None:
    (batch,) = validate(GOOD, LogConfig.of({}, {}), NOW, AppendOrigin.CLIENT)
    assert bytes(batch.data) == GOOD
    batches = validate(GOOD + GOOD, LogConfig.of({}, {}), NOW, AppendOrigin.COORDINATOR)
    assert [bytes(each.data) for each in batches] == [GOOD, GOOD]


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", ErrorCode.invalid_record),
        (GOOD[:-1], ErrorCode.corrupt_message),
        (GOOD[:40], ErrorCode.corrupt_message),
        (GOOD + GOOD[:70], ErrorCode.corrupt_message),
        (GOOD + GOOD, ErrorCode.invalid_record),
        (GOOD[:-1] + b"!", ErrorCode.corrupt_message),
        (GOOD[:16] + b"\1" + GOOD[17:], ErrorCode.invalid_record),
        (encode([(b"k", b"v")], base_offset=3), ErrorCode.invalid_record),
        (encode([(b"k", b"v")], is_control=True), ErrorCode.invalid_record),
        (encode([(b"k", b"v")], producer_id=5, producer_epoch=0), ErrorCode.invalid_record),
        (encode([]), ErrorCode.invalid_record),
        (patched(57, ">i", 3), ErrorCode.invalid_record),
        (patched(23, ">i", 5), ErrorCode.invalid_record),
        (patched(21, ">h", 7), ErrorCode.unsupported_compression_type),
        (encode([(b"k", b"v")], timestamp_type=TimestampType.LOG_APPEND_TIME), ErrorCode.invalid_timestamp),
    ],
)
def test_refusals(records: bytes, code: ErrorCode) -> None:
    assert refusal(records) is code


def test_sizes() -> None:
    assert refusal(GOOD, {"max.message.bytes": str(len(GOOD) - 1)}) is ErrorCode.message_too_large
    assert refusal(GOOD, {"segment.bytes": str(len(GOOD) - 1)}) is ErrorCode.record_list_too_large
    limits = {"segment.bytes": str(2 * len(GOOD) - 1)}
    assert refusal(GOOD + GOOD, limits, AppendOrigin.COORDINATOR) is ErrorCode.record_list_too_large
    assert len(validate(GOOD, LogConfig.of({}, {"max.message.bytes": str(len(GOOD))}), NOW, AppendOrigin.CLIENT)) == 1


def test_timestamps() -> None:
    old, ahead = encode([(None, b"v")], timestamp_ms=NOW - 100), encode([(None, b"v")], timestamp_ms=NOW + 100)
    assert refusal(old, {"message.timestamp.before.max.ms": "99"}) is ErrorCode.invalid_timestamp
    assert refusal(ahead, {"message.timestamp.after.max.ms": "99"}) is ErrorCode.invalid_timestamp
    limits = {"message.timestamp.before.max.ms": "100", "message.timestamp.after.max.ms": "100"}
    for each in (old, ahead, encode([(None, b"v")], timestamp_ms=-1)):
        assert validate(each, LogConfig.of({}, limits), NOW, AppendOrigin.CLIENT)


def test_the_broker_itself_may_write_markers() -> None:
    marker = encode([(b"\0\0\0\1", b"\0\0\0\0\0\0")], is_control=True, is_transactional=True, producer_id=4)
    config = LogConfig.of({}, {"cleanup.policy": "compact"})
    assert bytes(validate(marker, config, NOW, AppendOrigin.COORDINATOR)[0].data) == marker


def test_a_compacted_topic_needs_keys() -> None:
    compacted = {"cleanup.policy": "compact"}
    assert refusal(encode([(b"k", b"v"), (None, b"v")]), compacted) is ErrorCode.invalid_record
    assert validate(GOOD, LogConfig.of({}, compacted), NOW, AppendOrigin.CLIENT)


@pytest.mark.parametrize("wanted", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("sent", list(Compression))
def test_recompression(wanted: str, sent: Compression) -> None:
    records = [Record(each, NOW + each, b"k", b"value" * 20, (("h", b"x"),)) for each in range(10)]
    batch = encode(records, compression=sent, producer_id=3, producer_epoch=1, base_sequence=9, is_transactional=True)
    (taken,) = validate(batch, LogConfig.of({}, {"compression.type": wanted}), NOW, AppendOrigin.CLIENT)
    assert taken.header.compression is (Compression.NONE if wanted == "uncompressed" else Compression[wanted.upper()])
    assert decode(taken.data) == records
    before = read_header(batch)
    for name in ("producer_id", "producer_epoch", "base_sequence", "record_count", "max_timestamp", "is_transactional"):
        assert getattr(taken.header, name) == getattr(before, name)
    if taken.header.compression is sent:
        assert bytes(taken.data) == batch


def test_recompression_of_garbage() -> None:
    assert refusal(patched(21, ">h", 1), {"compression.type": "lz4"}) is ErrorCode.corrupt_message
