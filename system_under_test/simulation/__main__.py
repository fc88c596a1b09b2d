"""``python -m system_under_test.simulation``: random schedules until one fails, the count is reached, or time is up."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import secrets
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from system_under_test.bugs import NONE, Bug, Bugs
from system_under_test.simulation.hunt import Hunt, hunts, table
from system_under_test.simulation.run import Outcome, run_schedule

_LAST_LINES = 60
_CHUNK = 4


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m system_under_test.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the first schedule; those that follow count up from it")
    parser.add_argument("--schedules", type=int, default=None, help="how many (default: 1 with --seed, else no limit)")
    parser.add_argument("--minutes", type=float, default=None, help="stop after so much time on the wall")
    parser.add_argument("--seconds", type=float, default=10.0, help="virtual seconds of faults in each schedule")
    parser.add_argument("--bug", choices=[bug.value for bug in Bug], help="a bug switch that has to be found")
    parser.add_argument("--hunt", choices=["all", *(bug.value for bug in Bug)], help="measure how fast bugs are found")
    parser.add_argument("--seeds", type=int, default=10, help="hunts for each bug")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds on the wall for each hunt")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--lines", type=int, default=_LAST_LINES, help="lines of the trace to show on failure")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    if arguments.hunt:
        return _hunt(arguments.hunt, arguments.seeds, arguments.limit, arguments.seconds)
    seed = secrets.randbelow(1 << 32) if arguments.seed is None else arguments.seed
    schedules = arguments.schedules
    if schedules is None and arguments.minutes is None:
        schedules = 1 if arguments.seed is not None else 100
    print(f"seed {seed}", flush=True)
    bugs: Bugs = frozenset({Bug(arguments.bug)}) if arguments.bug else NONE
    started = time.monotonic()
    tally = Tally()
    failed = search(
        seed,
        schedules,
        None if arguments.minutes is None else started + 60 * arguments.minutes,
        arguments.seconds,
        bugs,
        arguments.jobs,
        tally,
    )
    print(tally.summary(time.monotonic() - started))
    if failed is None:
        print("every invariant held")
        return 0
    _explain(failed, arguments.seconds, bugs, arguments.bug, arguments.lines)
    return 1


def _hunt(which: str, seeds: int, limit_s: float, seconds: float) -> int:
    bugs = [bug for bug in Bug if which in ("all", bug.value)]
    done: list[Hunt] = []
    for hunt in hunts(bugs, seeds, limit_s, lambda seed, bugs: _run(seed, seconds, bugs)):
        print(hunt, flush=True)
        done.append(hunt)
    print(f"\n{table(done)}")
    return int(any(hunt.found is None for hunt in done))


class Tally:
    def __init__(self) -> None:
        self.schedules = self.acknowledged = self.read = self.leader_changes = self.void = 0
        self.virtual_s = 0.0

    def add(self, outcome: Outcome) -> None:
        self.schedules += 1
        self.virtual_s += outcome.virtual_s
        self.acknowledged += outcome.acknowledged
        self.read += outcome.read
        self.leader_changes += outcome.leader_changes
        self.void += outcome.void

    def summary(self, wall_s: float) -> str:
        return (
            f"{self.schedules} schedules, {self.virtual_s / 3600:.2f} virtual hours in {wall_s:.1f} s: "
            f"{self.acknowledged} records acknowledged, {self.read} read, {self.leader_changes} changes of leaders, "
            f"{self.void} partitions void by power loss"
        )


def search(
    seed: int, schedules: int | None, deadline: float | None, seconds: float, bugs: Bugs, jobs: int, tally: Tally
) -> Outcome | None:
    """The first schedule, by seed, that violates an invariant."""

    def is_over(count: int) -> bool:
        return (schedules is not None and count >= schedules) or (deadline is not None and time.monotonic() > deadline)

    if jobs == 1 or schedules == 1:
        count = 0
        while not is_over(count):
            outcome = _run(seed + count, seconds, bugs)
            count += 1
            tally.add(outcome)
            if outcome.violation:
                return outcome
        return None
    with ProcessPoolExecutor(jobs) as pool:
        count = 0
        while not is_over(count):
            size = jobs * _CHUNK if schedules is None else min(jobs * _CHUNK, schedules - count)
            seeds = range(seed + count, seed + count + size)
            count += size
            for outcome in pool.map(_run, seeds, [seconds] * size, [bugs] * size):
                tally.add(outcome)
                if outcome.violation:
                    pool.shutdown(cancel_futures=True)
                    return outcome
    return None


def _run(seed: int, seconds: float, bugs: Bugs, lines: int = 0) -> Outcome:
    # Broken brokers complain at length, and that is what they are here for.
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    # One universe after the other: what is left of the last one is collected between them, never inside.
    gc.disable()
    try:
        return run_schedule(seed, seconds, bugs, trace_lines=lines)
    finally:
        gc.enable()
        gc.collect()
        logging.disable(disabled)


def _explain(failed: Outcome, seconds: float, bugs: Bugs, bug: str | None, lines: int) -> None:
    again = _run(failed.seed, seconds, bugs, lines)
    if (again.digest, again.violation) != (failed.digest, failed.violation):
        print(f"NOT REPEATABLE: the second time it was {again.violation} (trace {again.digest}, not {failed.digest})")
    print(f"\nschedule of seed {failed.seed}:")
    for fault in failed.schedule:
        print(f"  {fault}")
    print(f"\nlast {len(again.last_lines)} lines of the trace {failed.digest}:")
    for line in again.last_lines:
        print(f"  {line}")
    print(f"\nVIOLATED after {failed.virtual_s:.3f} virtual seconds: {failed.violation}")
    switch = f" --bug {bug}" if bug else ""
    print(f"again: python -m system_under_test.simulation --seed {failed.seed} --seconds {seconds:g}{switch}")


if __name__ == "__main__":
    sys.exit(main())
