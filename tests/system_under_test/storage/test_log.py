"""Appending, reading, truncating: every step against a plain list of records."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from system_under_test.protocol.batch import Record, decode, encode, headers, read_header
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.simulation.world import Host, Simulation
from system_under_test.storage.log import Log, OffsetOutOfRange
from system_under_test.storage.validation import AppendOrigin
from tests.system_under_test.storage.support import (
    FOLDER,
    Entry,
    batch,
    content,
    epochs_in,
    fill,
    open_log,
    read_all,
    simulated_host,
)


@pytest.fixture
def host() -> Iterator[Host]:
    with simulated_host() as host:
        yield host


def copied(log: Log) -> bytes:
    """All of a log's bytes."""
    return b"".join(each.file.read_at(0, each.size) for each in log.segments)


def test_offsets_and_epochs_are_the_leaders(host: Host) -> None:
    log = open_log(host.boot())
    sent = batch(b"a", b"b", timestamp_ms=7) + batch(b"c", timestamp_ms=9)
    info = log.append_as_leader(sent, 4, origin=AppendOrigin.COORDINATOR)
    assert (info.first_offset, info.last_offset, info.record_count, info.size_bytes) == (0, 2, 3, len(sent))
    assert (info.max_timestamp, info.log_append_time_ms, info.log_start_offset) == (9, -1, 0)
    assert sent == batch(b"a", b"b", timestamp_ms=7) + batch(b"c", timestamp_ms=9), "the caller's bytes are its own"
    assert log.append_as_leader(bytearray(batch(b"d")), 5).first_offset == 3
    assert content(log) == [(0, 4, b"a"), (1, 4, b"b"), (2, 4, b"c"), (3, 5, b"d")]
    stored = copied(log)
    assert len(stored) == len(sent) + len(batch(b"d"))
    assert stored[16 : len(batch(b"a", b"b"))] == sent[16 : len(batch(b"a", b"b"))]


def test_a_follower_has_the_same_bytes(host: Host) -> None:
    leader = open_log(host.boot())
    for epoch in (0, 1, 4):
        fill(leader, 5, epoch)
    with simulated_host() as other:
        follower = open_log(other.boot(), segment_bytes="400")
        while follower.end_offset < leader.end_offset:
            data = leader.read(follower.end_offset, 500, leader.end_offset, at_least_one=True)
            info = follower.append_as_follower(bytes(data) + data[:30])
            assert info.last_offset == follower.end_offset - 1
            assert info.size_bytes == len(data)
        assert copied(follower) == copied(leader)
        assert follower.epochs.entries() == leader.epochs.entries() == epochs_in(content(leader))
        assert len(follower.segments) != len(leader.segments)


def test_a_fetch_larger_than_a_segment_is_split(host: Host) -> None:
    leader = open_log(host.boot(), segment_bytes="100000")
    fill(leader, 30)
    with simulated_host() as other:
        follower = open_log(other.boot())
        follower.append_as_follower(leader.read(0, 100_000, leader.end_offset, at_least_one=True))
        assert copied(follower) == copied(leader)
        assert all(each.size <= 700 for each in follower.segments)


def test_a_follower_refuses_what_does_not_follow(host: Host) -> None:
    log = open_log(host.boot())
    fill(log, 2)
    with pytest.raises(OffsetOutOfRange):
        log.append_as_follower(encode([(None, b"x")], base_offset=3, leader_epoch=0))
    broken = bytearray(encode([(None, b"x")], base_offset=4, leader_epoch=0))
    broken[-1] ^= 1
    with pytest.raises(ApiError) as refused:
        log.append_as_follower(broken)
    assert refused.value.code is ErrorCode.corrupt_message
    assert log.end_offset == 4
    info = log.append_as_follower(b"")
    assert (info.first_offset, info.last_offset, info.record_count) == (4, 3, 0)


def test_a_follower_takes_gaps(host: Host) -> None:
    """What compaction left out at the leader."""
    log = open_log(host.boot(), segment_bytes="200")
    for base in (0, 10, 50, 51, 90):
        log.append_as_follower(encode([(b"k", b"v%d" % base)], base_offset=base, leader_epoch=1))
    assert len(log.segments) > 1
    for offset, found in ((0, 0), (1, 10), (10, 10), (11, 50), (50, 50), (51, 51), (52, 90), (90, 90)):
        assert read_header(log.read(offset, 1, 100, at_least_one=True)).base_offset == found
    log.truncate_to(60)
    assert [each[0] for each in content(log)] == [0, 10, 50, 51]
    assert log.end_offset == 52


def test_offsets_that_jump_beyond_an_index(host: Host) -> None:
    log = open_log(host.boot())
    far = 2**31 + 5
    for base in (0, far, 2 * far):
        log.append_as_follower(encode([(b"k", b"v")], base_offset=base, leader_epoch=0))
    assert [each[0] for each in content(log)] == [0, far, 2 * far]
    assert [each[0] for each in read_all(log)] == [0, far, 2 * far]


def test_reading_stops_before_up_to(host: Host) -> None:
    log = open_log(host.boot())
    fill(log, 6)
    assert [header.base_offset for _, header in headers(log.read(0, 10_000, 5, at_least_one=True))] == [0, 2]
    assert log.read(4, 10_000, 5, at_least_one=True) == b""
    assert log.read(5, 10_000, 5, at_least_one=True) == b""
    assert log.read(12, 10_000, 12, at_least_one=True) == b""
    assert read_header(log.read(3, 10_000, 12, at_least_one=True)).base_offset == 2
    for wrong in (-1, 13):
        with pytest.raises(OffsetOutOfRange):
            log.read(wrong, 1, 12, at_least_one=True)


def test_reading_in_small_and_large_bites(host: Host) -> None:
    log = open_log(host.boot())
    fill(log, 20)
    size = read_header(log.read(0, 1, 40, at_least_one=True)).size_bytes
    assert log.read(0, size - 1, 40, at_least_one=False) == b""
    assert len(log.read(0, size - 1, 40, at_least_one=True)) == size
    assert len(log.read(0, size, 40, at_least_one=False)) == size
    assert len(log.read(0, 0, 40, at_least_one=True)) == size
    for max_bytes in (0, 1, 100, 250, 10_000):
        assert read_all(log, max_bytes) == content(log)


def test_truncation_inside_a_batch_drops_it(host: Host) -> None:
    log = open_log(host.boot())
    fill(log, 10)
    log.update_high_watermark(20)
    log.truncate_to(9)
    assert (log.end_offset, log.high_watermark) == (8, 8)
    assert content(log)[-1][0] == 7
    fill(log, 1, epoch=3)
    assert content(log)[-2:] == [(8, 3, b"8 by 3"), (9, 3, b"9 by 3")]


def test_truncation_lowers_the_recovery_point(host: Host) -> None:
    log = open_log(host.boot())
    fill(log, 10)
    log.flush()
    assert log.recovery_point == 20
    told: list[int] = []
    log._on_truncate = lambda each: told.append(each.recovery_point)
    log.truncate_to(6)
    assert (log.recovery_point, told) == (6, [6])
    log.truncate_to(100)
    assert told == [6]


def test_truncation_below_the_first_segment_starts_anew(host: Host) -> None:
    log = open_log(host.boot(), start_offset=50)
    fill(log, 3)
    log.truncate_to(10)
    assert (log.start_offset, log.end_offset, log.high_watermark) == (10, 10, 10)
    assert log.epochs.entries() == []


def test_delete_records(host: Host) -> None:
    log = open_log(host.boot())
    fill(log, 10, epoch=2)
    with pytest.raises(OffsetOutOfRange):
        log.increment_start_offset(1)
    log.update_high_watermark(15)
    log.increment_start_offset(13)
    log.increment_start_offset(4)
    assert log.start_offset == 13
    assert log.epochs.entries() == [(2, 13)]
    with pytest.raises(OffsetOutOfRange):
        log.read(12, 1, 20, at_least_one=True)
    assert read_all(log)[0][0] == 13


def test_high_watermark_stays_within_the_log(host: Host) -> None:
    log = open_log(host.boot(), start_offset=5)
    fill(log, 2)
    for given, expected in ((0, 5), (7, 7), (100, 9)):
        log.update_high_watermark(given)
        assert log.high_watermark == expected


def test_offsets_by_timestamp(host: Host) -> None:
    log = open_log(host.boot())
    times = [100, 105, 103, 200, 150, 300, 300, 250]
    for number, each in enumerate(times * 3):
        log.append_as_leader(encode([Record(0, each, None, b"x"), Record(1, each + 1, None, b"y")]), number // 9)
    flat = [stamp for each in times * 3 for stamp in (each, each + 1)]
    for wanted in range(95, 310):
        expected = next(((stamp, offset) for offset, stamp in enumerate(flat) if stamp >= wanted), None)
        found = log.offset_for_timestamp(wanted, log.end_offset)
        assert (None if found is None else found[:2]) == expected, wanted
    assert log.offset_for_timestamp(200, 7) == (200, 6, 0)
    assert log.offset_for_timestamp(200, 6) is None
    assert log.offset_of_max_timestamp() == (301, 11, 0)
    log.update_high_watermark(30)
    log.increment_start_offset(25)
    assert log.offset_for_timestamp(0, 100) == (flat[25], 25, 1)


def test_no_timestamps(host: Host) -> None:
    log = open_log(host.boot())
    assert log.offset_of_max_timestamp() is None
    log.append_as_leader(encode([(None, b"x")], timestamp_ms=-1), 0)
    assert log.offset_of_max_timestamp() is None
    assert log.offset_for_timestamp(0, 1) is None


def test_rolling_by_time_of_the_records(host: Host) -> None:
    log = open_log(host.boot(), segment_ms="100", segment_bytes="100000")
    for stamp in (1000, 1050, 1100, 1101, 1102):
        log.append_as_leader(batch(b"x", timestamp_ms=stamp), 0)
    assert [each.base_offset for each in log.segments] == [0, 3]


def test_rolling_by_a_full_index(host: Host) -> None:
    log = open_log(host.boot(), segment_index_bytes="48", segment_bytes="100000", index_interval_bytes="0")
    fill(log, 30)
    assert len(log.segments) > 3
    assert all(each.index.count() <= 6 and each.times.count() <= 4 for each in log.segments)
    assert read_all(log) == content(log)


def test_flush_by_count(host: Host) -> None:
    log = open_log(host.boot(), flush_messages="5")
    fill(log, 2)
    assert log.recovery_point == 0
    fill(log, 1)
    assert log.recovery_point == 6
    host.lose_power()
    assert open_log(host.boot(), was_clean=False).end_offset == 6


def test_what_was_flushed_survives_and_what_was_not_may_not(host: Host) -> None:
    log = open_log(host.boot())
    fill(log, 30)
    log.flush()
    kept = content(log)
    fill(log, 30)
    host.lose_power()
    reopened = open_log(host.boot(), was_clean=False, recovery_point=60)
    assert content(reopened)[:60] == kept
    assert reopened.end_offset < 120


def test_a_full_disk(host: Host) -> None:
    log = open_log(host.boot())
    fill(log, 5)
    before = content(log)
    host.disk.full = True
    for _ in range(3):
        with pytest.raises(ApiError) as refused:
            fill(log, 1)
        assert refused.value.code is ErrorCode.kafka_storage_error
    assert (content(log), log.end_offset) == (before, 10)
    host.disk.full = False
    fill(log, 5)
    assert content(log)[:10] == before
    assert read_all(log) == content(log)
    host.kill()
    assert content(open_log(host.boot(), was_clean=False)) == content(log)


def test_log_append_time(host: Host) -> None:
    world = host.boot()
    log = open_log(world, message_timestamp_type="LogAppendTime")
    info = log.append_as_leader(batch(b"a", b"b", timestamp_ms=5), 0)
    assert info.log_append_time_ms == info.max_timestamp == world.clock.time_ms()
    stored = log.read(0, 1000, 2, at_least_one=True)
    assert {each.timestamp for each in decode(stored)} == {world.clock.time_ms()}
    host.kill()
    assert not open_log(host.boot(), was_clean=False).opening.found_damage


def test_topic_id(host: Host) -> None:
    log = open_log(host.boot())
    assert log.topic_id is None
    topic_id = uuid.UUID(int=77)
    log.assign_topic_id(topic_id)
    log.assign_topic_id(topic_id)
    with pytest.raises(ApiError) as refused:
        log.assign_topic_id(uuid.UUID(int=78))
    assert refused.value.code is ErrorCode.inconsistent_topic_id
    host.kill()
    assert open_log(host.boot()).topic_id == topic_id


def test_deleted_files_stay_for_their_delay(host: Host) -> None:
    world = host.boot()
    log = open_log(world, file_delete_delay_ms="5000")
    fill(log, 20)
    count = len(log.segments)
    log.truncate_to(3)
    now = world.clock.monotonic()
    deleted = [name for name in world.files.list(FOLDER) if name.endswith(".deleted")]
    assert len(deleted) == 3 * (count - 1)
    log.remove_doomed_files(now + 4.9)
    assert [name for name in world.files.list(FOLDER) if name.endswith(".deleted")] == deleted
    log.remove_doomed_files(now + 5)
    assert not [name for name in world.files.list(FOLDER) if name.endswith(".deleted")]


class LogMachine(RuleBasedStateMachine):
    """Random steps, among them clean and unclean ends, against a list."""

    def __init__(self) -> None:
        super().__init__()
        self.simulation = Simulation(1)
        self.host = self.simulation.host("disk")
        self.records: list[Entry] = []
        self.start = 0
        self.epoch = 0

    @initialize()
    def begin(self) -> None:
        self.log = open_log(self.host.boot())

    @property
    def end(self) -> int:
        return self.records[-1][0] + 1 if self.records else self.start

    @rule(count=st.integers(1, 5), per_batch=st.integers(1, 4), more=st.integers(0, 1))
    def append(self, count: int, per_batch: int, more: int) -> None:
        self.epoch += more
        for offset in range(self.end, self.end + count * per_batch):
            self.records.append((offset, self.epoch, b"%d by %d" % (offset, self.epoch)))
        fill(self.log, count, self.epoch, per_batch)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        target = self.start + int((self.end - self.start) * share)
        self.log.truncate_to(target)
        assert target - 4 < self.log.end_offset <= target
        self.records = [each for each in self.records if each[0] < self.log.end_offset]
        self.start = min(self.start, self.log.end_offset)
        self.epoch += 1

    @precondition(lambda self: self.records)
    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        target = self.start + int((self.end - self.start) * share)
        self.log.update_high_watermark(self.end)
        self.log.increment_start_offset(target)
        self.log.delete_old_segments(0)
        self.start = target
        self.records = [each for each in self.records if each[0] >= target]

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(is_clean=st.booleans())
    def end_of_life(self, is_clean: bool) -> None:
        recovery_point = self.log.recovery_point
        if is_clean:
            self.log.close_cleanly()
        self.log = open_log(
            self.host.boot_again(), was_clean=is_clean, recovery_point=recovery_point, start_offset=self.start
        )
        assert not self.log.opening.found_damage

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "log"):
            return
        assert content(self.log) == self.records
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        if self.records:
            assert self.log.epochs.entries() == epochs_in(self.records)
            middle = self.records[len(self.records) // 2][0]
            data = self.log.read(middle, 1, self.end, at_least_one=True)
            assert any(header.base_offset <= middle <= header.last_offset for _, header in headers(data))
        assert read_all(self.log) == self.records

    def teardown(self) -> None:
        self.simulation.close()


LogMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestLogMachine = LogMachine.TestCase
