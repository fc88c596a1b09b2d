"""Hosts made of network namespaces, and what joins them. Netlink only; nothing of it has a name on the machine.

    office   where the harness sits: the bridge `manage`, 198.19.0.0/16
    switch   the bridge `data`, one port for each host
    host     `data`: its address in 198.18.0.0/16, to the switch
             `manage`: the same number in 198.19.0.0/16, to the office

Hosts talk to each other over `data`, where faults strike. The harness reaches a host's data address over `manage`,
by a route of its own: a host answers for its addresses on every wire. Hosts know of no management address, so nothing
that is cut on `data` finds a way around.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from harness.fleet import kernel
from harness.fleet.base import FleetError, T

_PREFIX = 16
_MOST_HOSTS = 65_000
_LOOPBACK = 1
"""Every network has it as its first device."""
_HOST_DEVICE = 1_000_000
"""Numbers of a host's devices begin here, so that the two ends of a wire never have the same: with such a wire the kernel
takes up to a second to notice that it is plugged in."""
_CARRIES_TIMEOUT_S = 10.0
_CARRIES_LOOK_S = 0.005
DEVICE = "data"


def _address(second: int, number: int) -> str:
    return f"198.{second}.{number >> 8}.{number & 255}"


def data_address(number: int) -> str:
    """Of the host with this number; the first has 1."""
    assert 1 <= number <= _MOST_HOSTS, "the range of addresses is exhausted"
    return _address(18, number)


def _management_address(number: int) -> str:
    return _address(19, number)


_OFFICE_ADDRESS = "198.19.255.254"


@dataclass(frozen=True)
class Host:
    name: str
    number: int
    namespace: int
    """File descriptor."""

    @property
    def address(self) -> str:
        return data_address(self.number)

    @property
    def port(self) -> str:
        """The device on the switch to which this host's wire leads."""
        return f"port-{self.number}"


class Network:
    """All netlink work is done by one thread of its own, the plumber, who walks from namespace to namespace."""

    def __init__(self) -> None:
        self._plumber = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fleet-plumber")
        self._lock = threading.Lock()
        self._hosts: dict[str, Host] = {}
        self._switch = -1
        self._office = -1

    @property
    def is_up(self) -> bool:
        return self._switch >= 0

    def up(self) -> None:
        if not self.is_up:
            self.work(self._make_switch_and_office, "the network of the hosts cannot be made")

    def enter_office(self) -> None:
        """Put the calling thread where all hosts can be reached."""
        kernel.enter_network(self._office)

    def hosts(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._hosts)

    def host(self, name: str) -> Host:
        with self._lock:
            if name not in self._hosts:
                raise FleetError(f"there is no host {name} yet")
            return self._hosts[name]

    def add_host(self, name: str, number: int) -> Host:
        """The host of this name; made when there is none."""
        with self._lock:
            if name in self._hosts:
                return self._hosts[name]
            if not self.is_up:
                raise FleetError(f"host {name} cannot be made: the fleet is not open")
            host = self.work(lambda: self._make_host(name, number), f"host {name} cannot be made")
            self._hosts[name] = host
            return host

    def on_host(self, host: Host, act: Callable[[], T]) -> T:
        """Netlink work in a host's own network."""
        return self._inside(host.namespace, act, f"host {host.name}")

    def on_switch(self, act: Callable[[], T]) -> T:
        return self._inside(self._switch, act, "the switch")

    def _inside(self, namespace: int, act: Callable[[], T], what: str) -> T:
        def there() -> T:
            kernel.enter_network(namespace)
            return act()

        return self.work(there, what)

    def work(self, act: Callable[[], T], what: str) -> T:
        """Let the plumber do it."""
        try:
            return self._plumber.submit(act).result()
        except (NetlinkError, OSError) as error:
            raise FleetError(f"{what}: {_said(error)}") from error

    def close(self) -> None:
        """Let go of everything. What runs on the hosts must have ended; with it, they are gone. Idempotent."""
        self._plumber.shutdown()
        with self._lock:
            held = [self._switch, self._office, *(host.namespace for host in self._hosts.values())]
            self._switch = self._office = -1
            self._hosts.clear()
        for namespace in held:
            if namespace >= 0:
                os.close(namespace)

    def _make_switch_and_office(self) -> None:
        with ExitStack() as undo:
            switch = kernel.new_network()
            undo.callback(os.close, switch)
            with routes() as ip:
                _bridge(ip, DEVICE)
            office = kernel.new_network()
            undo.callback(os.close, office)
            with routes() as ip:
                ip.link("set", index=_LOOPBACK, state="up")
                bridge = _bridge(ip, "manage")
                ip.addr("add", index=bridge, address=_OFFICE_ADDRESS, prefixlen=_PREFIX)
            undo.pop_all()
        self._switch, self._office = switch, office

    def _make_host(self, name: str, number: int) -> Host:
        host = Host(name, number, kernel.new_network())
        with ExitStack() as undo:
            # Half a host is none: the next attempt finds its number free.
            undo.callback(os.close, host.namespace)
            undo.callback(self._unplug, host)
            with routes() as ip:
                ip.link("set", index=_LOOPBACK, state="up")
                _wire(ip, _HOST_DEVICE, DEVICE, host.address, (self._switch, host.port))
                _wire(ip, _HOST_DEVICE + 1, "manage", _management_address(number), (self._office, host.port))
            kernel.enter_network(self._switch)
            with routes() as ip:
                _plug_in(ip, host.port, DEVICE)
            kernel.enter_network(self._office)
            with routes() as ip:
                _plug_in(ip, host.port, "manage")
                ip.route("add", dst=f"{host.address}/32", gateway=_management_address(number))
            undo.pop_all()
        return host

    def _unplug(self, host: Host) -> None:
        """Take away the wires that there are; with one end the other is gone too."""
        for network in (self._switch, self._office):
            kernel.enter_network(network)
            with routes() as ip:
                for index in ip.link_lookup(ifname=host.port):
                    ip.link("del", index=index)


@contextmanager
def routes() -> Iterator[Any]:
    """Netlink to the network in which the calling thread is."""
    with IPRoute() as ip:
        yield ip


def index_of(ip: Any, device: str) -> int:
    (index,) = ip.link_lookup(ifname=device)
    assert isinstance(index, int), "a device has a number"
    return index


def _wire(ip: Any, index: int, device: str, address: str, other_end: tuple[int, str]) -> None:
    """From this host to a network, where the other end gets the name given."""
    network, name = other_end
    ip.link("add", index=index, ifname=device, kind="veth", peer={"ifname": name, "net_ns_fd": network})
    ip.addr("add", index=index, address=address, prefixlen=_PREFIX)
    ip.link("set", index=index, state="up")


def _bridge(ip: Any, name: str) -> int:
    ip.link("add", ifname=name, kind="bridge")
    index = index_of(ip, name)
    ip.link("set", index=index, state="up")
    return index


def _plug_in(ip: Any, port: str, bridge: str) -> None:
    """Returns when the wire carries."""
    index = index_of(ip, port)
    ip.link("set", index=index, master=index_of(ip, bridge), state="up")
    deadline = time.monotonic() + _CARRIES_TIMEOUT_S
    while ip.get_links(index)[0].get_attr("IFLA_OPERSTATE") != "UP":
        if time.monotonic() >= deadline:
            raise OSError(0, f"{port} is plugged in and does not carry")
        time.sleep(_CARRIES_LOOK_S)


def _said(error: OSError | NetlinkError) -> str:
    if isinstance(error, NetlinkError):
        return f"{os.strerror(error.code)}" if error.code else str(error)
    return error.strerror or str(error)
