"""A cluster that Tidemark runs itself: one ZooKeeper server and N brokers, each a process of its own.

What a broker is (Apache Kafka, the shipped one) is the business of a subclass: it writes the broker's settings and
names the command that starts it.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from pathlib import Path

import confluent_kafka

from checkers.java import Java, find_java
from harness.fleet.base import Command, Fleet, Links
from harness.plan import TargetPlan, TopicPlan
from harness.targets import zookeeper
from harness.targets.admin import Admin
from harness.targets.base import TargetError, broker_id, node_name
from harness.targets.logs import tail
from harness.targets.waiting import wait_until
from harness.targets.zookeeper import ExistingZooKeeper, ZooKeeper
from harness.targets.zookeeper_view import ZooKeeperView

_START_TIMEOUT_S = 120.0


class ManagedTarget(ABC):
    """See :class:`harness.targets.base.Target`."""

    supports_faults = True
    first_id = 1

    def __init__(self, plan: TargetPlan, *, logs: Path, data: Path, fleet: Fleet) -> None:
        if plan.brokers < 1:
            raise TargetError(f"brokers = {plan.brokers}: at least one is needed")
        self._plan = plan
        self._fleet = fleet
        self._logs = logs.absolute()
        self._data = data.absolute()
        self._java: Java = find_java()
        self._zookeeper: ZooKeeper | ExistingZooKeeper = (
            ExistingZooKeeper(plan.zookeeper)
            if plan.zookeeper
            else ZooKeeper(fleet, self._java, self._logs, self._data)
        )
        self.nodes = tuple(node_name(self.first_id + each) for each in range(plan.brokers))
        self._ports = {node: fleet.reserve_port(node) for node in self.nodes}
        self.bootstrap = ",".join(f"{fleet.address(node)}:{port}" for node, port in self._ports.items())
        self._view: ZooKeeperView | None = None
        self._admin: Admin | None = None

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def _command(self, node: str, logs: Path, data: Path) -> Command:
        """Write what the broker needs into these folders, which exist; the command that starts it."""

    @abstractmethod
    def versions(self) -> dict[str, str]: ...

    def _common_versions(self) -> dict[str, str]:
        return {
            "zookeeper": zookeeper.version(),
            "java": f"{self._java.version} ({self._java.origin})",
            "librdkafka": confluent_kafka.libversion()[0],
        }

    @property
    def view(self) -> ZooKeeperView:
        if self._view is None:
            raise TargetError("the target is not started")
        return self._view

    @property
    def admin(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(self.bootstrap)
        return self._admin

    @property
    def links(self) -> Links | None:
        return self._fleet.links

    @property
    def zookeeper_connect(self) -> str:
        return self._zookeeper.connect

    def attach(self) -> None:
        """Look at a cluster that another command has started."""
        if self._view is None:
            self._view = ZooKeeperView(self._zookeeper.connect, map(broker_id, self.nodes))

    def detach(self) -> None:
        """Let go of the management link; the cluster goes on."""
        if self._view is not None:
            self._view.close()
            self._view = None

    def start(self) -> None:
        self._zookeeper.start()
        self.attach()
        for node in self.nodes:
            if not self._fleet.is_alive(node):
                self._launch(node)
        for node in self.nodes:
            self._await_member(node, _START_TIMEOUT_S)
        wait_until(self._answers, _START_TIMEOUT_S, lambda: f"the brokers at {self.bootstrap} do not answer")

    def _answers(self) -> bool:
        metadata = self.admin.metadata()
        return metadata is not None and len(metadata.brokers) == len(self.nodes)

    def _launch(self, node: str) -> None:
        logs, data = self._logs / node, self._data / node
        for folder in (logs, data):
            folder.mkdir(parents=True, exist_ok=True)
        self._fleet.start(node, self._command(node, logs, data))

    def _await_member(self, node: str, timeout_s: float) -> None:
        def is_member() -> bool:
            if not self._fleet.is_alive(node):
                code = self._fleet.exit_code(node)
                raise TargetError(f"{node} ended with code {code} while it started:\n{tail(self._logs / node)}")
            return self.registered(node) is True

        wait_until(is_member, timeout_s, lambda: f"{node} runs but does not register; see {self._logs / node}")

    def stop(self) -> None:
        self.detach()
        # Nobody will use this data again: no controlled shutdown, which takes seconds per broker.
        for node in self.nodes:
            self._fleet.signal(node, signal.SIGKILL)
        for node in self.nodes:
            self._fleet.stop(node)
        self._zookeeper.stop()

    def create_topic(self, name: str, plan: TopicPlan, timeout_s: float = 60.0) -> None:
        self.admin.create_topic(name, plan, timeout_s)

    def delete_topic(self, name: str, timeout_s: float = 60.0) -> None:
        self.admin.delete_topic(name, timeout_s)

    def start_node(self, node: str, timeout_s: float = 60.0) -> None:
        if self._fleet.is_alive(node):
            return
        # A registration of its former life stays until ZooKeeper gives up the session of the killed process. A
        # broker of Apache Kafka refuses to start before that.
        wait_until(
            lambda: self.registered(node) is False,
            timeout_s,
            lambda: f"the registration that {node} left behind does not expire",
        )
        self._launch(node)
        self._await_member(node, timeout_s)

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
        return {broker_id(node): self._data / node / "log" for node in self.nodes}

    def registered(self, node: str) -> bool | None:
        return self.view.registered(broker_id(node))
