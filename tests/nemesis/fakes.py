"""A cluster made of a dictionary, with hands that can be told to fail or to do nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from harness.fleet.base import FleetError, Link, Links, Queue
from histories.recorded import RecordedEvent
from nemesis.control import ControlError


def wait_until(condition: Callable[[], bool], awaited: str, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {awaited}"
        time.sleep(0.005)


class FakeLinks:
    """Links that count a packet in every direction whenever they are asked."""

    def __init__(self, hosts: tuple[str, ...]) -> None:
        self.hosts = hosts
        self.inert = False
        self.missing: dict[str, str] = {}
        self.cuts: dict[str, dict[Link, int]] = {}
        self.slow: dict[str, str] = {}

    def unavailable(self, what: str) -> str | None:
        return self.missing.get(what)

    def cut(self, cause: str, links: Collection[Link]) -> None:
        if cause in self.cuts:
            raise FleetError(f"{cause} drops packets already")
        self.cuts[cause] = dict.fromkeys(links, 0)

    def lose(self, cause: str, links: Collection[Link], share: float) -> None:  # noqa: ARG002
        self.cut(cause, links)

    def dropped(self, cause: str) -> dict[Link, int]:
        there = self.cuts.get(cause, {})
        if not self.inert:
            there.update({link: count + 1 for link, count in there.items()})
        return dict(there)

    def throttle(self, cause: str, host: str, kbit_per_s: int) -> None:  # noqa: ARG002
        self.slow[cause] = host

    def delay(self, cause: str, host: str, delay_ms: float, jitter_ms: float) -> None:  # noqa: ARG002
        self.slow[cause] = host

    def queue(self, cause: str) -> Queue | None:
        if cause not in self.slow:
            return None
        return Queue(0, 0, 0) if self.inert else Queue(5, 3, 1)

    def heal(self, cause: str) -> None:
        self.cuts.pop(cause, None)
        self.slow.pop(cause, None)

    @property
    def all_whole(self) -> bool:
        return not self.cuts and not self.slow


class FakeCluster:
    """NodeControl and ClusterView in one."""

    supports_faults = True
    links: Links | None = None

    def __init__(self, brokers: int = 3) -> None:
        self.nodes = tuple(f"broker-{each}" for each in range(1, brokers + 1))
        self.pids: dict[str, int | None] = {node: 100 + i for i, node in enumerate(self.nodes)}
        self.paused: set[str] = set()
        self.calls: list[tuple[str, str]] = []
        self.inert = False
        """Every fault is a no-op."""
        self.refusals = 0
        """How many starts fail."""
        self.controller_id: int | None = 1
        self.leaders: dict[tuple[str, int], int] = {("t", 0): 2, ("t", 1): 3}
        self.most_down = 0
        self._lock = threading.Lock()
        self._next_pid = 1000

    def with_links(self) -> FakeLinks:
        """The same cluster on hosts of their own, with a ZooKeeper and two groups of clients."""
        links = FakeLinks((*self.nodes, "zookeeper-1", "worker-0", "worker-1"))
        self.links = links
        return links

    def _note(self, what: str, node: str) -> None:
        self.calls.append((what, node))

    def _count(self) -> None:
        down = {node for node, pid in self.pids.items() if pid is None} | self.paused
        self.most_down = max(self.most_down, len(down))

    def start_node(self, node: str, timeout_s: float = 60.0) -> None:  # noqa: ARG002
        with self._lock:
            self._note("start", node)
            if self.refusals:
                self.refusals -= 1
                raise ControlError(f"{node} does not start")
            if self.pids[node] is None:
                self._next_pid += 1
                self.pids[node] = self._next_pid

    def kill_node(self, node: str) -> None:
        with self._lock:
            self._note("kill", node)
            if not self.inert:
                self.pids[node] = None
            self._count()

    def stop_node(self, node: str, timeout_s: float = 30.0) -> None:  # noqa: ARG002
        with self._lock:
            self._note("stop", node)
            if not self.inert:
                self.pids[node] = None
            self._count()

    def pause_node(self, node: str) -> None:
        with self._lock:
            self._note("pause", node)
            if not self.inert:
                self.paused.add(node)
            self._count()

    def resume_node(self, node: str) -> None:
        with self._lock:
            self._note("resume", node)
            self.paused.discard(node)

    def pid(self, node: str) -> int | None:
        return self.pids[node]

    def state(self, node: str) -> str | None:
        return None if self.pids[node] is None else "T" if node in self.paused else "S"

    def registered(self, node: str) -> bool | None:
        return self.pids[node] is not None

    def controller(self) -> int | None:
        return self.controller_id

    def controller_epoch(self) -> int | None:
        return 1

    def leader(self, topic: str, partition: int) -> int | None:
        return self.leaders.get((topic, partition))

    def in_sync_replicas(self, topic: str, partition: int) -> tuple[int, ...] | None:  # noqa: ARG002
        return (1, 2, 3)

    def unhealthy(self) -> list[str]:
        return []

    def keys(self) -> list[tuple[str, int, int]]:
        return [(topic, partition, number) for number, (topic, partition) in enumerate(sorted(self.leaders))]


class Recorder:
    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []

    def __call__(self, event: RecordedEvent) -> None:
        self.events.append(event)

    def kinds(self, fault_id: int | None = None) -> list[str]:
        return [each.kind for each in self.events if fault_id is None or each.fault_id == fault_id]
