"""Hosts of their own for tests, and whether this process may have any."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Collection
from pathlib import Path

from harness.fleet import kernel
from harness.fleet.base import Link
from harness.fleet.namespaces import NamespaceFleet
from harness.fleet.probe import probe

PORT = 5000


def lacking() -> str | None:
    """Why this very process cannot have hosts of their own; None: it can."""
    found = probe()
    if found.problem is not None:
        return f"no hosts of their own on this machine: {found.problem}"
    if not kernel.may_make_networks():
        return "not as this user; test_user_namespace runs these tests in a user namespace"
    return None


class Chatter:
    """A socket on each of some hosts, so that each can say something to every other one."""

    def __init__(self, fleet: NamespaceFleet, names: Collection[str]) -> None:
        self._fleet = fleet
        self.pairs = frozenset(Link(a, b) for a in names for b in names if a != b)
        self._sockets = {name: fleet.on_host(name, _socket) for name in names}
        self._names = {fleet.address(name): name for name in names}

    def heard(self, awaited: Collection[Link], patience_s: float = 10.0) -> frozenset[Link]:
        """Everybody sends one packet to everybody; who heard whom, once all that is awaited has arrived."""
        for link in sorted(self.pairs):
            self._sockets[link.source].sendto(b"", (self._fleet.address(link.destination), PORT))
        arrived: set[Link] = set()
        by_socket = {each: name for name, each in self._sockets.items()}
        # What is awaited gets its time. What is not had the same way to go, so it has arrived by then if it ever does.
        while ready := select.select(list(by_socket), [], [], patience_s if not arrived >= set(awaited) else 0.02)[0]:
            for each in ready:
                address = each.recvfrom(16)[1][0]
                arrived.add(Link(self._names[address], by_socket[each]))
        return frozenset(arrived)

    def close(self) -> None:
        for each in self._sockets.values():
            each.close()


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("0.0.0.0", PORT))
    return made


def holders(network: str) -> list[str]:
    """Who is in this network (``net:[4026531833]``) or holds it open, of all processes that we may look into."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [*process.glob("task/*/ns/net"), *process.glob("fd/*")]
            found += [str(each) for each in links if _target(each) == network]
        except OSError:
            continue  # it is gone meanwhile, or somebody else's
    return found


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
