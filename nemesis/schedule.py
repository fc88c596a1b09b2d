"""When which fault strikes whom: drawn from a seed, or taken from the record of an earlier run.

Each of the ``at_once`` lanes is a sequence of quiet time, fault, quiet time, fault; so no more than that many
faults are in force. The first faults of a schedule are the ones that find the most (kill the leader, kill
the controller, pause or isolate the leader beyond its session), so that a short run has seen them too.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.fleet.base import Link
from nemesis.fault import Kind
from nemesis.faults import FAULTS
from nemesis.selectors import CONTROLLER, LEADER, check_role

_COVERED_FIRST = ((Kind.KILL, LEADER), (Kind.KILL, CONTROLLER), (Kind.PAUSE, LEADER), (Kind.ISOLATE, LEADER))
_SHORTEST_HOLD_S = 1.0


@dataclass(frozen=True)
class Settings:
    kinds: tuple[str, ...]
    roles: tuple[str, ...]
    interval_s: float
    """Mean quiet time between two faults of one lane."""
    hold_s: float
    """Mean time a fault stays in force."""
    at_once: int = 1

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in FAULTS:
                raise ValueError(f"unknown fault {kind!r}; there are {', '.join(FAULTS)}")
        for role in self.roles:
            check_role(role)
        if self.kinds and not self.roles:
            raise ValueError("faults without roles: name whom they hit (leader, controller, any, broker-N)")
        if self.interval_s <= 0 or self.hold_s <= 0 or self.at_once < 1:
            raise ValueError("interval_s and hold_s must be positive, at_once at least 1")


@dataclass(frozen=True)
class PlannedFault:
    fault_id: int
    at_s: float
    """Since the start of the nemesis."""
    hold_s: float
    kind: Kind
    role: str
    links: tuple[Link, ...] | None = None
    """Of a replay: the very links; None: the fault draws them when it fires."""


def plan_schedule(settings: Settings, rng: random.Random, time_limit_s: float) -> list[PlannedFault]:
    """Faults in order of time; all are due to be healed within the limit."""
    if not settings.kinds:
        return []
    drawn = [fault for _ in range(settings.at_once) for fault in _lane(settings, rng, time_limit_s)]
    drawn.sort(key=lambda fault: fault.at_s)
    first = [(kind, role) for kind, role in _COVERED_FIRST if kind in settings.kinds and role in settings.roles]
    rng.shuffle(first)
    planned = []
    for number, fault in enumerate(drawn):
        if number < len(first):
            kind, role = first[number]
            # Not shorter than the mean, which the plan has chosen such that leaders move.
            hold_s = min(max(fault.hold_s, settings.hold_s), time_limit_s - fault.at_s)
            fault = replace(fault, kind=kind, role=role, hold_s=hold_s)
        hold_s = round(fault.hold_s, 3) if FAULTS[fault.kind].holds else 0.0
        planned.append(replace(fault, fault_id=number, at_s=round(fault.at_s, 3), hold_s=hold_s))
    return planned


def _lane(settings: Settings, rng: random.Random, time_limit_s: float) -> Iterable[PlannedFault]:
    # A short run must see a fault early, or it sees none.
    at_s = min(settings.interval_s * rng.uniform(0.5, 1.5), time_limit_s * 0.25)
    while time_limit_s - at_s > _SHORTEST_HOLD_S:
        hold_s = min(settings.hold_s * rng.uniform(0.4, 1.6), time_limit_s - at_s)
        kind, role = Kind(rng.choice(settings.kinds)), rng.choice(settings.roles)
        yield PlannedFault(0, at_s, hold_s, kind, role)
        at_s += hold_s + settings.interval_s * rng.uniform(0.5, 1.5)


def replay_schedule(executed: Iterable[Mapping[str, Any]]) -> list[PlannedFault]:
    """The same faults at the same times on the same nodes; input as of ``Nemesis.executed``."""
    schedule = [
        PlannedFault(
            fault_id=int(each["fault_id"]),
            at_s=float(each["at_s"]),
            hold_s=float(each["hold_s"]),
            kind=Kind(each["kind"]),
            role=str(each["node"]),
            links=tuple(Link(*link) for link in each["links"]),
        )
        for each in executed
        if each["node"] is not None  # never found its target, so it did nothing
    ]
    return sorted(schedule, key=lambda fault: (fault.at_s, fault.fault_id))
