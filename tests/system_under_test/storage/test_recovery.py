"""Damage at every interesting byte: the log opens, serves all that is valid, and says what it did."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from system_under_test.simulation.world import SimulatedWorld
from system_under_test.storage.log import Log
from system_under_test.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from tests.system_under_test.storage.support import (
    FOLDER,
    content,
    epochs_in,
    fill,
    open_log,
    read_all,
    simulated_host,
)

FIELD_BOUNDS = (0, 7, 8, 11, 12, 15, 16, 17, 20, 21, 22, 23, 26, 27, 34, 35, 42, 43, 50, 51, 52, 53, 56, 57, 60, 61)
"""First and last byte of each field of a batch's header, and the first of its records."""


def written(world: SimulatedWorld) -> tuple[Log, list[tuple[int, int, int, int]]]:
    """A log of several segments and epochs; of each batch: segment, position, end, next offset."""
    log = open_log(world)
    for epoch in (0, 0, 2, 3):
        fill(log, 4, epoch)
    batches = [
        (segment.base_offset, position, position + header.size_bytes, header.next_offset)
        for segment in log.segments
        for position, header in segment.headers()
    ]
    assert len(log.segments) >= 3
    log.close()
    return log, batches


def check(log: Log, expected_end: int, original: list[tuple[int, int, bytes | None]]) -> None:
    """All that is valid is there, by both ways of reading, with the right epochs; and it can be appended to."""
    expected = [each for each in original if each[0] < expected_end]
    assert content(log) == expected
    assert read_all(log) == expected
    assert log.end_offset == expected_end
    assert log.epochs.entries() == epochs_in(expected)
    fill(log, 3, epoch=9)
    assert read_all(log) == content(log)
    assert len(content(log)) == len(expected) + 6


def interesting(batches: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int]]:
    """Segment, byte, and the end of the log if nothing from that byte on is good."""
    found = []
    previous_end = 0
    for segment, position, end, next_offset in batches:
        for byte in {*(position + each for each in FIELD_BOUNDS), end - 1}:
            found.append((segment, byte, previous_end))
        previous_end = next_offset
    return sorted(found)


def test_cut_at_every_interesting_byte() -> None:
    with simulated_host() as host:
        log, batches = written(host.boot())
        original = content(log)
        cases = interesting(batches)
    assert len(cases) > 100
    for segment, byte, expected_end in cases:
        with simulated_host() as host:
            world = host.boot()
            written(world)
            world.files.open(segment_path(FOLDER, segment, LOG_SUFFIX)).truncate(byte)
            reopened = open_log(world, was_clean=False)
            is_last = segment == batches[-1][0]
            assert reopened.opening.recovered_segments[0] == 0
            if not is_last:
                assert reopened.opening.removed_segments, f"cut at {byte} of {segment}"
                assert reopened.opening.problem is not None
            elif byte not in {position for base, position, _, _ in batches if base == segment}:
                assert reopened.opening.problem is not None
                assert reopened.opening.truncated_bytes > 0
            check(reopened, expected_end, original)


def test_a_flipped_bit_at_every_interesting_byte() -> None:
    with simulated_host() as host:
        log, batches = written(host.boot())
        original = content(log)
        cases = interesting(batches)
    jumped = 0
    for number, (segment, byte, expected_end) in enumerate(cases):
        with simulated_host() as host:
            world = host.boot()
            written(world)
            file = world.files.open(segment_path(FOLDER, segment, LOG_SUFFIX))
            old = file.read_at(byte, 1)[0]
            file.write_at(byte, bytes([old ^ (1 << number % 8)]))
            reopened = open_log(world, was_clean=False)
            if reopened.opening.problem is None:
                # Nothing contradicts the epoch of a segment's last batch, or the offset of the log's.
                jumped += 1
                last = max(position for base, position, _, _ in batches if base == segment)
                assert last + 12 <= byte < last + 16 or (segment == batches[-1][0] and last <= byte < last + 8)
                continue
            check(reopened, expected_end, original)
    assert jumped < 20


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_garbage_anywhere(data: st.DataObject) -> None:
    """Whatever is written over a log's bytes: it opens, and everything before the damage is served."""
    with simulated_host() as host:
        world = host.boot()
        log, batches = written(world)
        original = content(log)
        segment, position, end, _ = data.draw(st.sampled_from(batches))
        at = data.draw(st.integers(position, end - 1))
        garbage = data.draw(st.binary(min_size=1, max_size=80))
        file = world.files.open(segment_path(FOLDER, segment, LOG_SUFFIX))
        file.write_at(at, garbage)
        first_damaged = next(
            (base, start) for base, start, stop, _ in batches if base == segment and start <= at < stop
        )
        safe_end = max((after for base, start, _, after in batches if (base, start) < first_damaged), default=0)
        reopened = open_log(world, was_clean=False)
        safe = [each for each in original if each[0] < safe_end]
        assert content(reopened)[: len(safe)] == safe
        assert read_all(reopened) == content(reopened)
        offsets = [each[0] for each in content(reopened)]
        assert all(one < two for one, two in pairwise(offsets))
        fill(reopened, 1, epoch=2**31 - 1)


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_missing_index_is_rebuilt(suffix: str, was_clean: bool, which: int) -> None:
    with simulated_host() as host:
        world = host.boot()
        log, _ = written(world)
        log.close_cleanly()
        original = content(log)
        path = log.segments[which].path(suffix)
        before = world.files.read(path)
        world.files.remove(path)
        reopened = open_log(world, was_clean=was_clean, recovery_point=log.end_offset)
        assert world.files.read(path) == before
        if was_clean or which != -1:
            assert reopened.opening.rebuilt_indexes == [f"{path.rpartition('/')[2]} is missing"]
        check(reopened, log.end_offset, original)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_garbage_in_indexes_after_a_clean_shutdown(data: st.DataObject) -> None:
    """An index may cost time, never data."""
    with simulated_host() as host:
        world = host.boot()
        log, _ = written(world)
        log.close_cleanly()
        original = content(log)
        segment = data.draw(st.sampled_from(list(log.segments)))
        path = segment.path(data.draw(st.sampled_from([INDEX_SUFFIX, TIME_INDEX_SUFFIX])))
        file = world.files.open(path)
        file.write_at(data.draw(st.integers(0, file.size())), data.draw(st.binary(min_size=1, max_size=40)))
        if data.draw(st.booleans()):
            file.truncate(data.draw(st.integers(0, file.size())))
        reopened = open_log(world, was_clean=True)
        for each in original:
            got = reopened.read(each[0], 1, reopened.end_offset, at_least_one=True)
            assert got, f"offset {each[0]}"
        check(reopened, log.end_offset, original)


def test_zeros_at_the_end_of_an_index_are_no_entries() -> None:
    """Kafka preallocates the indexes of an active segment; a crash leaves them so."""
    with simulated_host() as host:
        world = host.boot()
        log, _ = written(world)
        log.close_cleanly()
        original = content(log)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            for segment in log.segments:
                file = world.files.open(segment.path(suffix))
                file.truncate(file.size() // 24 * 24 + 24 * 1000)
        reopened = open_log(world, was_clean=True)
        check(reopened, log.end_offset, original)


@pytest.mark.parametrize("was_clean", [True, False])
def test_garbage_for_leader_epochs_is_replaced_by_what_the_batches_say(was_clean: bool) -> None:
    with simulated_host() as host:
        world = host.boot()
        log, _ = written(world)
        log.close_cleanly()
        original = content(log)
        world.files.write_atomically(f"{FOLDER}/leader-epoch-checkpoint", b"\0" * 30)
        reopened = open_log(world, was_clean=was_clean, recovery_point=log.end_offset)
        assert reopened.opening.found_damage
        check(reopened, log.end_offset, original)


def test_lost_leader_epochs_are_found_again_in_the_batches() -> None:
    with simulated_host() as host:
        world = host.boot()
        log, _ = written(world)
        original = content(log)
        log.close_cleanly()
        world.files.remove(f"{FOLDER}/leader-epoch-checkpoint")
        reopened = open_log(world, was_clean=True)
        check(reopened, log.end_offset, original)


def test_segments_below_the_recovery_point_are_not_read() -> None:
    with simulated_host() as host:
        world = host.boot()
        log, _ = written(world)
        middle = log.segments[2].base_offset
        reopened = open_log(world, was_clean=False, recovery_point=middle + 1)
        assert reopened.opening.recovered_segments == [each.base_offset for each in log.segments[2:]]
        assert not reopened.opening.found_damage


def test_a_damaged_end_after_a_clean_shutdown_is_cut() -> None:
    with simulated_host() as host:
        world = host.boot()
        log, batches = written(world)
        original = content(log)
        log.close_cleanly()
        file = world.files.open(log.active_segment.path(LOG_SUFFIX))
        file.truncate(file.size() - 1)
        reopened = open_log(world, was_clean=True)
        assert reopened.opening.problem is not None
        check(reopened, batches[-2][3], original)


def test_orphans_and_leftovers_are_removed() -> None:
    with simulated_host() as host:
        world = host.boot()
        log, _ = written(world)
        for name in (
            f"{999:020d}.index",
            f"{999:020d}.timeindex",
            f"{5:020d}.log.deleted",
            "leader-epoch-checkpoint.tmp",
        ):
            world.files.open(f"{FOLDER}/{name}", create=True).append(b"x" * 24)
        world.files.open(f"{FOLDER}/{7:020d}.snapshot", create=True)
        reopened = open_log(world, was_clean=True)
        assert len(reopened.opening.removed_files) == 4
        assert f"{7:020d}.snapshot" not in world.files.list(FOLDER)
        assert f"{999:020d}.index" not in world.files.list(FOLDER)
        assert reopened.end_offset == log.end_offset


def test_a_log_that_ends_before_its_checkpointed_start_starts_anew() -> None:
    with simulated_host() as host:
        world = host.boot()
        written(world)
        reopened = open_log(world, was_clean=False, start_offset=1000)
        assert (reopened.start_offset, reopened.end_offset, content(reopened)) == (1000, 1000, [])
        assert reopened.epochs.entries() == []
        fill(reopened, 2, epoch=4)
        assert content(reopened)[0][0] == 1000


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_segment_that_is_gone(which: int) -> None:
    """In front it cannot be told from retention; between others it ends the log; at the end the log is shorter."""
    with simulated_host() as host:
        world = host.boot()
        log, _ = written(world)
        original = content(log)
        gone = log.segments[which]
        after = log.segments[which + 1].base_offset if which != -1 else log.end_offset
        world.files.remove(gone.path(LOG_SUFFIX))
        reopened = open_log(world, was_clean=False)
        kept = [each for each in original if each[0] >= after] if which == 0 else original[: gone.base_offset]
        assert content(reopened) == read_all(reopened) == kept
        assert f"{gone.base_offset:020d}.index" in reopened.opening.removed_files
        if which == 1:
            assert reopened.opening.problem == f"segment {after} should begin at {gone.base_offset}"
            assert reopened.opening.removed_segments


def test_preallocated_segments() -> None:
    with simulated_host() as host:
        world = host.boot()
        log = open_log(world, preallocate="true")
        fill(log, 20)
        original = content(log)
        assert log.active_segment.file.size() == 700 > log.active_segment.size
        assert all(each.file.size() == each.size for each in log.segments[:-1])
        assert read_all(log) == original
        log.truncate_to(37)
        fill(log, 1)
        original = content(log)
        host.kill()
        reopened = open_log(host.boot(), was_clean=False, preallocate="true")
        check(reopened, log.end_offset, original)
        reopened.close_cleanly()
        again = open_log(host.boot_again(), was_clean=True, preallocate="true")
        assert content(again) == content(reopened)
        assert not again.opening.found_damage
