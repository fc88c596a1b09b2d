"""Network faults: which links carry nothing, or too little; the packets that were dropped are the proof.

Only links between hosts are touched, never the one over which the harness looks at the cluster. Kinds that name a node
hit the one with the fault's role: ``isolate`` with the role ``leader`` isolates the leader of a key.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from harness.fleet.base import FleetError, Links
from nemesis.control import ControlError, NodeControl
from nemesis.fault import Aim, Fault, Kind
from nemesis.shapes import Cut, Hosts, between, one_way, ring, sides, told


def _links(control: NodeControl) -> Links:
    assert control.links is not None, "a fault that is unavailable is not carried out"
    return control.links


def hosts_of(control: NodeControl) -> Hosts:
    there = control.links.hosts if control.links is not None else ()
    return Hosts(
        tuple(node for node in control.nodes if node in there),
        tuple(sorted(host for host in there if host.startswith("zookeeper-"))),
        tuple(sorted(host for host in there if host.startswith("worker-"))),
    )


@dataclass(frozen=True)
class NetworkFault(Fault):
    needs: ClassVar[str] = "cut"
    """What of :class:`harness.fleet.base.Links` it uses."""
    least_brokers: ClassVar[int] = 1

    def unavailable(self, control: NodeControl) -> str | None:
        why = super().unavailable(control)
        if why is not None:
            return why
        if control.links is None:
            return "the hosts have no links of their own: it takes the fleet of namespaces (tidemark doctor)"
        if len(control.nodes) < self.least_brokers:
            return f"it takes at least {self.least_brokers} brokers, and there are {len(control.nodes)}"
        return control.links.unavailable(self.needs)


@dataclass(frozen=True)
class Partition(NetworkFault):
    def draw(self, control: NodeControl, node: str, rng: random.Random) -> Cut:
        return self.shape(hosts_of(control), node, rng)

    @abstractmethod
    def shape(self, hosts: Hosts, node: str, rng: random.Random) -> Cut: ...

    def inject(self, control: NodeControl, aim: Aim) -> None:
        if not aim.links:
            raise ControlError(f"{aim.node} has no such link")
        self._drop(_links(control), aim)

    def _drop(self, links: Links, aim: Aim) -> None:
        links.cut(aim.cause, aim.links)

    def evidence(self, control: NodeControl, aim: Aim) -> str | None:
        dropped = _links(control).dropped(aim.cause)
        hit = [link for link, packets in dropped.items() if packets]
        if not hit:
            return None
        return f"{_packets(sum(dropped.values()))} dropped on {len(hit)} of {len(aim.links)} links"

    def heal(self, control: NodeControl, aim: Aim) -> str:
        counted = self._counted(_links(control), aim)
        _links(control).heal(aim.cause)
        return f"the links carry again; {counted}"

    @staticmethod
    def _counted(links: Links, aim: Aim) -> str:
        """The last count, which goes with the rule. What cannot be counted is healed all the same."""
        try:
            dropped = links.dropped(aim.cause)
        except FleetError as error:
            return f"how many packets were dropped is not known: {error}"
        hit = [link for link, packets in dropped.items() if packets]
        return f"{_packets(sum(dropped.values()))} were dropped, on {told(hit) or 'none'}"


def _packets(count: int) -> str:
    return "1 packet" if count == 1 else f"{count} packets"


@dataclass(frozen=True)
class Isolate(Partition):
    """One node hears nobody, and nobody hears it: neither brokers nor ZooKeeper nor clients."""

    kind: ClassVar[Kind] = Kind.ISOLATE

    def shape(self, hosts: Hosts, node: str, rng: random.Random) -> Cut:  # noqa: ARG002
        return between((node,), hosts.besides(node))


@dataclass(frozen=True)
class Mute(Partition):
    """Nothing that a node sends arrives; it hears everybody."""

    kind: ClassVar[Kind] = Kind.MUTE

    def shape(self, hosts: Hosts, node: str, rng: random.Random) -> Cut:  # noqa: ARG002
        return one_way((node,), hosts.besides(node))


@dataclass(frozen=True)
class Deaf(Partition):
    """Nothing that is sent to a node arrives; everybody hears it."""

    kind: ClassVar[Kind] = Kind.DEAF

    def shape(self, hosts: Hosts, node: str, rng: random.Random) -> Cut:  # noqa: ARG002
        return one_way(hosts.besides(node), (node,))


@dataclass(frozen=True)
class CutBrokers(Partition):
    """A broker and the other brokers: a leader keeps its session and its clients, and loses its followers."""

    kind: ClassVar[Kind] = Kind.CUT_BROKERS
    least_brokers: ClassVar[int] = 2

    def shape(self, hosts: Hosts, node: str, rng: random.Random) -> Cut:  # noqa: ARG002
        return between((node,), [each for each in hosts.brokers if each != node])


@dataclass(frozen=True)
class CutZooKeeper(Partition):
    """A broker and ZooKeeper: its session ends, and it still hears and serves everybody else."""

    kind: ClassVar[Kind] = Kind.CUT_ZOOKEEPER

    def shape(self, hosts: Hosts, node: str, rng: random.Random) -> Cut:  # noqa: ARG002
        return between((node,), hosts.coordinators)


@dataclass(frozen=True)
class CutClients(Partition):
    """A broker and one group of clients; all others still reach it."""

    kind: ClassVar[Kind] = Kind.CUT_CLIENTS

    def shape(self, hosts: Hosts, node: str, rng: random.Random) -> Cut:
        return between((node,), (rng.choice(hosts.clients),)) if hosts.clients else frozenset()


@dataclass(frozen=True)
class Halves(Partition):
    """The brokers fall into two halves; ZooKeeper and clients reach both."""

    kind: ClassVar[Kind] = Kind.HALVES
    least_brokers: ClassVar[int] = 2

    def shape(self, hosts: Hosts, node: str, rng: random.Random) -> Cut:
        mine, others = sides(node, hosts.brokers, len(hosts.brokers) // 2, rng)
        return between(mine, others)


@dataclass(frozen=True)
class Majority(Partition):
    """A minority of the brokers, with the node in it, loses the majority and ZooKeeper; clients reach both sides."""

    kind: ClassVar[Kind] = Kind.MAJORITY
    least_brokers: ClassVar[int] = 3

    def shape(self, hosts: Hosts, node: str, rng: random.Random) -> Cut:
        minority, majority = sides(node, hosts.brokers, (len(hosts.brokers) - 1) // 2, rng)
        return between(minority, (*majority, *hosts.coordinators))


@dataclass(frozen=True)
class Ring(Partition):
    """Every broker sees a majority of them, and no two see the same one."""

    kind: ClassVar[Kind] = Kind.RING
    least_brokers: ClassVar[int] = 4

    def shape(self, hosts: Hosts, node: str, rng: random.Random) -> Cut:  # noqa: ARG002
        return ring(rng.sample(hosts.brokers, len(hosts.brokers)))


@dataclass(frozen=True)
class Bridge(Partition):
    """Two halves of the brokers that see each other only by way of the node, which sees both."""

    kind: ClassVar[Kind] = Kind.BRIDGE
    least_brokers: ClassVar[int] = 3

    def shape(self, hosts: Hosts, node: str, rng: random.Random) -> Cut:
        others = [each for each in hosts.brokers if each != node]
        one, other = sides(rng.choice(others), others, len(others) // 2, rng)
        return between(one, other)


@dataclass(frozen=True)
class Loss(Partition):
    """Packets to and from a node get lost at random."""

    kind: ClassVar[Kind] = Kind.LOSS
    needs: ClassVar[str] = "lose"
    share: float = 0.3

    def shape(self, hosts: Hosts, node: str, rng: random.Random) -> Cut:  # noqa: ARG002
        return between((node,), hosts.besides(node))

    def _drop(self, links: Links, aim: Aim) -> None:
        links.lose(aim.cause, aim.links, self.share)


@dataclass(frozen=True)
class SlowHost(NetworkFault):
    def heal(self, control: NodeControl, aim: Aim) -> str:
        counted = self._counted(_links(control), aim)
        _links(control).heal(aim.cause)
        return f"{aim.node} is as fast as before{counted}"

    @staticmethod
    def _counted(links: Links, aim: Aim) -> str:
        """The last count, which goes with the queue. What cannot be counted is healed all the same."""
        try:
            queue = links.queue(aim.cause)
        except FleetError as error:
            return f"; how many packets went through is not known: {error}"
        return f"; {_packets(queue.packets)} went through, {queue.dropped} were dropped" if queue else ""


@dataclass(frozen=True)
class Bandwidth(SlowHost):
    """No more than so much goes into a node and out of it, each."""

    kind: ClassVar[Kind] = Kind.BANDWIDTH
    needs: ClassVar[str] = "throttle"
    kbit_per_s: int = 256

    def inject(self, control: NodeControl, aim: Aim) -> None:
        _links(control).throttle(aim.cause, aim.node, self.kbit_per_s)

    def evidence(self, control: NodeControl, aim: Aim) -> str | None:
        queue = _links(control).queue(aim.cause)
        if queue is None or not queue.held + queue.dropped:
            return None
        return f"packets were made to wait {queue.held} times at {self.kbit_per_s} kbit/s, {queue.dropped} were dropped"


@dataclass(frozen=True)
class Delay(SlowHost):
    """Every packet into a node and out of it is held, some longer than others."""

    kind: ClassVar[Kind] = Kind.DELAY
    needs: ClassVar[str] = "delay"
    delay_ms: float = 200.0
    jitter_ms: float = 100.0

    def inject(self, control: NodeControl, aim: Aim) -> None:
        _links(control).delay(aim.cause, aim.node, self.delay_ms, self.jitter_ms)

    def evidence(self, control: NodeControl, aim: Aim) -> str | None:
        queue = _links(control).queue(aim.cause)
        if queue is None or not queue.packets:
            return None
        return f"{_packets(queue.packets)} were held for {self.delay_ms:.0f} ms ± {self.jitter_ms:.0f} ms"


NETWORK_FAULTS: tuple[NetworkFault, ...] = (
    Isolate(),
    Mute(),
    Deaf(),
    CutBrokers(),
    CutZooKeeper(),
    CutClients(),
    Halves(),
    Majority(),
    Ring(),
    Bridge(),
    Loss(),
    Bandwidth(),
    Delay(),
)
