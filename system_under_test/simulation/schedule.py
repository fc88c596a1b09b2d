"""Faults as values, and random schedules of them.

A schedule is drawn whole, from a seed, before anything runs. Roles (the leader of a partition, the controller) are
looked up when a fault strikes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random

from system_under_test.types import TopicPartition


class Kind(Enum):
    KILL = "kill"
    KILL_AT_STEP = "kill at a step"
    """Between two steps of one moment: ``amount`` steps later."""
    KILL_AT_WRITE = "kill at a write"
    """Between two changes of its disk: ``amount`` changes later."""
    LOSE_POWER = "lose power"
    LOSE_POWER_AT_WRITE = "lose power at a write"
    STOP = "stop"
    """Controlled shutdown, then a start."""
    PAUSE = "pause"
    CUT = "cut"
    """Both ways, between the target and its peer."""
    CUT_OUT = "cut out"
    """One way: what the target sends to its peer is lost."""
    CUT_IN = "cut in"
    ISOLATE = "isolate"
    """From every other broker, not from ZooKeeper nor from clients."""
    CUT_FROM_ZOOKEEPER = "cut from ZooKeeper"
    EXPIRE = "expire"
    """Its ZooKeeper session ends."""
    DROP_CONNECTIONS = "drop connections"
    SLOW = "slow"
    PREFERRED_ELECTION = "preferred election"
    MOVE_LEADER = "move leader"
    """The partition's replicas are put in another order, and the first of them is elected: nobody leaves the ISR."""
    MOVE_CONTROLLER = "move controller"
    """``/controller`` is deleted."""


class Role(Enum):
    BROKER = "broker"
    LEADER = "leader"
    FOLLOWER = "follower"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Target:
    role: Role
    broker_id: int
    """For BROKER; the fallback of roles that nobody has."""
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float
    kind: Kind
    target: Target
    peer: int
    """The other end of a link."""
    for_s: float
    amount: int = 0

    def __str__(self) -> str:
        target = f"{self.target.role.value} of {self.target.partition}"
        if self.target.role is Role.BROKER:
            target = f"broker {self.target.broker_id}"
        return f"{self.at_s:.2f} s: {self.kind.value}, {target}, peer {self.peer}, for {self.for_s:.2f} s"


_WEIGHTS: dict[Kind, int] = {
    Kind.KILL: 4,
    Kind.KILL_AT_STEP: 3,
    Kind.KILL_AT_WRITE: 2,
    Kind.LOSE_POWER: 2,
    Kind.LOSE_POWER_AT_WRITE: 1,
    Kind.STOP: 2,
    Kind.PAUSE: 4,
    Kind.CUT: 3,
    Kind.CUT_OUT: 2,
    Kind.CUT_IN: 2,
    Kind.ISOLATE: 4,
    Kind.CUT_FROM_ZOOKEEPER: 3,
    Kind.EXPIRE: 2,
    Kind.DROP_CONNECTIONS: 2,
    Kind.SLOW: 3,
    Kind.PREFERRED_ELECTION: 2,
    Kind.MOVE_LEADER: 4,
    Kind.MOVE_CONTROLLER: 3,
}
_ROLE_WEIGHTS: dict[Role, int] = {Role.BROKER: 2, Role.LEADER: 3, Role.FOLLOWER: 2, Role.CONTROLLER: 2}
_MOMENTARY = frozenset(
    {Kind.EXPIRE, Kind.DROP_CONNECTIONS, Kind.PREFERRED_ELECTION, Kind.MOVE_LEADER, Kind.MOVE_CONTROLLER}
)
_SHORT_S, _LONG_S = 0.3, 6.0


@dataclass(frozen=True, slots=True)
class Pace:
    """What the clients do meanwhile."""

    producers: int = 1
    idempotent_producers: int = 2
    think_s: float = 0.25
    acks_all_share: float = 0.8


@dataclass(frozen=True, slots=True)
class Theme:
    """What a schedule is about. Many bugs need several faults of related kinds close together."""

    kinds: tuple[Kind, ...]
    at_most: int
    """Kinds in one schedule."""
    pauses_s: tuple[float, ...]
    """One of them is the mean time between faults."""
    longest_s: float = _LONG_S
    always: tuple[Kind, ...] = ()
    """Kinds that are never left out."""
    focus: bool = False
    """All faults are aimed at one partition and its replicas."""
    pace: Pace = Pace()


@dataclass(frozen=True, slots=True)
class Schedule:
    faults: list[Fault]
    pace: Pace


_THEMES: tuple[tuple[Theme, int], ...] = (
    (Theme(tuple(Kind), 7, (0.3, 1.0, 2.5)), 2),
    (
        # Leaders change faster than ISRs: followers have to find out where histories part.
        Theme(
            (Kind.MOVE_LEADER, Kind.CUT, Kind.CUT_OUT, Kind.CUT_IN, Kind.ISOLATE, Kind.SLOW, Kind.KILL, Kind.PAUSE),
            8,
            (0.2, 0.5),
            1.5,
        ),
        2,
    ),
    (
        # One partition's leadership goes back and forth faster than its replicas can follow, while much is written
        # that nobody waits for: histories part again and again (KIP-101, KIP-279).
        Theme(
            (Kind.CUT, Kind.CUT_OUT, Kind.CUT_IN, Kind.ISOLATE, Kind.SLOW, Kind.PAUSE, Kind.MOVE_CONTROLLER),
            3,
            (0.15, 0.3),
            1.5,
            always=(Kind.MOVE_LEADER,),
            focus=True,
            pace=Pace(producers=4, idempotent_producers=1, think_s=0.05, acks_all_share=0.4),
        ),
        3,
    ),
    (
        # Controllers change while their requests are under way.
        Theme(
            (Kind.EXPIRE, Kind.SLOW, Kind.PAUSE, Kind.CUT_FROM_ZOOKEEPER),
            4,
            (0.1, 0.4),
            3.0,
            always=(Kind.MOVE_CONTROLLER, Kind.MOVE_LEADER),
        ),
        2,
    ),
)


def random_schedule(
    random: Random, brokers: tuple[int, ...], partitions: list[TopicPartition], seconds: float
) -> Schedule:
    """Faults in the order of time. They overlap; some follow each other at once, some leave time to recover."""
    theme = random.choices([each for each, _ in _THEMES], [weight for _, weight in _THEMES])[0]
    kinds = [*theme.always, *random.sample(theme.kinds, random.randint(2, theme.at_most))]
    weights = [_WEIGHTS[kind] for kind in kinds]
    pause_s = random.choice(theme.pauses_s)
    aims = [random.choice(partitions)] if theme.focus else partitions
    faults: list[Fault] = []
    at_s = random.uniform(0.1, 1.5)
    while at_s < seconds:
        kind = random.choices(kinds, weights)[0]
        role = random.choices(list(_ROLE_WEIGHTS), list(_ROLE_WEIGHTS.values()))[0]
        target = Target(role, random.choice(brokers), random.choice(aims))
        for_s = 0.0 if kind in _MOMENTARY else _SHORT_S * (theme.longest_s / _SHORT_S) ** random.random()
        faults.append(Fault(at_s, kind, target, random.choice(brokers), for_s, _amount(kind, random)))
        at_s += random.expovariate(1 / pause_s)
    return Schedule(faults, theme.pace)


def _amount(kind: Kind, random: Random) -> int:
    amounts: dict[Kind, Callable[[], int]] = {
        Kind.KILL_AT_STEP: lambda: random.randint(1, 300),
        Kind.KILL_AT_WRITE: lambda: random.randint(0, 30),
        Kind.LOSE_POWER_AT_WRITE: lambda: random.randint(0, 30),
    }
    return amounts[kind]() if kind in amounts else 0
