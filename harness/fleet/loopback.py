"""Hosts that are all this machine, on its loopback address: needs no rights, and can do every process fault."""

from __future__ import annotations

import os
from pathlib import Path

from harness.fleet.local import LocalFleet
from harness.fleet.ports import PortBook


class LoopbackFleet(LocalFleet):
    name = "loopback"

    def __init__(self, registry: Path | None = None) -> None:
        super().__init__(registry)
        self._ports = PortBook("127.0.0.1", start=os.getpid() * 16)

    def address(self, node: str) -> str:  # noqa: ARG002  (one address for all)
        return "127.0.0.1"

    def reserve_port(self, node: str) -> int:  # noqa: ARG002
        with self._lock:
            return self._ports.reserve()

    def close(self) -> None:
        super().close()
        self._ports.close()
