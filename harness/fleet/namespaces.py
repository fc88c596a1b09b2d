"""Every node and every group of clients on a host of its own: a network namespace with an address in 198.18.0.0/15.

Needs the right to make network namespaces (see :mod:`harness.fleet.choice`). Networks are held by file descriptors of
the harness alone, and processes die with it: nothing is left of it, however it ends.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

from harness.fleet import kernel
from harness.fleet.base import Links
from harness.fleet.linkfaults import NamespaceLinks
from harness.fleet.local import LocalFleet
from harness.fleet.network import Network, data_address

_FIRST_PORT = 9092


class NamespaceFleet(LocalFleet):
    name = "namespaces"
    links: Links

    def __init__(self, registry: Path | None = None) -> None:
        super().__init__(registry)
        self._network = Network()
        self.links = NamespaceLinks(self._network)
        self._numbers: dict[str, int] = {}
        self._ports: dict[str, int] = {}
        self._numbering = threading.Lock()
        self._outside = -1

    def open(self) -> None:
        """The calling thread leaves the machine's network until :meth:`close`, as far as there is a way back: out of a
        user namespace there is none."""
        self._network.up()
        if self._outside < 0:
            self._outside = kernel.current_network()
            self._network.enter_office()

    def _number(self, host: str) -> int:
        with self._numbering:
            return self._numbers.setdefault(host, len(self._numbers) + 1)

    def address(self, node: str) -> str:
        return data_address(self._number(node))

    def reserve_port(self, node: str) -> int:
        """Nobody else is on the host, so the first port is as good as any."""
        with self._numbering:
            self._ports[node] = self._ports.get(node, _FIRST_PORT - 1) + 1
            return self._ports[node]

    def _visit(self, host: str) -> None:
        kernel.enter_network(self._network.add_host(host, self._number(host)).namespace)

    def close(self) -> None:
        super().close()
        self._network.close()
        if self._outside >= 0:
            try:
                kernel.enter_network(self._outside)
            except OSError as error:
                if error.errno != errno.EPERM:
                    raise
            os.close(self._outside)
            self._outside = -1
