"""What is done to links: packets are dropped by rules of nftables, which count them; queues slow hosts down.

A rule stands at the receiving host, as it would behind a real wire: the sender notices nothing. Each cause has a table of
its own at each host that it touches, so that undoing it is one request, and takes nothing else away.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.nftables.expressions import genex, ipv4addr, verdict
from pyroute2.nftables.main import NFTables

from harness.fleet.base import FleetError, Link, Queue
from harness.fleet.network import DEVICE, Network, index_of, routes

_ACCEPT, _DROP = 1, 0
_META_PRANDOM = 24
_LESS = 2
_CHAIN = "arriving"
_HANDLE = "1:"
_BURST_BYTES = 16_384
_LATENCY = "400ms"
"""How long a packet may wait in a throttled host's queue before others are dropped."""


class NamespaceLinks:
    """See :class:`harness.fleet.base.Links`."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._lock = threading.Lock()
        # Both are filled before the deed, so that one which fails half-way is undone as well.
        self._tables: dict[str, dict[str, tuple[Link, ...]]] = {}
        self._queues: dict[str, str] = {}
        self._missing: dict[str, str | None] = {}

    @property
    def hosts(self) -> tuple[str, ...]:
        return self._network.hosts()

    def unavailable(self, what: str) -> str | None:
        kind = {"throttle": "tbf", "delay": "netem"}.get(what)
        if kind is None:
            return None
        with self._lock:
            if kind not in self._missing:
                self._missing[kind] = self._network.on_switch(lambda: _try_queue(kind))
            return self._missing[kind]

    def cut(self, cause: str, links: Collection[Link]) -> None:
        self._drop(cause, links, [])

    def lose(self, cause: str, links: Collection[Link], share: float) -> None:
        assert 0 < share < 1, "a share of the packets"
        # Compared as bytes from left to right, so as a big-endian number: of random bits every order is as random.
        threshold = struct.pack(">I", int(share * 2**32))
        some = [
            genex("meta", {"dreg": 1, "key": _META_PRANDOM}),
            genex("cmp", {"sreg": 1, "op": _LESS, "data": {"attrs": [("NFTA_DATA_VALUE", threshold)]}}),
        ]
        self._drop(cause, links, some)

    def _drop(self, cause: str, links: Collection[Link], condition: list[Any]) -> None:
        with self._lock:
            if cause in self._tables:
                raise FleetError(f"{cause} drops packets already")
            hosts = {name: self._network.host(name) for link in links for name in link}
            to: dict[str, list[Link]] = {}
            for link in sorted(links):
                to.setdefault(link.destination, []).append(link)
            self._tables[cause] = {name: tuple(each) for name, each in to.items()}
            for name, arriving in to.items():
                host = hosts[name]
                sources = [hosts[link.source].address for link in arriving]
                self._network.on_host(host, lambda sources=sources: _add_table(cause, sources, condition))  # type: ignore[misc]

    def dropped(self, cause: str) -> dict[Link, int]:
        with self._lock:
            found: dict[Link, int] = {}
            for name, links in self._tables.get(cause, {}).items():
                counted = self._network.on_host(self._network.host(name), lambda: _counters(cause))
                for link in links:
                    found[link] = counted.get(self._network.host(link.source).address, 0)
            return found

    def throttle(self, cause: str, host: str, kbit_per_s: int) -> None:
        rate_bytes = kbit_per_s * 125
        self._slow_down(cause, host, "tbf", {"rate": rate_bytes, "burst": _BURST_BYTES, "latency": _LATENCY})

    def delay(self, cause: str, host: str, delay_ms: float, jitter_ms: float) -> None:
        self._slow_down(cause, host, "netem", {"delay": int(delay_ms * 1000), "jitter": int(jitter_ms * 1000)})

    def _slow_down(self, cause: str, name: str, kind: str, options: dict[str, Any]) -> None:
        with self._lock:
            host = self._network.host(name)
            if name in self._queues.values():
                raise FleetError(f"{name} is slowed down already")
            self._queues[cause] = name
            self._network.on_host(host, lambda: _add_queue(DEVICE, kind, options))
            self._network.on_switch(lambda: _add_queue(host.port, kind, options))

    def queue(self, cause: str) -> Queue | None:
        with self._lock:
            if cause not in self._queues:
                return None
            host = self._network.host(self._queues[cause])
            out = self._network.on_host(host, lambda: _queue(DEVICE))
            into = self._network.on_switch(lambda: _queue(host.port))
        return Queue(out.packets + into.packets, out.held + into.held, out.dropped + into.dropped)

    def heal(self, cause: str) -> None:
        with self._lock:
            for name in list(self._tables.get(cause, {})):
                self._network.on_host(self._network.host(name), lambda: _delete_table(cause))
                del self._tables[cause][name]
            self._tables.pop(cause, None)
            if cause in self._queues:
                host = self._network.host(self._queues[cause])
                self._network.on_host(host, lambda: _delete_queue(DEVICE))
                self._network.on_switch(lambda: _delete_queue(host.port))
                del self._queues[cause]


@contextmanager
def _nftables() -> Iterator[Any]:
    with NFTables(nfgen_family=socket.AF_INET) as nft:
        yield nft


def _add_table(name: str, sources: list[str], condition: list[Any]) -> None:
    with _nftables() as nft:
        nft.table("add", name=name)
        nft.chain("add", table=name, name=_CHAIN, hook="input", type="filter", policy=_ACCEPT)
        for source in sources:
            counted = [genex("counter", {"bytes": 0, "packets": 0})]
            expressions = (ipv4addr(src=source), condition, counted, verdict(code=_DROP))
            nft.rule("add", table=name, chain=_CHAIN, expressions=expressions)


def _delete_table(name: str) -> None:
    with _nftables() as nft, _unless_gone():
        nft.table("del", name=name)


def _counters(name: str) -> dict[str, int]:
    """Dropped packets by the address they came from."""
    counted = {}
    with _nftables() as nft:
        for rule in nft.get_rules():
            if rule.get_attr("NFTA_RULE_TABLE") != name:
                continue
            parts = {
                each.get_attr("NFTA_EXPR_NAME"): each.get_attr("NFTA_EXPR_DATA")
                for each in reversed(rule.get_attr("NFTA_RULE_EXPRESSIONS"))
            }  # reversed: of two comparisons the first, with the address, is kept
            source = parts["cmp"].get_attr("NFTA_CMP_DATA").get_attr("NFTA_DATA_VALUE")
            counted[socket.inet_ntoa(source)] = int(parts["counter"].get_attr("NFTA_COUNTER_PACKETS"))
    return counted


def _add_queue(device: str, kind: str, options: dict[str, Any]) -> None:
    with routes() as ip:
        ip.tc("add", kind, index_of(ip, device), _HANDLE, **options)


def _delete_queue(device: str) -> None:
    with routes() as ip, _unless_gone():
        ip.tc("del", index=index_of(ip, device), handle=_HANDLE, root=True)


def _queue(device: str) -> Queue:
    with routes() as ip:
        for queue in ip.get_qdiscs(index_of(ip, device)):
            if queue.get_attr("TCA_KIND") in ("tbf", "netem"):
                statistics = queue.get_attr("TCA_STATS2")
                passed, state = (statistics.get_attr(f"TCA_STATS_{each}") for each in ("BASIC", "QUEUE"))
                return Queue(int(passed["packets"]), int(state["overlimits"]), int(state["drops"]))
    return Queue(0, 0, 0)


def _try_queue(kind: str) -> str | None:
    """Why the kernel cannot do it; found out by doing it, to a bridge without traffic."""
    options: dict[str, Any] = {"delay": 1000}
    if kind == "tbf":
        options = {"rate": 125_000, "burst": _BURST_BYTES, "latency": _LATENCY}
    try:
        _add_queue(DEVICE, kind, options)
    except NetlinkError as error:
        # Whatever it is: hosts and cuts do without queues.
        if error.code != errno.ENOENT:
            return f"this kernel does not let hosts have {kind}: {os.strerror(error.code)}"
        return f"this kernel has no {kind} (module sch_{kind})"
    _delete_queue(DEVICE)
    return None


@contextmanager
def _unless_gone() -> Iterator[None]:
    try:
        yield
    except NetlinkError as error:
        if error.code not in (errno.ENOENT, errno.EINVAL):
            raise
