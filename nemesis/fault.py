"""What a fault is: a frozen value without state, so that it can be carried out, healed, and healed again by anyone.

When it fires it is given an :class:`Aim`, which holds all that was chosen for this one time. ``evidence`` compares the
world with what it was before: a fault that changed nothing has none.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from harness.fleet.base import Link
from nemesis.control import NodeControl


class Kind(StrEnum):
    KILL = "kill"
    STOP = "stop"
    RESTART = "restart"
    PAUSE = "pause"
    ISOLATE = "isolate"
    MUTE = "mute"
    DEAF = "deaf"
    CUT_BROKERS = "cut-brokers"
    CUT_ZOOKEEPER = "cut-zookeeper"
    CUT_CLIENTS = "cut-clients"
    HALVES = "halves"
    MAJORITY = "majority"
    RING = "ring"
    BRIDGE = "bridge"
    LOSS = "loss"
    BANDWIDTH = "bandwidth"
    DELAY = "delay"


@dataclass(frozen=True)
class Aim:
    """What one fault of one schedule hits."""

    cause: str
    """A name of its own, by which what it does to links is counted and undone."""
    node: str
    pid: int | None
    """Of the process that is there before; None: there is none."""
    links: tuple[Link, ...] = ()
    """Which links it drops packets on."""


@dataclass(frozen=True)
class Fault(ABC):
    kind: ClassVar[Kind]
    holds: ClassVar[bool] = True
    """Whether it stays in force until it is healed; a restart is over when it is done."""

    def unavailable(self, control: NodeControl) -> str | None:
        """Why it cannot be done here; None: it can."""
        if not control.supports_faults:
            return "this target is not managed by the harness, so its processes cannot be touched"
        return None

    def draw(self, control: NodeControl, node: str, rng: random.Random) -> Collection[Link]:  # noqa: ARG002
        """The links that it will drop packets on."""
        return ()

    @abstractmethod
    def inject(self, control: NodeControl, aim: Aim) -> None: ...

    @abstractmethod
    def evidence(self, control: NodeControl, aim: Aim) -> str | None:
        """The proof that it landed, as a sentence; None: there is none (yet)."""

    @abstractmethod
    def heal(self, control: NodeControl, aim: Aim) -> str:
        """Undo it; how things are then, as a sentence. Idempotent.

        Returns when the node's process is up and a member again, or its links carry again; not when it is in sync.
        """
