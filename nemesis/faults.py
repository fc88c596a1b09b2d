"""Process faults: what each does to a node, what proves that it landed, and how it is undone.

A fault is a frozen value without state, so that it can be carried out, healed, and healed again by anyone.
``evidence`` compares the node with the process that was there before: a fault that changed nothing has none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from nemesis.control import NodeControl


class Kind(StrEnum):
    KILL = "kill"
    STOP = "stop"
    RESTART = "restart"
    PAUSE = "pause"


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

    @abstractmethod
    def inject(self, control: NodeControl, node: str) -> None: ...

    @abstractmethod
    def evidence(self, control: NodeControl, node: str, pid_before: int | None) -> str | None:
        """The proof that it landed, as a sentence; None: there is none (yet)."""

    @abstractmethod
    def heal(self, control: NodeControl, node: str) -> None:
        """Idempotent. Returns when the node's process is up and a member again, not when it is in sync."""


def _gone(control: NodeControl, node: str, pid_before: int | None) -> str | None:
    if pid_before is None or control.pid(node) == pid_before:
        return None
    return f"process {pid_before} is gone"


@dataclass(frozen=True)
class Kill(Fault):
    """SIGKILL: nothing is flushed, nobody is told, the session lives on until it times out."""

    kind: ClassVar[Kind] = Kind.KILL

    def inject(self, control: NodeControl, node: str) -> None:
        control.kill_node(node)

    def evidence(self, control: NodeControl, node: str, pid_before: int | None) -> str | None:
        return _gone(control, node, pid_before)

    def heal(self, control: NodeControl, node: str) -> None:
        control.start_node(node)


@dataclass(frozen=True)
class Stop(Fault):
    """SIGTERM: a controlled shutdown, in which the broker hands over its leaders first."""

    kind: ClassVar[Kind] = Kind.STOP

    def inject(self, control: NodeControl, node: str) -> None:
        control.stop_node(node)

    def evidence(self, control: NodeControl, node: str, pid_before: int | None) -> str | None:
        gone = _gone(control, node, pid_before)
        if gone and control.registered(node) is False:
            gone += ", its registration was withdrawn"
        return gone

    def heal(self, control: NodeControl, node: str) -> None:
        control.start_node(node)


@dataclass(frozen=True)
class Restart(Fault):
    """A controlled shutdown, and up again at once."""

    kind: ClassVar[Kind] = Kind.RESTART
    holds: ClassVar[bool] = False

    def inject(self, control: NodeControl, node: str) -> None:
        control.stop_node(node)
        control.start_node(node)

    def evidence(self, control: NodeControl, node: str, pid_before: int | None) -> str | None:
        pid = control.pid(node)
        if pid_before is None or pid is None or pid == pid_before:
            return None
        return f"process {pid_before} was replaced by process {pid}"

    def heal(self, control: NodeControl, node: str) -> None:
        control.start_node(node)


@dataclass(frozen=True)
class Pause(Fault):
    """SIGSTOP: the broker misses everything, and on waking believes for a moment that nothing happened."""

    kind: ClassVar[Kind] = Kind.PAUSE

    def inject(self, control: NodeControl, node: str) -> None:
        control.pause_node(node)

    def evidence(self, control: NodeControl, node: str, pid_before: int | None) -> str | None:
        if pid_before is None or control.pid(node) != pid_before or control.state(node) != "T":
            return None
        return f"process {pid_before} is in state T (stopped)"

    def heal(self, control: NodeControl, node: str) -> None:
        control.resume_node(node)


FAULTS: dict[Kind, Fault] = {fault.kind: fault for fault in (Kill(), Stop(), Restart(), Pause())}
