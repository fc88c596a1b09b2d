"""What every fleet offers: processes on named hosts, and, where the hosts have them, the links between them.

A *node* is a process with a name (``broker-1``, ``zookeeper-1``) on a host of the same name. Its name outlives its
process: a node that was killed is started again under the same name, with a new process id. The hosts of client
groups are called ``worker-N``.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")
KILL_TIMEOUT_S = 30.0
"""The kernel ends what it is told to end at once, unless a device does not answer."""


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


class Link(NamedTuple):
    """One direction of the way between two hosts."""

    source: str
    destination: str

    def __str__(self) -> str:
        return f"{self.source} → {self.destination}"


@dataclass(frozen=True)
class Queue:
    """What the queue that slows a host down has done so far, in both directions together."""

    packets: int
    """That passed through it."""
    held: int
    """How often it made a packet wait."""
    dropped: int


class Links(Protocol):
    """The links between hosts, and what may be done to them. The link over which the harness looks is not among them.

    What is done has a *cause*, a name by which it is counted and undone; things with different causes add up.
    Raises :class:`FleetError`. All methods may be called from any thread.
    """

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that are up, whatever runs on them."""

    def unavailable(self, what: str) -> str | None:
        """Why ``cut``, ``lose``, ``throttle`` or ``delay`` cannot be done here; None: it can."""

    def cut(self, cause: str, links: Collection[Link]) -> None:
        """Drop every packet on these links."""

    def lose(self, cause: str, links: Collection[Link], share: float) -> None:
        """Drop each packet on these links with this probability."""

    def dropped(self, cause: str) -> dict[Link, int]:
        """Packets that were dropped on each link, by the count of the very rule that drops them."""

    def throttle(self, cause: str, host: str, kbit_per_s: int) -> None:
        """Let no more than this into and out of a host, each."""

    def delay(self, cause: str, host: str, delay_ms: float, jitter_ms: float) -> None:
        """Hold every packet into and out of a host for this long, give or take the jitter."""

    def queue(self, cause: str) -> Queue | None:
        """What a throttle or a delay has done; None: there is none with this cause."""

    def heal(self, cause: str) -> None:
        """Undo all that has this cause. Idempotent."""


class Fleet(Protocol):
    """All methods may be called from any thread, but :meth:`open`: by the one that is to see the hosts."""

    @property
    def name(self) -> str:
        """``loopback``, ``namespaces``, ..."""

    @property
    def links(self) -> Links | None:
        """None: these hosts have no links of their own."""

    def open(self) -> None:
        """Make the hosts reachable for the calling thread, and for those that it starts from now on."""

    def address(self, node: str) -> str:
        """The address on which this node listens."""

    def reserve_port(self, node: str) -> int:
        """A port for this node that nobody else gets until the fleet is closed."""

    def on_host(self, host: str, act: Callable[[], T]) -> T:
        """Do something on a host: processes and sockets that it makes belong there. It must be quick.

        Processes made so die with the fleet, and with the harness, when :mod:`harness.fleet.launcher` starts them.
        """

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
        """End everything that was started, and leave nothing behind. Idempotent."""


def end(fleet: Fleet, node: str, grace_s: float) -> None:
    """How every fleet stops a node: politely, then by force."""
    # TERM before CONT: a paused process then finds it waiting when it wakes up.
    if fleet.signal(node, signal.SIGTERM):
        fleet.signal(node, signal.SIGCONT)
    if not fleet.wait(node, grace_s):
        fleet.signal(node, signal.SIGKILL)
        if not fleet.wait(node, KILL_TIMEOUT_S):
            raise FleetError(f"{node} (process {fleet.pid(node)}) survived SIGKILL for {KILL_TIMEOUT_S:.0f} s")
