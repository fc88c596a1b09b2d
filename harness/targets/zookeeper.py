"""A real ZooKeeper server of one node, from the jars that come with PySpark: no further download.

Only the handful of jars that the server needs is on the class path; all of PySpark's would double the time
it takes to start.
"""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path

from checkers.java import Java
from harness.fleet.base import Command, Fleet
from harness.targets.base import TargetError
from harness.targets.logs import tail
from harness.targets.waiting import wait_until

_NEEDED = ("zookeeper-", "netty-", "slf4j-api-", "log4j-", "metrics-core-", "snappy-java-", "commons-io-")
_TICK_MS = 100
_NODE = "zookeeper-1"

_LOGGING = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


def jars() -> list[Path]:
    """The server's jars among PySpark's."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise TargetError("ZooKeeper comes with PySpark, which is not installed: pip install pyspark")
    folder = Path(spec.origin).parent / "jars"
    found = sorted(each for each in folder.glob("*.jar") if each.name.startswith(_NEEDED))
    if not any(each.name.startswith("zookeeper-3") for each in found):
        raise TargetError(f"{folder} has no zookeeper-3.*.jar: this PySpark was packaged without ZooKeeper")
    return found


def version() -> str:
    name = next(each.stem for each in jars() if each.name.startswith("zookeeper-3"))
    return name.removeprefix("zookeeper-")


class ZooKeeper:
    """One server. Its ``connect`` string is known from the beginning."""

    def __init__(self, fleet: Fleet, java: Java, logs: Path, data: Path) -> None:
        self._fleet = fleet
        self._java = java
        self._logs = (logs / _NODE).absolute()
        self._data = (data / _NODE).absolute()
        self._address = fleet.address(_NODE)
        self._port = fleet.reserve_port(_NODE)
        self.connect = f"{self._address}:{self._port}"

    def start(self, timeout_s: float = 60.0) -> None:
        if self._fleet.is_alive(_NODE):
            return
        for folder in (self._logs, self._data):
            folder.mkdir(parents=True, exist_ok=True)
        settings = self._data / "zoo.cfg"
        settings.write_text(self._settings())
        logging = self._data / "log4j2.properties"
        logging.write_text(_LOGGING.format(log=self._logs / "server.log"))
        argv = (
            str(self._java.executable),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            # This server is not a target of power loss, and a slow disk must not look like a slow broker.
            "-Dzookeeper.forceSync=no",
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            ":".join(map(str, jars())),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(settings),
        )
        self._fleet.start(_NODE, Command(argv, cwd=self._data, log=self._logs / "stdout.log"))
        wait_until(self._is_ready, timeout_s, lambda: f"ZooKeeper does not answer at {self.connect}")

    def _settings(self) -> str:
        values = {
            "dataDir": self._data / "data",
            "clientPort": self._port,
            "clientPortAddress": self._address,
            # Sessions expire on ticks: a short one makes the brokers' short time-outs mean what they say.
            "tickTime": _TICK_MS,
            "maxSessionTimeout": 60_000,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok,srvr,mntr",
            "autopurge.purgeInterval": 0,
        }
        return "".join(f"{name}={value}\n" for name, value in values.items())

    def _is_ready(self) -> bool:
        if not self._fleet.is_alive(_NODE):
            code = self._fleet.exit_code(_NODE)
            raise TargetError(f"ZooKeeper ended with code {code}:\n{tail(self._logs)}")
        return self._ask("ruok") == "imok"

    def _ask(self, word: str) -> str:
        """The answer to a four-letter word; empty when there is none."""
        try:
            with socket.create_connection((self._address, self._port), timeout=1.0) as connection:
                connection.sendall(word.encode())
                return connection.makefile("rb").read().decode()
        except OSError:
            return ""

    def stop(self) -> None:
        self._fleet.stop(_NODE)


class ExistingZooKeeper:
    """An ensemble that somebody else runs."""

    def __init__(self, connect: str) -> None:
        self.connect = connect

    def start(self) -> None:
        """It runs, or the first look at it says that it does not."""

    def stop(self) -> None:
        """Not ours to stop."""
