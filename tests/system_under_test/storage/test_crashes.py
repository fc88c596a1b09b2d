"""A crash between any two operations on the disk, in every step that touches several files.

Killed: what was written stays. Then the log must be what it was before the step or after it, or on the way
between the two. Power lost: of what was not synced any part is gone. Then the log must be a prefix of one of these, with nothing below
the recovery point missing; never a log with a hole, records of one life in the place of another's, or epochs
that the batches do not bear out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from system_under_test.simulation.loop import Killed
from system_under_test.simulation.world import Host, SimulatedWorld
from system_under_test.storage.log import Log
from system_under_test.storage.log_manager import LogManager
from tests.system_under_test.storage.support import (
    PARTITION,
    SMALL,
    Entry,
    content,
    epochs_in,
    fill,
    read_all,
    simulated_host,
)


class Opened(NamedTuple):
    manager: LogManager
    log: Log


Step = Callable[[Opened], None]
DELETED_BELOW = 25
SYNCED_END = 18
"""What :func:`prepared` has flushed."""


def _append(on: Opened) -> None:
    fill(on.log, 1, epoch=5)


def _append_and_roll(on: Opened) -> None:
    fill(on.log, 9, epoch=5)


def _flush(on: Opened) -> None:
    on.log.flush()
    on.manager.checkpoint_recovery_points()


def _truncate(on: Opened) -> None:
    on.log.truncate_to(21)


def _truncate_and_write_anew(on: Opened) -> None:
    on.log.truncate_to(21)
    fill(on.log, 6, epoch=7)
    on.log.flush()


def _start_anew(on: Opened) -> None:
    on.log.truncate_fully_and_start_at(500)


def _start_anew_and_write(on: Opened) -> None:
    on.log.truncate_fully_and_start_at(500)
    fill(on.log, 6, epoch=8)


def _retention(on: Opened) -> None:
    on.log.update_high_watermark(on.log.end_offset)
    on.log.delete_old_segments(10**14)


def _delete_records(on: Opened) -> None:
    on.log.update_high_watermark(on.log.end_offset)
    on.log.increment_start_offset(DELETED_BELOW)
    on.manager.checkpoint_log_start_offsets()
    on.log.delete_old_segments(0)


def _shutdown(on: Opened) -> None:
    on.manager.shutdown()


def _delete_partition(on: Opened) -> None:
    on.manager.delete(PARTITION)


def _delete_and_recreate(on: Opened) -> None:
    on.log.update_high_watermark(on.log.end_offset)
    on.manager.checkpoint_high_watermarks()
    on.manager.delete(PARTITION)
    fill(on.manager.get_or_create(PARTITION, SMALL), 3, epoch=0)


STEPS: list[Step] = [
    _append,
    _append_and_roll,
    _flush,
    _truncate,
    _truncate_and_write_anew,
    _start_anew,
    _start_anew_and_write,
    _retention,
    _delete_records,
    _shutdown,
    _delete_partition,
    _delete_and_recreate,
]


def opened(world: SimulatedWorld) -> LogManager:
    manager = LogManager(world, ["/data"], 1, {}, cluster_id="c")
    manager.load({PARTITION.topic: SMALL})
    return manager


def prepared(host: Host) -> Opened:
    """Several segments and epochs, the first half synced and checkpointed."""
    manager = opened(host.boot())
    log = manager.get_or_create(PARTITION, SMALL)
    fill(log, 9, epoch=1)
    log.flush()
    manager.checkpoint_recovery_points()
    fill(log, 3, epoch=2)
    log.roll()
    fill(log, 3, epoch=3)
    return Opened(manager, log)


def before_and_after(step: Step) -> tuple[list[Entry], list[Entry]]:
    with simulated_host() as host:
        on = prepared(host)
        before = content(on.log)
        step(on)
        log = on.manager.get(PARTITION)
        return before, [] if log is None else content(log)


def on_the_way(found: list[Entry], before: list[Entry], after: list[Entry]) -> bool:
    """A run of records of one of the two, or of what both have in common."""
    return any(_is_run_of(found, whole) for whole in (before, after))


def _is_run_of(found: list[Entry], whole: list[Entry]) -> bool:
    if not found:
        return True
    if found[0] not in whole:
        return False
    start = whole.index(found[0])
    return whole[start : start + len(found)] == found


def struck_hosts(step: Step, seed: int, *, power: bool) -> Iterator[tuple[int, Host]]:
    """Hosts that died in the step after 0, 1, 2, … operations on the disk, until the step outlives the fuse."""
    for operations in range(10_000):
        with simulated_host(seed) as host:
            on = prepared(host)
            host.disk.strike_after_operations(operations, host.lose_power if power else host.kill)
            try:
                step(on)
            except Killed:
                yield operations, host
            else:
                assert operations > 1, "the step does nothing"
                return


def check_epochs(log: Log) -> None:
    """They are what the batches say; of an empty log, the last one may still be known."""
    entries = log.epochs.entries()
    if content(log):
        assert entries == epochs_in(content(log))
    else:
        assert [each.start_offset for each in entries] in ([], [log.start_offset])


def survivor(host: Host) -> Log | None:
    log = opened(host.boot()).get(PARTITION)
    if log is not None:
        assert read_all(log) == content(log)
        offsets = [each[0] for each in content(log)]
        assert offsets == list(range(log.start_offset, log.end_offset)), "a hole"
        check_epochs(log)
        assert log.recovery_point <= log.end_offset
        assert log.start_offset <= log.high_watermark <= log.end_offset
    return log


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__.strip("_"))
def test_killed_after_any_operation(step: Step) -> None:
    before, after = before_and_after(step)
    for operations, host in struck_hosts(step, 1, power=False):
        log = survivor(host)
        found = [] if log is None else content(log)
        told = f"after {operations} operations: {found}"
        assert on_the_way(found, before, after), told
        assert all(each in found for each in before if each in after), told
        if log is not None:
            fill(log, 2, epoch=9)
            assert content(log)[: len(found)] == found


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__.strip("_"))
def test_power_lost_after_any_operation(step: Step) -> None:
    before, after = before_and_after(step)
    kept = [each for each in before if each in after and each[0] < SYNCED_END]
    for seed in range(6):
        for operations, host in struck_hosts(step, seed, power=True):
            log = survivor(host)
            found = [] if log is None else content(log)
            told = f"after {operations} operations, seed {seed}: {found}"
            assert on_the_way(found, before, after), told
            assert all(each in found for each in kept), told


@pytest.mark.parametrize("seed", range(40))
def test_power_lost_again_and_again(seed: int) -> None:
    """Lives of random steps, each ended by a loss of power at a random operation; what was synced is always there."""
    with simulated_host(seed) as host:
        random = host._simulation.fork("test")
        manager = opened(host.boot())
        log = manager.get_or_create(PARTITION, SMALL)
        for life in range(8):
            safe: list[Entry] = []
            host.disk.strike_after_operations(random.randint(1, 120), host.lose_power)
            epoch = 10 * (life + 1)
            try:
                for _ in range(200):
                    choice = random.randint(0, 9)
                    if choice <= 5:
                        fill(log, 1, epoch)
                    elif choice == 6:
                        log.flush()
                        safe = content(log)
                    elif choice == 7:
                        target = random.randint(log.start_offset, log.end_offset)
                        safe = [each for each in safe if each[0] < target - 1]  # a batch may straddle it
                        log.truncate_to(target)
                        epoch += 1
                    elif choice == 8:
                        manager.checkpoint_recovery_points()
                    else:
                        log.roll()
                raise AssertionError("the strike never came")
            except Killed:
                pass
            reopened = survivor(host)
            if reopened is None:
                assert not safe
                host.kill()
                manager = opened(host.boot())
                log = manager.get_or_create(PARTITION, SMALL)
                continue
            found = content(reopened)
            assert found[: len(safe)] == safe, f"life {life}"
            host.kill()
            manager = opened(host.boot())
            again = manager.get(PARTITION)
            assert again is not None
            assert content(again) == found
            log = again
