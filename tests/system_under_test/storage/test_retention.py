"""Which segments go, when, and why; never one with a record at or above the high watermark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from system_under_test.simulation.world import Host
from system_under_test.storage.log import Log
from tests.system_under_test.storage.support import batch, content, fill, open_log, simulated_host


@pytest.fixture
def host() -> Iterator[Host]:
    with simulated_host() as host:
        yield host


def of_ten_segments(host: Host, *, retention_ms: str, retention_bytes: str = "-1", policy: str = "delete") -> Log:
    """Segment k holds offset k, with timestamp 1000 * k."""
    log = open_log(
        host.boot(),
        segment_bytes="100",
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        cleanup_policy=policy,
    )
    for number in range(10):
        log.append_as_leader(batch(b"x" * 10, timestamp_ms=1000 * number), 1)
    assert [each.base_offset for each in log.segments] == list(range(10))
    log.update_high_watermark(10)
    return log


def test_by_time(host: Host) -> None:
    log = of_ten_segments(host, retention_ms="500")
    assert log.delete_old_segments(500) == 0
    assert log.delete_old_segments(501) == 1
    assert log.delete_old_segments(3501) == 3
    assert (log.start_offset, log.epochs.entries()) == (4, [(1, 4)])
    assert [each[0] for each in content(log)] == [4, 5, 6, 7, 8, 9]


def test_everything_by_time_leaves_an_empty_log(host: Host) -> None:
    log = of_ten_segments(host, retention_ms="500")
    assert log.delete_old_segments(10**9) == 10
    assert (log.start_offset, log.end_offset, log.size_bytes) == (10, 10, 0)
    assert log.delete_old_segments(10**9) == 0
    fill(log, 1)
    host.kill()
    reopened = open_log(host.boot(), was_clean=False)
    assert (reopened.start_offset, reopened.end_offset) == (10, 12)


def test_by_size(host: Host) -> None:
    log = of_ten_segments(host, retention_bytes="300", retention_ms="-1")
    size = log.segments[0].size
    assert log.delete_old_segments(0) == (10 * size - 300) // size
    assert 300 <= log.size_bytes < 300 + size


def test_never_above_the_high_watermark(host: Host) -> None:
    log = of_ten_segments(host, retention_ms="0")
    log.high_watermark = 4
    assert log.delete_old_segments(10**9) == 4
    assert log.start_offset == 4


def test_without_limits_nothing_goes(host: Host) -> None:
    log = of_ten_segments(host, retention_ms="-1")
    assert log.delete_old_segments(10**15) == 0


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_below_the_start_offset_whatever_the_policy(host: Host, policy: str) -> None:
    log = of_ten_segments(host, retention_ms="-1", policy=policy)
    log.increment_start_offset(6)
    assert log.delete_old_segments(0) == 6
    assert log.segments[0].base_offset == 6


def test_a_compacted_log_keeps_what_is_old(host: Host) -> None:
    log = of_ten_segments(host, retention_ms="1", policy="compact")
    assert log.delete_old_segments(10**15) == 0


def test_records_without_time_are_as_old_as_their_opening(host: Host) -> None:
    world = host.boot()
    log = open_log(world, segment_bytes="100", retention_ms="500")
    for _ in range(3):
        log.append_as_leader(batch(b"x" * 10, timestamp_ms=-1), 1)
    log.update_high_watermark(3)
    assert log.delete_old_segments(world.clock.time_ms() + 500) == 0
    assert log.delete_old_segments(world.clock.time_ms() + 501) == 3
