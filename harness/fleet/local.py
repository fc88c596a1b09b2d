"""Processes of this machine, whichever network they live in.

Each node leads a session of its own, so that a Ctrl-C at the terminal reaches the harness alone, and so
that a signal to its process group reaches whatever it has started. Nodes die with the harness.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from harness.fleet import launcher, proc
from harness.fleet.base import KILL_TIMEOUT_S, Command, FleetError, Links, T, end
from harness.fleet.registry import Registry, default_folder


class LocalFleet(ABC):
    """See :class:`harness.fleet.base.Fleet`."""

    name: str
    links: Links | None = None

    def __init__(self, registry: Path | None = None) -> None:
        self._registry = Registry(registry or default_folder())
        self.swept = self._registry.sweep()
        """Leftovers of dead harnesses that were ended."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.RLock()
        self._closed = False
        # The kernel ties a child's life to the *thread* that started it, not to the process. All are
        # started by one thread that lives as long as the fleet; a nemesis thread that restarts a broker
        # and ends would otherwise take the broker with it.
        self._spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fleet-spawner")

    def open(self) -> None:  # noqa: B027
        """Nothing to do where hosts are the machine itself."""

    @abstractmethod
    def address(self, node: str) -> str: ...

    @abstractmethod
    def reserve_port(self, node: str) -> int: ...

    def _visit(self, host: str) -> None:  # noqa: B027  (nothing to do where hosts are the machine itself)
        """Take the calling thread to a host. Only the spawner is ever sent, and it need not come back."""

    def on_host(self, host: str, act: Callable[[], T]) -> T:
        def there() -> T:
            self._visit(host)
            return act()

        return self._spawner.submit(there).result()

    def start(self, node: str, command: Command) -> int:
        with self._lock:
            if self._closed:
                raise FleetError(f"{node} cannot be started: the fleet is closed")
            if self.is_alive(node):
                raise FleetError(f"{node} is already running as process {self.pid(node)}")
            process = self.on_host(node, functools.partial(_spawn, command))
            self._processes[node] = process
            identity = proc.identify(process.pid)
            if identity is not None:
                self._registry.add(node, identity)
            return process.pid

    def signal(self, node: str, number: signal.Signals) -> bool:
        with self._lock:
            process = self._processes.get(node)
            # poll() reaps; until then the process id cannot have been given to somebody else.
            if process is None or process.poll() is not None:
                return False
            os.killpg(process.pid, number)
            return True

    def pid(self, node: str) -> int | None:
        process = self._processes.get(node)
        return process.pid if process is not None and process.poll() is None else None

    def state(self, node: str) -> str | None:
        pid = self.pid(node)
        found = proc.state(pid) if pid is not None else None
        return None if found == "Z" else found

    def is_alive(self, node: str) -> bool:
        return self.pid(node) is not None

    def exit_code(self, node: str) -> int | None:
        process = self._processes.get(node)
        return process.poll() if process is not None else None

    def wait(self, node: str, timeout_s: float) -> bool:
        process = self._processes.get(node)
        if process is None:
            return True
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, node: str, grace_s: float = 10.0) -> None:
        end(self, node, grace_s)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for node in self._processes:
                self.signal(node, signal.SIGKILL)
            for node in self._processes:
                self.wait(node, KILL_TIMEOUT_S)
            self._spawner.shutdown()
            self._registry.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _spawn(command: Command) -> subprocess.Popen[bytes]:
    command.log.parent.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()), *command.argv]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(command.log.open("ab"))
        try:
            return subprocess.Popen(
                argv,
                cwd=command.cwd,
                env={**os.environ, **command.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise FleetError(f"{command.argv[0]} cannot be started in {command.cwd}: {error}") from error
