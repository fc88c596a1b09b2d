"""A managed Apache Kafka in ZooKeeper mode: one ZooKeeper server and N brokers, each a process of its own."""

from __future__ import annotations

import signal
from pathlib import Path

import confluent_kafka

from checkers.java import Java, find_java
from harness.fleet.base import Command, Fleet
from harness.plan import TargetPlan, TopicPlan
from harness.targets import zookeeper
from harness.targets.admin import Admin
from harness.targets.base import TargetError, broker_id, node_name
from harness.targets.kafka_home import KafkaHome, find_kafka
from harness.targets.kafka_settings import logging_properties, server_properties
from harness.targets.logs import tail
from harness.targets.waiting import wait_until
from harness.targets.zookeeper import ZooKeeper
from harness.targets.zookeeper_view import ZooKeeperView

_START_TIMEOUT_S = 120.0


class KafkaTarget:
    """See :class:`harness.targets.base.Target`."""

    name = "kafka"
    supports_faults = True

    def __init__(self, plan: TargetPlan, *, logs: Path, data: Path, fleet: Fleet) -> None:
        if plan.brokers < 1:
            raise TargetError(f"brokers = {plan.brokers}: at least one is needed")
        self._plan = plan
        self._fleet = fleet
        self._logs = logs.absolute()
        self._data = data.absolute()
        self._java: Java = find_java()
        self._kafka: KafkaHome = find_kafka(plan.kafka_home, self._java)
        self._zookeeper = ZooKeeper(fleet, self._java, self._logs, self._data)
        self.nodes = tuple(node_name(each) for each in range(1, plan.brokers + 1))
        self._ports = {node: fleet.reserve_port(node) for node in self.nodes}
        self.bootstrap = ",".join(f"{fleet.address(node)}:{port}" for node, port in self._ports.items())
        self._view: ZooKeeperView | None = None
        self._admin: Admin | None = None

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

    def start(self) -> None:
        self._zookeeper.start()
        self._view = ZooKeeperView(self._zookeeper.connect, map(broker_id, self.nodes))
        for node in self.nodes:
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
        settings, logging = data / "server.properties", data / "log4j.properties"
        settings.write_text(
            server_properties(
                self._plan,
                broker_id(node),
                self._fleet.address(node),
                self._ports[node],
                self._zookeeper.connect,
                data / "log",
            )
        )
        logging.write_text(logging_properties(logs))
        argv = (
            str(self._java.executable),
            "-Xms128m",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            # Several virtual machines share few cores; what the second compiler would win, it costs here.
            "-XX:TieredStopAtLevel=1",
            "-Djava.awt.headless=true",
            f"-Dlog4j.configuration=file:{logging}",
            "-cp",
            f"{self._kafka.libs}/*",
            "kafka.Kafka",
            str(settings),
        )
        self._fleet.start(node, Command(argv, cwd=data, log=logs / "stdout.log"))

    def _await_member(self, node: str, timeout_s: float) -> None:
        def is_member() -> bool:
            if not self._fleet.is_alive(node):
                code = self._fleet.exit_code(node)
                raise TargetError(f"{node} ended with code {code} while it started:\n{tail(self._logs / node)}")
            return self.registered(node) is True

        wait_until(is_member, timeout_s, lambda: f"{node} runs but does not register; see {self._logs / node}")

    def stop(self) -> None:
        if self._view is not None:
            self._view.close()
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

    def versions(self) -> dict[str, str]:
        return {
            "target": f"Apache Kafka {self._kafka.version}",
            "zookeeper": zookeeper.version(),
            "java": f"{self._java.version} ({self._java.origin})",
            "librdkafka": confluent_kafka.libversion()[0],
        }

    def start_node(self, node: str, timeout_s: float = 60.0) -> None:
        if self._fleet.is_alive(node):
            return
        # A broker refuses to start while the registration of its former life is there, and that lasts
        # until ZooKeeper gives up the session of the killed process.
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

    def registered(self, node: str) -> bool | None:
        return self.view.registered(broker_id(node))
