"""Ports on the loopback address that stay ours while the processes behind them come and go.

Two traps decide how a port is chosen.

- A broker that is down for some seconds must get its port back. Ports in the kernel's range for outgoing
  connections may meanwhile be taken by any client; worse, a client that keeps dialling a closed port of
  that range sooner or later connects to itself. So ports come from below the range.
- Two harnesses on one machine must not choose the same port between probing and use. A name in the
  abstract socket space is the lock: the kernel gives it to one, frees it when the holder dies, and it is
  separate per network namespace, exactly as the ports are.
"""

from __future__ import annotations

import socket
from pathlib import Path

from harness.fleet.base import FleetError

_LOWEST = 10240
_DEFAULT_OUTGOING = 32768


def _first_outgoing_port() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    except FileNotFoundError:
        return _DEFAULT_OUTGOING
    return int(text.split()[0])


class PortBook:
    def __init__(self, address: str, start: int) -> None:
        """``start`` decides where the search begins; two harnesses that begin apart rarely meet."""
        self._address = address
        highest = _first_outgoing_port()
        if highest - _LOWEST < 1000:  # an unusual machine: everything is for outgoing connections
            highest = _DEFAULT_OUTGOING
        self._candidates = [_LOWEST + (start + i) % (highest - _LOWEST) for i in range(highest - _LOWEST)]
        self._locks: list[socket.socket] = []

    def reserve(self) -> int:
        while self._candidates:
            port = self._candidates.pop(0)
            lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                lock.bind(f"\0tidemark-port-{self._address}-{port}")
            except OSError:
                lock.close()
                continue
            if self._is_free(port):
                self._locks.append(lock)
                return port
            lock.close()
        raise FleetError(f"no free port on {self._address}")

    def _is_free(self, port: int) -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((self._address, port))
            except OSError:
                return False
        return True

    def close(self) -> None:
        for lock in self._locks:
            lock.close()
        self._locks.clear()
