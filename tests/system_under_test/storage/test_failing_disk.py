"""A disk that fails once, at any operation of a step: the step is repeated, and leaves what it would have left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.simulation.world import Host
from system_under_test.storage.checkpoints import RECOVERY_POINTS, read_offsets
from system_under_test.storage.log import Log
from tests.system_under_test.storage.support import PARTITION, content, epochs_in, fill, read_all, simulated_host
from tests.system_under_test.storage.test_crashes import Opened, check_epochs, opened, prepared

Step = Callable[[Log], None]


def _truncate(log: Log) -> None:
    log.truncate_to(10)


def _start_anew(log: Log) -> None:
    log.truncate_fully_and_start_at(100)


def _retention(log: Log) -> None:
    log.update_high_watermark(log.end_offset)
    log.increment_start_offset(24)
    log.delete_old_segments(0)


def _epoch(log: Log) -> None:
    log.epochs.assign(9, log.end_offset)
    fill(log, 1, epoch=9)


STEPS: list[Step] = [_truncate, _start_anew, _retention, _epoch]


def _fail() -> NoReturn:
    raise OSError(5, "input/output error")


def failed_once(step: Step) -> Iterator[tuple[Host, Opened]]:
    """Logs whose step has failed after 0, 1, 2, … operations on the disk."""
    for operations in range(10_000):
        with simulated_host() as host:
            on = prepared(host)
            host.disk.strike_after_operations(operations, _fail)
            try:
                step(on.log)
            except (OSError, ApiError):
                yield host, on
            else:
                assert operations > 1, "the step does nothing"
                return


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__.strip("_"))
def test_a_step_that_failed_half_way_is_repeated(step: Step, is_clean: bool) -> None:
    with simulated_host() as host:
        on = prepared(host)
        step(on.log)
        start, expected, segments = on.log.start_offset, content(on.log), len(on.log.segments)
    for host, on in failed_once(step):
        step(on.log)
        assert (on.log.start_offset, content(on.log)) == (start, expected)
        assert read_all(on.log) == expected
        check_epochs(on.log)
        recovery_point = read_offsets(on.log._world.files, f"/data/{RECOVERY_POINTS}")[PARTITION]
        assert recovery_point <= on.log.end_offset, "what is appended next would be trusted unread"
        if is_clean:
            on.manager.shutdown()
        host.kill()
        again = opened(host.boot()).get(PARTITION)
        assert again is not None
        assert content(again) == expected
        assert len(again.segments) == segments
        if expected:
            assert again.epochs.entries() == epochs_in(expected)


def test_a_log_that_was_cut_by_halves_takes_nothing_and_is_not_called_clean() -> None:
    for host, on in failed_once(_truncate):
        with pytest.raises((OSError, ApiError)):
            fill(on.log, 1, epoch=9)
        assert on.log.end_offset <= 10
        fill(on.log, 1, epoch=9)
        assert read_all(on.log) == content(on.log)
        check_epochs(on.log)
        host.kill()
    for host, on in failed_once(_truncate):
        on.manager.shutdown()
        host.kill()
        again = opened(host.boot()).get(PARTITION)
        assert again is not None
        assert again.end_offset <= 10
        check_epochs(again)
        host.kill()


def test_after_a_write_that_could_not_be_taken_back_every_append_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the error that producers and fetchers know, for a fetcher does not survive another."""

    def failing(*_: object) -> NoReturn:
        _fail()

    with simulated_host() as host:
        log = prepared(host).log
        before = content(log)
        with monkeypatch.context() as broken:
            for method in ("append", "truncate"):
                broken.setattr(type(log.active_segment.file), method, failing)
            with pytest.raises(ApiError):
                fill(log, 1, epoch=3)
        with pytest.raises(ApiError) as refused:
            fill(log, 1, epoch=3)
        assert refused.value.code is ErrorCode.kafka_storage_error
        assert content(log) == before
