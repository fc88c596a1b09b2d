"""What this machine allows of a fleet of namespaces, found out by doing it: ``python -m harness.fleet.probe``.

Two hosts, a packet from one to the other, a cut, a heal. In a process of its own, because there is no way back out of a
user namespace. Prints one line of JSON (:class:`Probe`).
"""

from __future__ import annotations

import functools
import json
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.fleet import kernel
from harness.fleet.base import Fleet, FleetError, Link

_TIMEOUT_S = 30.0
_ARRIVAL_S = 2.0
_SILENCE_S = 0.05
_PORT = 9092

REMEDY = (
    "network faults need root, or user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces > 0; in a container --privileged, or "
    "--cap-add NET_ADMIN --cap-add SYS_ADMIN); process faults work without"
)


@dataclass(frozen=True)
class Probe:
    problem: str | None
    """Why there can be no hosts of their own here; None: there can."""
    user_namespace: bool = False
    """Whether a user namespace is needed for it; else this process has the right already."""
    lacking: tuple[str, ...] = ()
    """What cannot be done to their links, each with the reason."""

    @property
    def how(self) -> str:
        return "in a user namespace" if self.user_namespace else "as root"


@functools.cache
def probe() -> Probe:
    """Ask a process of its own."""
    command = [sys.executable, "-m", "harness.fleet.probe"]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Probe(f"it cannot be tried: {error}")
    try:
        document = json.loads(tried.stdout)
        return Probe(document["problem"], document["user_namespace"], tuple(document["lacking"]))
    except (ValueError, KeyError, TypeError):
        last = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]
        return Probe(f"trying it failed: {last}")


def try_it() -> Probe:
    """Changes this process for good."""
    user_namespace = not kernel.may_make_networks()
    try:
        if user_namespace:
            kernel.become_root_of_a_user_namespace()
        from harness.fleet.namespaces import NamespaceFleet

        with tempfile.TemporaryDirectory() as folder, NamespaceFleet(Path(folder)) as fleet:
            problem = _try_links(fleet)
            lacking = [fleet.links.unavailable(each) for each in ("throttle", "delay")]
            return Probe(problem, user_namespace, tuple(each for each in lacking if each is not None))
    except FleetError as error:
        return Probe(str(error), user_namespace)
    except OSError as error:
        return Probe(f"not allowed: {error.strerror or error}", user_namespace)
    except ImportError as error:
        return Probe(f"{error}: pip install pyroute2", user_namespace)


def _try_links(fleet: Fleet) -> str | None:
    links = fleet.links
    assert links is not None, "a fleet of namespaces has links"
    sender, receiver = fleet.on_host("a", _socket), fleet.on_host("b", _socket)
    with sender, receiver:
        place = (fleet.address("b"), _PORT)
        if not _arrives(sender, receiver, place, _ARRIVAL_S):
            return "packets do not arrive from one host at another"
        links.cut("probe", [Link("a", "b")])
        if _arrives(sender, receiver, place, _SILENCE_S) or sum(links.dropped("probe").values()) != 1:
            return "nftables drops no packets"
        links.heal("probe")
        return None if _arrives(sender, receiver, place, _ARRIVAL_S) else "a link that was cut does not come back"


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("0.0.0.0", _PORT))
    return made


def _arrives(sender: socket.socket, receiver: socket.socket, place: tuple[str, int], timeout_s: float) -> bool:
    sender.sendto(b"probe", place)
    receiver.settimeout(timeout_s)
    try:
        return receiver.recv(16) == b"probe"
    except TimeoutError:
        return False


if __name__ == "__main__":
    print(json.dumps(asdict(try_it())))
