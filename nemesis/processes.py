"""Process faults: what each does to a node's process, what proves that it landed, and how it is undone."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from nemesis.control import NodeControl
from nemesis.fault import Aim, Fault, Kind


@dataclass(frozen=True)
class ProcessFault(Fault):
    def heal(self, control: NodeControl, aim: Aim) -> str:
        self._restore(control, aim.node)
        return f"{aim.node} runs as process {control.pid(aim.node)}"

    @abstractmethod
    def _restore(self, control: NodeControl, node: str) -> None: ...


def _gone(control: NodeControl, aim: Aim) -> str | None:
    if aim.pid is None or control.pid(aim.node) == aim.pid:
        return None
    return f"process {aim.pid} is gone"


@dataclass(frozen=True)
class Kill(ProcessFault):
    """SIGKILL: nothing is flushed, nobody is told, the session lives on until it times out."""

    kind: ClassVar[Kind] = Kind.KILL

    def inject(self, control: NodeControl, aim: Aim) -> None:
        control.kill_node(aim.node)

    def evidence(self, control: NodeControl, aim: Aim) -> str | None:
        return _gone(control, aim)

    def _restore(self, control: NodeControl, node: str) -> None:
        control.start_node(node)


@dataclass(frozen=True)
class Stop(ProcessFault):
    """SIGTERM: a controlled shutdown, in which the broker hands over its leaders first."""

    kind: ClassVar[Kind] = Kind.STOP

    def inject(self, control: NodeControl, aim: Aim) -> None:
        control.stop_node(aim.node)

    def evidence(self, control: NodeControl, aim: Aim) -> str | None:
        gone = _gone(control, aim)
        if gone and control.registered(aim.node) is False:
            gone += ", its registration was withdrawn"
        return gone

    def _restore(self, control: NodeControl, node: str) -> None:
        control.start_node(node)


@dataclass(frozen=True)
class Restart(ProcessFault):
    """A controlled shutdown, and up again at once."""

    kind: ClassVar[Kind] = Kind.RESTART
    holds: ClassVar[bool] = False

    def inject(self, control: NodeControl, aim: Aim) -> None:
        control.stop_node(aim.node)
        control.start_node(aim.node)

    def evidence(self, control: NodeControl, aim: Aim) -> str | None:
        pid = control.pid(aim.node)
        if aim.pid is None or pid is None or pid == aim.pid:
            return None
        return f"process {aim.pid} was replaced by process {pid}"

    def _restore(self, control: NodeControl, node: str) -> None:
        control.start_node(node)


@dataclass(frozen=True)
class Pause(ProcessFault):
    """SIGSTOP: the broker misses everything, and on waking believes for a moment that nothing happened."""

    kind: ClassVar[Kind] = Kind.PAUSE

    def inject(self, control: NodeControl, aim: Aim) -> None:
        control.pause_node(aim.node)

    def evidence(self, control: NodeControl, aim: Aim) -> str | None:
        if aim.pid is None or control.pid(aim.node) != aim.pid or control.state(aim.node) != "T":
            return None
        return f"process {aim.pid} is in state T (stopped)"

    def _restore(self, control: NodeControl, node: str) -> None:
        control.resume_node(node)


PROCESS_FAULTS: tuple[ProcessFault, ...] = (Kill(), Stop(), Restart(), Pause())
