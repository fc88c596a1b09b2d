"""What every fleet offers: start, signal and stop named processes, and say the truth about them.

A *node* is a process with a name (``broker-1``, ``zookeeper-1``). Its name outlives its process: a node
that was killed is started again under the same name, with a new process id.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class FleetError(Exception):
    """The fleet cannot do what it was asked; the message says why."""


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    cwd: Path
    log: Path
    """Standard output and standard error are appended to this file."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of the harness."""


class Fleet(Protocol):
    """All methods may be called from any thread."""

    @property
    def name(self) -> str:
        """``loopback``, ..."""

    def address(self, node: str) -> str:
        """The address on which this node listens."""

    def reserve_port(self, node: str) -> int:
        """A port for this node that nobody else gets until the fleet is closed."""

    def start(self, node: str, command: Command) -> int:
        """Start a node that is not running; its process id."""

    def signal(self, node: str, number: signal.Signals) -> bool:
        """Send a signal; False when there is no process to receive it."""

    def pid(self, node: str) -> int | None:
        """Process id of a running (or paused) node; None when there is no process."""

    def state(self, node: str) -> str | None:
        """The kernel's word on the process: ``R`` and ``S`` run, ``T`` is paused; None: gone."""

    def is_alive(self, node: str) -> bool:
        """Whether the process exists, paused or not."""

    def exit_code(self, node: str) -> int | None:
        """Of this node's last process; negative: killed by that signal. None: running, or never started."""

    def wait(self, node: str, timeout_s: float) -> bool:
        """Wait for the end of the process; False when it is still there."""

    def stop(self, node: str, grace_s: float = 10.0) -> None:
        """End a node: politely first, then by force; paused ones too. Idempotent."""

    def close(self) -> None:
        """End everything that was started. Idempotent; also releases the ports."""
