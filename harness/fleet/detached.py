"""Processes of this machine that outlive the command that started them: a cluster that a person uses by hand.

What runs is written to ``nodes.json`` in the cluster's folder: per node its port and, while it lives, its process id
with the time it started, so that a process id that was given to somebody else is never mistaken for ours.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from harness.fleet import proc
from harness.fleet.base import Command, FleetError, Links, T, end
from harness.fleet.ports import PortBook
from harness.fleet.proc import ProcessId

_LOOK_S = 0.05


class DetachedFleet:
    """See :class:`harness.fleet.base.Fleet`."""

    name = "detached"
    links: Links | None = None

    def __init__(self, folder: Path) -> None:
        self._path = folder / "nodes.json"
        self._own: dict[str, subprocess.Popen[bytes]] = {}
        self._port_book: PortBook | None = None
        self._ports: dict[str, int] = {}
        self._processes: dict[str, ProcessId] = {}
        self._read()

    def address(self, node: str) -> str:  # noqa: ARG002  (one address for all)
        return "127.0.0.1"

    def reserve_port(self, node: str) -> int:
        """The port that the node had before, so that clients find it again; else a free one."""
        if node not in self._ports:
            if self._port_book is None:
                self._port_book = PortBook("127.0.0.1", start=os.getpid() * 16)
            self._ports[node] = self._port_book.reserve()
            self._write()
        return self._ports[node]

    def open(self) -> None:
        """Hosts are the machine itself."""

    def on_host(self, host: str, act: Callable[[], T]) -> T:  # noqa: ARG002
        return act()

    def start(self, node: str, command: Command) -> int:
        if self.is_alive(node):
            raise FleetError(f"{node} is already running as process {self.pid(node)}")
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with command.log.open("ab") as log:
            try:
                process = subprocess.Popen(
                    command.argv,
                    cwd=command.cwd,
                    env={**os.environ, **command.env},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise FleetError(f"{command.argv[0]} cannot be started in {command.cwd}: {error}") from error
        self._own[node] = process
        identity = proc.identify(process.pid)
        if identity is not None:
            self._processes[node] = identity
            self._write()
        return process.pid

    def signal(self, node: str, number: signal.Signals) -> bool:
        pid = self.pid(node)
        if pid is None:
            return False
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            return False
        return True

    def pid(self, node: str) -> int | None:
        own = self._own.get(node)
        if own is not None:
            own.poll()  # reaps it, if this command started it and it has ended
        process = self._processes.get(node)
        return process.pid if process is not None and proc.is_running(process) else None

    def state(self, node: str) -> str | None:
        pid = self.pid(node)
        return proc.state(pid) if pid is not None else None

    def is_alive(self, node: str) -> bool:
        return self.pid(node) is not None

    def exit_code(self, node: str) -> int | None:
        """None too for a process that another command started: only its parent learns the code."""
        own = self._own.get(node)
        return own.poll() if own is not None else None

    def wait(self, node: str, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self.is_alive(node):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_S)
        return True

    def stop(self, node: str, grace_s: float = 10.0) -> None:
        end(self, node, grace_s)
        if self._processes.pop(node, None) is not None:
            self._write()

    def close(self) -> None:
        """Let go of the ports; the processes stay."""
        if self._port_book is not None:
            self._port_book.close()

    def nodes(self) -> tuple[str, ...]:
        """Every node that has a port here."""
        return tuple(sorted(self._ports))

    def _read(self) -> None:
        if not self._path.exists():
            return
        try:
            document = json.loads(self._path.read_text())
            here = document["world"] == proc.world()
            self._ports = {str(node): int(port) for node, port in document["ports"].items()}
            processes = {str(node): ProcessId(**each) for node, each in document["processes"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FleetError(
                f"{self._path} is damaged ({error}); if none of its processes run any more, remove the folder"
            ) from None
        # After a reboot, or in another container, these process ids name somebody else.
        self._processes = processes if here else {}

    def _write(self) -> None:
        document = {
            "world": proc.world(),
            "ports": self._ports,
            "processes": {node: asdict(each) for node, each in sorted(self._processes.items())},
        }
        fresh = self._path.with_suffix(".tmp")
        fresh.write_text(json.dumps(document, indent=1) + "\n")
        fresh.replace(self._path)
