"""What the nemesis can do to the nodes of a cluster. Targets in ``harness.targets`` implement it."""

from __future__ import annotations

from typing import Protocol

from harness.fleet.base import Links


class ControlError(Exception):
    """A node could not be started, stopped or signalled; the message says why."""


class NodeControl(Protocol):
    """Raises :class:`ControlError` or ``harness.fleet.base.FleetError``. May be called from any thread."""

    @property
    def supports_faults(self) -> bool:
        """Whether these nodes may be broken at all."""

    @property
    def links(self) -> Links | None:
        """The links between the hosts of nodes, ZooKeeper and clients; None: they have none of their own."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """``broker-1``, ... where the number is the broker id."""

    def start_node(self, node: str, timeout_s: float = 60.0) -> None:
        """Start a node that is down and wait until it is a member again. No-op when it is up."""

    def kill_node(self, node: str) -> None:
        """SIGKILL."""

    def stop_node(self, node: str, timeout_s: float = 30.0) -> None:
        """SIGTERM and wait for the end."""

    def pause_node(self, node: str) -> None:
        """SIGSTOP."""

    def resume_node(self, node: str) -> None:
        """SIGCONT."""

    def pid(self, node: str) -> int | None:
        """Process id; None: there is no process."""

    def state(self, node: str) -> str | None:
        """The kernel's word on the process (``T``: paused); None: there is no process."""

    def registered(self, node: str) -> bool | None:
        """Whether the cluster counts this node as a member; None: nobody knows right now."""
