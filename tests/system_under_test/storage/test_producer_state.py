"""The table of idempotence, row by row, and snapshots in Kafka's bytes."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from system_under_test.protocol.batch import BatchHeader, encode, read_header
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.storage.producer_snapshots import CorruptSnapshot, decode_snapshot, encode_snapshot
from system_under_test.storage.producer_state import ProducerStateManager, SnapshotEntry

LARGEST = 2**31 - 1
HOUR_MS = 3_600_000


def header(sequence: int, *, count: int = 1, epoch: int = 0, producer: int = 7, at_ms: int = 0) -> BatchHeader:
    records: list[tuple[bytes | None, bytes | None]] = [(None, b"v")] * count
    return read_header(
        encode(records, timestamp_ms=at_ms, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    )


def after(*sent: BatchHeader) -> ProducerStateManager:
    """Appended one after the other from offset 100 on."""
    manager = ProducerStateManager(HOUR_MS)
    offset = 100
    for each in sent:
        assert manager.check(each) is None
        manager.update(each, offset)
        offset += each.record_count
    return manager


def refusal(manager: ProducerStateManager, batch: BatchHeader) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        manager.check(batch)
    return refused.value.code


def first_offset(manager: ProducerStateManager, batch: BatchHeader) -> int | None:
    found = manager.check(batch)
    return None if found is None else found.first_offset


def test_the_next_sequence_is_accepted_and_a_gap_is_not() -> None:
    manager = after(header(0, count=3))
    assert manager.check(header(3)) is None
    for wrong in (1, 2, 4, 100):
        assert refusal(manager, header(wrong)) is ErrorCode.out_of_order_sequence_number


def test_each_of_the_last_five_batches_is_recognised_by_both_its_sequences() -> None:
    manager = after(*(header(2 * number, count=2, at_ms=number) for number in range(7)))
    assert [first_offset(manager, header(2 * number, count=2)) for number in range(2, 7)] == [104, 106, 108, 110, 112]
    repeated = manager.check(header(12, count=2))
    assert repeated is not None
    assert (repeated.last_offset, repeated.timestamp) == (113, 6)
    for other in (header(12), header(4, count=4), header(13)):
        assert refusal(manager, other) is ErrorCode.out_of_order_sequence_number


def test_what_is_older_than_the_window_is_refused_and_not_appended() -> None:
    manager = after(*(header(number) for number in range(6)))
    assert first_offset(manager, header(1)) == 101
    assert refusal(manager, header(0)) is ErrorCode.out_of_order_sequence_number


def test_epochs() -> None:
    manager = after(header(0), header(1), header(0, epoch=2))
    assert refusal(manager, header(2, epoch=1)) is ErrorCode.invalid_producer_epoch
    assert refusal(manager, header(1, epoch=3)) is ErrorCode.out_of_order_sequence_number
    assert manager.check(header(0, epoch=3)) is None
    assert first_offset(manager, header(0, epoch=2)) == 102
    assert refusal(manager, header(1, count=2, epoch=0)) is ErrorCode.invalid_producer_epoch


def test_sequences_wrap_around() -> None:
    manager = after(header(LARGEST - 2, count=2), header(LARGEST, count=3))
    assert manager.check(header(2)) is None
    assert first_offset(manager, header(LARGEST, count=3)) == 102
    assert first_offset(manager, header(LARGEST - 2, count=2)) == 100
    assert refusal(manager, header(3)) is ErrorCode.out_of_order_sequence_number
    exactly = after(header(LARGEST))
    assert exactly.check(header(0)) is None
    copy = ProducerStateManager(HOUR_MS)
    copy.load(manager.entries(), 0)
    assert first_offset(copy, header(LARGEST, count=3)) == 102


def test_an_unknown_producer_begins_anywhere() -> None:
    manager = after(header(41))
    assert manager.check(header(9, producer=8)) is None
    assert manager.check(header(42)) is None


def test_silent_producers_expire() -> None:
    manager = after(header(0, at_ms=1000), header(0, producer=8, at_ms=2000))
    assert manager.remove_expired(1000 + HOUR_MS - 1) == []
    assert manager.remove_expired(1000 + HOUR_MS) == [7]
    assert manager.check(header(5)) is None
    assert refusal(manager, header(5, producer=8)) is ErrorCode.out_of_order_sequence_number
    copy = ProducerStateManager(HOUR_MS)
    copy.load(after(header(0, at_ms=1000), header(0, producer=8, at_ms=2000)).entries(), 1000 + HOUR_MS)
    assert list(copy.producers) == [8]


def test_a_marker_raises_the_epoch_and_has_no_sequence() -> None:
    marker = read_header(
        encode(
            [(b"\0\0\0\1", b"\0\0\0\0\0\0")], is_control=True, is_transactional=True, producer_id=7, producer_epoch=1
        )
    )
    manager = after(header(0), header(1))
    manager.update(marker, 102)
    assert refusal(manager, header(2)) is ErrorCode.invalid_producer_epoch
    assert refusal(manager, header(2, epoch=1)) is ErrorCode.out_of_order_sequence_number
    copy = ProducerStateManager(HOUR_MS)
    copy.load(manager.entries(), 0)
    for each in (manager, copy):
        assert each.check(header(0, epoch=1)) is None


def test_a_follower_takes_what_the_leader_has() -> None:
    manager = ProducerStateManager(HOUR_MS)
    manager.update_all([header(0), header(5), header(3, producer=-1), header(2, epoch=4)])
    assert [(each, state.epoch, state.last_sequence) for each, state in manager.producers.items()] == [(7, 4, 2)]


def test_a_snapshot_has_kafkas_bytes() -> None:
    entry = SnapshotEntry(4000, 3, 17, 1234, 2, 1_700_000_000_000, -1, -1)
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", *entry)
    data = encode_snapshot([entry])
    assert data == struct.pack(">hI", 1, crc32c(body)) + body
    assert len(data) == 10 + 46
    assert decode_snapshot(data) == [entry]
    assert decode_snapshot(encode_snapshot([])) == []


@given(st.data())
def test_a_damaged_snapshot_is_never_believed(data: st.DataObject) -> None:
    good = encode_snapshot([SnapshotEntry(1, 0, 5, 9, 0, 100, -1, -1), SnapshotEntry(2, 1, 0, 10, 0, 100, -1, -1)])
    if data.draw(st.booleans()):
        bad = good[: data.draw(st.integers(0, len(good) - 1))]
    else:
        changed = bytearray(good)
        changed[data.draw(st.integers(0, len(good) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        bad = bytes(changed)
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bad)
