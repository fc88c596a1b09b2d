"""Record batches: round trips, a batch that Apache Kafka's client made, and every kind of damage."""

from __future__ import annotations

import contextlib

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from system_under_test.protocol.batch import (
    HEADER_BYTES,
    CorruptBatch,
    Record,
    TimestampType,
    UnsupportedMagic,
    assign,
    check_crc,
    decode,
    encode,
    headers,
    read_header,
    stamp_append_time,
)
from system_under_test.protocol.compression import BadCompression, Compression, compress, decompress

maybe_bytes = st.none() | st.binary(max_size=40)
record_headers = st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=3).map(tuple)
codecs = st.sampled_from(list(Compression))


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 2**40))
    records: list[Record] = []
    for _ in range(draw(st.integers(1, 12))):
        timestamp = draw(st.integers(0, 2**42))
        records.append(Record(offset, timestamp, draw(maybe_bytes), draw(maybe_bytes), draw(record_headers)))
        offset += draw(st.integers(1, 1000))
    return records


@given(record_lists(), codecs)
def test_what_is_encoded_is_decoded(records: list[Record], codec: Compression) -> None:
    batch = encode(records, base_offset=records[0].offset, compression=codec, producer_id=7, base_sequence=3)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert decode(batch) == records
    assert header.size_bytes == len(batch)
    assert header.last_offset == records[-1].offset
    assert header.next_offset == header.last_offset + 1
    assert header.max_timestamp == max(each.timestamp for each in records)
    assert (header.record_count, header.compression, header.producer_id) == (len(records), codec, 7)


@given(st.binary(max_size=100_000), codecs)
@settings(max_examples=50)
def test_compression_round_trip(data: bytes, codec: Compression) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", list(Compression))
def test_another_implementation_reads_ours(codec: Compression) -> None:
    records = [Record(5 + i, 1000 + i, b"k%d" % i, b"v" * i, (("h", b"x"),)) for i in range(20)]
    theirs = DefaultRecordBatch(bytearray(encode(records, base_offset=5, compression=codec)))
    assert theirs.validate_crc()
    read = [(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in theirs]
    assert read == [tuple(each) for each in records]


@pytest.mark.parametrize("codec", list(Compression))
def test_we_read_another_implementation(codec: Compression) -> None:
    builder = DefaultRecordBatchBuilder(2, int(codec), True, 9, 1, 4, 1 << 20)
    for i in range(20):
        assert builder.append(i, 2000 + i, b"key", b"value" * 50, [("h", b"x")]) is not None
    batch = bytes(builder.build())
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (9, 1, 4, 23)
    assert header.is_transactional
    assert not header.is_control
    assert decode(batch)[19] == Record(19, 2019, b"key", b"value" * 50, (("h", b"x"),))


def test_one_batch_byte_for_byte() -> None:
    """Written down by hand after the protocol guide; only the CRC was computed."""
    batch = encode([Record(3, 10, b"a", None)], base_offset=3, leader_epoch=2, producer_id=5, producer_epoch=1)
    fields = [
        "0000000000000003",  # base offset
        "00000039",  # length: 49 + 8
        "00000002",  # leader epoch
        "02",  # magic
        batch[17:21].hex(),
        "0000",  # attributes
        "00000000",  # last offset delta
        "000000000000000a",
        "000000000000000a",
        "0000000000000005",
        "0001",
        "ffffffff",
        "00000001",
        "0e00000002610100",  # length 7, attributes, time, offset, key "a", no value, no headers
    ]
    assert batch.hex() == "".join(fields)


def test_assign_leaves_the_crc_valid() -> None:
    batch = bytearray(encode([(b"k", b"v"), (b"k", b"w")], timestamp_ms=5))
    assign(batch, 0, 77, 4)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.base_offset, header.partition_leader_epoch, header.last_offset) == (77, 4, 78)
    assert [each.offset for each in decode(batch)] == [77, 78]


def test_append_time_replaces_the_times_of_all_records() -> None:
    batch = bytearray(encode([Record(0, 5, None, b"a"), Record(1, 9, None, b"b")]))
    stamp_append_time(batch, 0, read_header(batch), 1234)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [each.timestamp for each in decode(batch)] == [1234, 1234]


def test_headers_stops_before_a_partial_batch() -> None:
    one, two = encode([(None, b"a")]), encode([(None, b"bb")], base_offset=1)
    both = one + two
    for cut in range(len(both) + 1):
        whole = 0 if cut < len(one) else 1 if cut < len(both) else 2
        assert [position for position, _ in headers(both[:cut])] == [0, len(one)][:whole]


def test_every_flipped_bit_is_noticed_or_lies_outside_the_crc() -> None:
    batch = encode([(b"key", b"value")])
    for index in range(len(batch)):
        for bit in range(8):
            broken = bytearray(batch)
            broken[index] ^= 1 << bit
            if index < 8 or 12 <= index < 16:  # base offset and leader epoch
                check_crc(broken, 0, read_header(broken))
                continue
            with pytest.raises(CorruptBatch):
                check_crc(broken, 0, read_header(broken))


def test_older_formats_are_told_apart() -> None:
    broken = bytearray(encode([(b"k", b"v")]))
    broken[16] = 1
    with pytest.raises(UnsupportedMagic):
        read_header(broken)
    with pytest.raises(UnsupportedMagic):
        read_header(bytes(broken)[:30])


@given(st.binary(max_size=200))
def test_garbage_never_does_more_than_raise(garbage: bytes) -> None:
    for data in (garbage, encode([(b"k", b"v")])[:HEADER_BYTES] + garbage):
        try:
            for position, header in headers(data):
                check_crc(data, position, header)
                decode(memoryview(data)[position:])
        except CorruptBatch:
            pass


@given(st.binary(max_size=120), codecs, st.integers(0, 20))
def test_a_damaged_payload_is_a_corrupt_batch(garbage: bytes, codec: Compression, count: int) -> None:
    batch = bytearray(encode([(b"k", b"v")] * max(count, 1), compression=codec))
    damaged = batch[:HEADER_BYTES] + garbage
    damaged[8:12] = (len(damaged) - 12).to_bytes(4, "big")
    with contextlib.suppress(CorruptBatch):
        assert len(decode(damaged)) == max(count, 1)


@pytest.mark.parametrize("cut", range(16, 40))
def test_cut_snappy(cut: int) -> None:
    whole = compress(Compression.SNAPPY, b"abc" * 30_000)
    with pytest.raises(BadCompression):
        decompress(Compression.SNAPPY, whole[:-cut])
