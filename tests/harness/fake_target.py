"""A cluster of sleeping processes, for whole runs in seconds: every fault on it is real, every client is in memory."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path

from harness.fleet.base import Command, Fleet
from harness.plan import TargetPlan, TopicPlan
from harness.targets.base import PartitionState, Snapshot, broker_id, node_name


class FakeTarget:
    """See :class:`harness.targets.base.Target`. ``reached(phase)`` is called where a test may want to hold it."""

    name = "fake"
    supports_faults = True
    bootstrap = "nowhere:1"

    def __init__(
        self, plan: TargetPlan, *, logs: Path, data: Path, fleet: Fleet, reached: Callable[[str], None]
    ) -> None:
        self.nodes = tuple(node_name(number) for number in range(1, plan.brokers + 1))
        self.reached = reached
        self.view = FakeView(self)
        self._logs = logs
        self._data = data
        self._fleet = fleet
        self.links = fleet.links

    def start(self) -> None:
        for node in self.nodes:
            self._launch(node)
        self.reached("up")

    def _launch(self, node: str) -> None:
        self._data.mkdir(exist_ok=True)
        self._fleet.start(node, Command(("sleep", "600"), cwd=self._data, log=self._logs / f"{node}.log"))

    def stop(self) -> None:
        for node in self.nodes:
            self._fleet.signal(node, signal.SIGKILL)
            self._fleet.stop(node)

    def create_topic(self, name: str, plan: TopicPlan, timeout_s: float = 60.0) -> None:
        """Clients in memory need none."""

    def delete_topic(self, name: str, timeout_s: float = 60.0) -> None:
        """There is none."""

    def versions(self) -> dict[str, str]:
        return {"target": "sleep"}

    def start_node(self, node: str, timeout_s: float = 60.0) -> None:  # noqa: ARG002
        self.reached("heal")
        if not self._fleet.is_alive(node):
            self._launch(node)

    def kill_node(self, node: str) -> None:
        self._fleet.signal(node, signal.SIGKILL)

    def stop_node(self, node: str, timeout_s: float = 30.0) -> None:
        self._fleet.stop(node, grace_s=timeout_s)

    def pause_node(self, node: str) -> None:
        self._fleet.signal(node, signal.SIGSTOP)

    def resume_node(self, node: str) -> None:
        self._fleet.signal(node, signal.SIGCONT)

    def pid(self, node: str) -> int | None:
        return self._fleet.pid(node)

    def state(self, node: str) -> str | None:
        return self._fleet.state(node)

    def log_dirs(self) -> dict[int, Path]:
        return {}

    def registered(self, node: str) -> bool | None:
        return self._fleet.is_alive(node)


class FakeView:
    """Every process that is there is a member, and the first one leads everything."""

    def __init__(self, target: FakeTarget) -> None:
        self._target = target

    def _members(self) -> tuple[int, ...]:
        return tuple(broker_id(node) for node in self._target.nodes if self._target.registered(node))

    def controller(self) -> int | None:
        return next(iter(self._members()), None)

    def controller_epoch(self) -> int | None:
        return 1

    def leader(self, topic: str, partition: int) -> int | None:  # noqa: ARG002
        return next(iter(self._members()), None)

    def in_sync_replicas(self, topic: str, partition: int) -> tuple[int, ...] | None:  # noqa: ARG002
        return self._members()

    def registered(self, broker: int) -> bool | None:
        return broker in self._members()

    def snapshot(self, wanted: Callable[[str], bool]) -> Snapshot | None:  # noqa: ARG002
        members = self._members()
        state = PartitionState(self.controller(), 1, members)
        return Snapshot(dict.fromkeys(members, 1), self.controller(), 1, {("t", 0): state})

    def unhealthy(self) -> list[str]:
        # Only the runner asks in the main thread; the nemesis has threads of its own.
        if threading.current_thread() is threading.main_thread():
            self._target.reached("recover")
        missing = len(self._target.nodes) - len(self._members())
        return [f"{missing} nodes are down"] if missing else []

    def close(self) -> None:
        """Nothing is held."""
