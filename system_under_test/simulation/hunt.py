"""How long random schedules take to find each bug switch: ``python -m system_under_test.simulation --hunt all --seeds 10``.

Each hunt begins at a seed of its own and counts up, one schedule after the other in one process, until an invariant is
violated. Beside the time on the wall stands the processor's, which does not depend on who else works on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from system_under_test.bugs import Bug
from system_under_test.simulation.run import Outcome

FIRST_SEED, SEEDS_APART = 1_000_000, 100_000

RunOne = Callable[[int, frozenset[Bug]], Outcome]


@dataclass(frozen=True, slots=True)
class Hunt:
    bug: Bug
    seed: int
    found: Outcome | None
    schedules: int
    wall_s: float
    cpu_s: float

    def __str__(self) -> str:
        what = "NOT FOUND" if self.found is None else f"seed {self.found.seed}: {self.found.violation}"
        return f"{self.bug.value:<28} {self.schedules:4} schedules {self.wall_s:6.1f} s {self.cpu_s:6.1f} s CPU  {what:.110}"


def hunts(bugs: list[Bug], seeds: int, limit_s: float, run_one: RunOne) -> Iterator[Hunt]:
    """``limit_s``: time on the wall for each."""
    for bug in bugs:
        for number in range(seeds):
            yield _hunt(bug, FIRST_SEED + number * SEEDS_APART, limit_s, run_one)


def _hunt(bug: Bug, seed: int, limit_s: float, run_one: RunOne) -> Hunt:
    wall, cpu = time.monotonic(), time.process_time()
    schedules, found = 0, None
    while found is None and time.monotonic() - wall < limit_s:
        outcome = run_one(seed + schedules, frozenset({bug}))
        schedules += 1
        found = outcome if outcome.violation else None
    return Hunt(bug, seed, found, schedules, time.monotonic() - wall, time.process_time() - cpu)


def table(done: list[Hunt]) -> str:
    """Markdown: a line for each bug."""
    lines = [
        "| bug switch | found | schedules, median and most | CPU seconds, median and most | invariants |",
        "|---|---|---|---|---|",
    ]
    for bug in dict.fromkeys(each.bug for each in done):
        of_it = [each for each in done if each.bug is bug]
        found = [each for each in of_it if each.found is not None]
        schedules = sorted(each.schedules for each in of_it)
        cpu = sorted(each.cpu_s for each in of_it)
        middle = len(of_it) // 2
        names = sorted({str(each.found.violation).partition(":")[0] for each in found if each.found})
        lines.append(
            f"| {bug.value} | {len(found)} of {len(of_it)} | {schedules[middle]}, {schedules[-1]} "
            f"| {cpu[middle]:.1f}, {cpu[-1]:.1f} | {', '.join(names)} |"
        )
    return "\n".join(lines)
