"""What the runner needs of a broker cluster, whoever made it.

A node is called ``broker-N``, where N is its broker id. Faults are done to nodes; roles are looked up in
the target's view, which reaches the cluster over a management link.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.fleet.base import Links
from harness.plan import TopicPlan
from nemesis.control import ControlError
from nemesis.view import ClusterView


class TargetError(ControlError):
    """The cluster cannot be brought up or does not answer; the message says what to do."""


def node_name(broker_id: int) -> str:
    return f"broker-{broker_id}"


def broker_id(node: str) -> int:
    return int(node.removeprefix("broker-"))


@dataclass(frozen=True)
class PartitionState:
    leader: int | None
    leader_epoch: int | None
    isr: tuple[int, ...]
    controller_epoch: int | None = None


@dataclass(frozen=True)
class Snapshot:
    """A cluster as it saw itself at one moment."""

    brokers: dict[int, int] = field(default_factory=dict)
    """Registered broker ids, each with a number that changes when the broker registers anew."""
    controller: int | None = None
    controller_epoch: int | None = None
    partitions: dict[tuple[str, int], PartitionState] = field(default_factory=dict)


class TargetView(ClusterView, Protocol):
    """The nemesis' questions, and the whole picture for the watcher."""

    def registered(self, broker: int) -> bool | None:
        """Whether the cluster counts this broker as a member; None: nobody knows right now."""

    def snapshot(self, wanted: Callable[[str], bool]) -> Snapshot | None:
        """Everything about the wanted topics; None: nobody knows right now."""

    def close(self) -> None:
        """Let go of the management link. Idempotent."""


class Target(Protocol):
    @property
    def name(self) -> str:
        """``kafka``, ``existing``."""

    @property
    def supports_faults(self) -> bool:
        """Whether the node methods below do anything but raise."""

    @property
    def bootstrap(self) -> str:
        """Bootstrap servers for clients; known once started."""

    @property
    def nodes(self) -> tuple[str, ...]: ...

    @property
    def links(self) -> Links | None:
        """Between the hosts of its nodes, its ZooKeeper and the clients; None: they have none of their own."""

    @property
    def view(self) -> TargetView:
        """Available once started."""

    def start(self) -> None:
        """Bring the cluster up and wait until it answers."""

    def stop(self) -> None:
        """Take it down. Idempotent; leaves the data."""

    def create_topic(self, name: str, plan: TopicPlan, timeout_s: float = 60.0) -> None:
        """Create a topic and wait until every partition has a leader."""

    def delete_topic(self, name: str, timeout_s: float = 60.0) -> None:
        """Delete a topic. No error when it is not there."""

    def versions(self) -> dict[str, str]: ...

    def start_node(self, node: str, timeout_s: float = 60.0) -> None:
        """Start a node that is down and wait until it is a member again. No-op when it is up."""

    def kill_node(self, node: str) -> None:
        """SIGKILL."""

    def stop_node(self, node: str, timeout_s: float = 30.0) -> None:
        """SIGTERM: a controlled shutdown; SIGKILL when that takes longer than the time-out."""

    def pause_node(self, node: str) -> None:
        """SIGSTOP."""

    def resume_node(self, node: str) -> None:
        """SIGCONT."""

    def pid(self, node: str) -> int | None: ...

    def state(self, node: str) -> str | None:
        """The kernel's word on the node's process, see :class:`harness.fleet.base.Fleet`."""

    def registered(self, node: str) -> bool | None:
        """Whether the cluster counts this node as a member; None: nobody knows right now."""

    def log_dirs(self) -> dict[int, Path]:
        """Where each broker keeps its logs, in Kafka's format; empty where we cannot look."""
