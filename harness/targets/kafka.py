"""A managed Apache Kafka in ZooKeeper mode."""

from __future__ import annotations

from pathlib import Path

from harness.fleet.base import Command, Fleet
from harness.plan import TargetPlan
from harness.targets.base import broker_id
from harness.targets.kafka_home import KafkaHome, find_kafka
from harness.targets.kafka_settings import logging_properties, server_properties
from harness.targets.managed import ManagedTarget


class KafkaTarget(ManagedTarget):
    name = "kafka"
    java_options: tuple[str, ...] = (
        "-Xms128m",
        "-Xmx512m",
        "-XX:+UseSerialGC",
        # Several virtual machines share few cores; what the second compiler would win, it costs here.
        "-XX:TieredStopAtLevel=1",
    )

    def __init__(self, plan: TargetPlan, *, logs: Path, data: Path, fleet: Fleet) -> None:
        super().__init__(plan, logs=logs, data=data, fleet=fleet)
        self._kafka: KafkaHome = find_kafka(plan.kafka_home, self._java)

    def _command(self, node: str, logs: Path, data: Path) -> Command:
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
            *self.java_options,
            "-Djava.awt.headless=true",
            f"-Dlog4j.configuration=file:{logging}",
            "-cp",
            f"{self._kafka.libs}/*",
            "kafka.Kafka",
            str(settings),
        )
        return Command(argv, cwd=data, log=logs / "stdout.log")

    def versions(self) -> dict[str, str]:
        return {"target": f"Apache Kafka {self._kafka.version}", **self._common_versions()}
