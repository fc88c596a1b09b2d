"""Record batches, version 2 (magic 2): the unit that is sent, stored and replicated, byte for byte the same.

A batch is a header of 61 bytes and a payload. A broker reads and patches headers only: base offset and leader epoch
lie outside of the CRC, so an append changes twelve bytes in place and nothing has to be encoded again.
Records themselves are decoded by tools, by tests, and where a topic's configuration asks for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from crc32c import crc32c

from system_under_test.protocol.compression import BadCompression, Compression, compress, decompress

Buffer = bytes | bytearray | memoryview

_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = _HEADER.size
assert HEADER_BYTES == 61

LENGTH_END = 12
"""Base offset and length: what must be there before one knows how long a batch is."""
_CRC_AT = 17
_CRC_START = 21
"""The CRC covers everything from the attributes on."""
_MINIMUM_LENGTH = HEADER_BYTES - LENGTH_END
_MAGIC_AT = 16

_CODEC_MASK = 0x07
_LOG_APPEND_TIME_BIT = 0x08
_TRANSACTIONAL_BIT = 0x10
_CONTROL_BIT = 0x20
_DELETE_HORIZON_BIT = 0x40

_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_STAMPS = struct.Struct(">hiqq")

NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1


class CorruptBatch(ValueError):
    """These bytes are not a whole, valid record batch of version 2."""


class UnsupportedMagic(CorruptBatch):
    """A message of an older format (magic 0 or 1), or of one that is not known."""


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """A tuple and not a dataclass: one is made per batch appended and per batch looked at, and this is the faster."""

    base_offset: int
    batch_length: int
    """Bytes after the length field."""
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def compression(self) -> Compression:
        try:
            return Compression(self.attributes & _CODEC_MASK)
        except ValueError:
            raise CorruptBatch(f"compression codec {self.attributes & _CODEC_MASK} is not known") from None

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & _LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def delete_horizon_ms(self) -> int | None:
        """Set by compaction in place of the base timestamp (KIP-534)."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2**31 - 1 to 0."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at ``position``. The batch may reach beyond the buffer's end; the header may not."""
    available = len(buffer) - position
    if available < HEADER_BYTES:
        if available > _MAGIC_AT and buffer[position + _MAGIC_AT] != 2:
            raise UnsupportedMagic(f"magic {buffer[position + _MAGIC_AT]}, not 2")
        raise CorruptBatch(f"{available} bytes where a header of {HEADER_BYTES} bytes should be")
    header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    if header.magic != 2:
        raise UnsupportedMagic(f"magic {header.magic}, not 2")
    if header.batch_length < _MINIMUM_LENGTH:
        raise CorruptBatch(f"batch length {header.batch_length} is smaller than an empty batch's {_MINIMUM_LENGTH}")
    if header.last_offset_delta < 0:
        raise CorruptBatch(f"last offset delta {header.last_offset_delta} is negative")
    return header


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise :class:`CorruptBatch` unless the whole batch is there and its CRC is right."""
    end = position + header.batch_length + LENGTH_END
    if end > len(buffer):
        raise CorruptBatch(f"batch of {header.size_bytes} bytes, {len(buffer) - position} are there")
    computed = crc32c(memoryview(buffer)[position + _CRC_START : end])
    if computed != header.crc:
        raise CorruptBatch(f"CRC is {computed}, the header says {header.crc}")


def headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each complete batch; a partial one at the end is left out. CRCs are not checked."""
    position, length = 0, len(buffer)
    while length - position >= LENGTH_END:
        (batch_length,) = _LEADER_EPOCH.unpack_from(buffer, position + 8)
        end = position + LENGTH_END + batch_length
        if end > length and batch_length >= _MINIMUM_LENGTH:
            return
        yield position, read_header(buffer, position)
        position = end


def assign(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Patch base offset and leader epoch in place; neither is covered by the CRC."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + LENGTH_END, leader_epoch)


def stamp_append_time(buffer: bytearray | memoryview, position: int, header: BatchHeader, now_ms: int) -> None:
    """Make the batch one of ``message.timestamp.type=LogAppendTime``; its CRC is computed again."""
    attributes = header.attributes | _LOG_APPEND_TIME_BIT
    _STAMPS.pack_into(
        buffer, position + _CRC_START, attributes, header.last_offset_delta, header.base_timestamp, now_ms
    )
    body = memoryview(buffer)[position + _CRC_START : position + header.size_bytes]
    _CRC.pack_into(buffer, position + _CRC_AT, crc32c(body))


def encode(
    records: Sequence[Record | tuple[bytes | None, bytes | None]],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    timestamp_ms: int = 0,
    compression: Compression = Compression.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    last_offset: int | None = None,
) -> bytes:
    """One batch. A :class:`Record` keeps its offset and timestamp; a pair (key, value) gets the next offset and
    ``timestamp_ms``. ``last_offset`` is for batches that compaction has thinned out: by default the last record's.
    """
    given: list[Record] = []
    for each in records:
        if not isinstance(each, Record):
            key, value = each
            each = Record(given[-1].offset + 1 if given else base_offset, timestamp_ms, key, value)
        given.append(each)
    base_timestamp = given[0].timestamp if given else NO_TIMESTAMP
    max_timestamp = max((each.timestamp for each in given), default=NO_TIMESTAMP)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = timestamp_ms
    if last_offset is None:
        last_offset = given[-1].offset if given else base_offset
    payload = bytearray()
    for each in given:
        _put_record(payload, each, each.offset - base_offset, each.timestamp - base_timestamp)
    body = compress(compression, bytes(payload))
    attributes = (
        int(compression)
        | (_LOG_APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (_TRANSACTIONAL_BIT if is_transactional else 0)
        | (_CONTROL_BIT if is_control else 0)
    )
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=_MINIMUM_LENGTH + len(body),
        partition_leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(given),
    )
    whole = bytearray(_HEADER.pack(*header)) + body
    _CRC.pack_into(whole, _CRC_AT, crc32c(memoryview(whole)[_CRC_START:]))
    return bytes(whole)


def decode(batch: Buffer) -> list[Record]:
    """The records of one whole batch. Raises :class:`CorruptBatch`; the CRC is the caller's to check."""
    header = read_header(batch)
    if len(batch) < header.size_bytes:
        raise CorruptBatch(f"batch of {header.size_bytes} bytes, {len(batch)} are there")
    try:
        payload = decompress(header.compression, bytes(memoryview(batch)[HEADER_BYTES : header.size_bytes]))
    except BadCompression as problem:
        raise CorruptBatch(str(problem)) from problem
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    found: list[Record] = []
    position = 0
    try:
        for _ in range(header.record_count):
            record, position = _take_record(payload, position, header, append_time)
            found.append(record)
    except (IndexError, UnicodeDecodeError) as problem:
        raise CorruptBatch(f"record {len(found)} of {header.record_count}: {problem}") from problem
    if position != len(payload):
        raise CorruptBatch(f"{len(payload) - position} bytes after the last of {header.record_count} records")
    return found


def _put_varint(out: bytearray, value: int) -> None:
    """Zigzag, seven bits per byte; the same for 32 and 64 bits."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def _put_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        _put_varint(out, -1)
    else:
        _put_varint(out, len(value))
        out += value


def _put_record(out: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    body = bytearray(1)  # attributes of a record: unused
    _put_varint(body, timestamp_delta)
    _put_varint(body, offset_delta)
    _put_bytes(body, record.key)
    _put_bytes(body, record.value)
    _put_varint(body, len(record.headers))
    for name, value in record.headers:
        _put_bytes(body, name.encode())
        _put_bytes(body, value)
    _put_varint(out, len(body))
    out += body


def _take_varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise CorruptBatch("a variable-length integer of more than ten bytes")


def _take_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _take_varint(data, position)
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise CorruptBatch(f"a field of {length} bytes, {len(data) - position} are there")
    return data[position:end], end


def _take_record(data: bytes, position: int, header: BatchHeader, append_time: int | None) -> tuple[Record, int]:
    length, start = _take_varint(data, position)
    position = start + 1  # attributes of a record: unused
    timestamp_delta, position = _take_varint(data, position)
    offset_delta, position = _take_varint(data, position)
    key, position = _take_bytes(data, position)
    value, position = _take_bytes(data, position)
    count, position = _take_varint(data, position)
    if count < 0 or count > len(data) - position:
        raise CorruptBatch(f"{count} headers in a record")
    pairs: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _take_bytes(data, position)
        if name is None:
            raise CorruptBatch("a header without a name")
        content, position = _take_bytes(data, position)
        pairs.append((name.decode(), content))
    if position - start != length:
        raise CorruptBatch(f"a record of {length} bytes ended after {position - start}")
    timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
    return Record(header.base_offset + offset_delta, timestamp, key, value, tuple(pairs)), position
