"""Hosts of their own: real network namespaces, real packets, real nftables."""

from __future__ import annotations

import errno
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from harness.fleet import kernel, linkfaults, network, proc
from harness.fleet.base import Command, FleetError, Link
from harness.fleet.namespaces import NamespaceFleet
from nemesis.fault import Aim, Kind
from nemesis.faults import FAULTS
from nemesis.nemesis import Nemesis, Patience
from nemesis.network import NETWORK_FAULTS, Partition
from nemesis.schedule import PlannedFault
from nemesis.shapes import between
from tests.harness.hosts import Chatter, holders, lacking
from tests.harness.waiting import wait_until
from tests.nemesis.fakes import FakeCluster, Recorder

pytestmark = pytest.mark.skipif(lacking() is not None, reason=str(lacking()))

BROKERS = tuple(f"broker-{each}" for each in range(1, 5))
HOSTS = (*BROKERS, "zookeeper-1", "worker-0")
A, B = BROKERS[:2]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[NamespaceFleet]:
    with NamespaceFleet(tmp_path / "registry") as fleet:
        yield fleet


@pytest.fixture
def chatter(fleet: NamespaceFleet) -> Iterator[Chatter]:
    chatter = Chatter(fleet, HOSTS)
    yield chatter
    chatter.close()


def sleeper(folder: Path) -> Command:
    return Command(("sleep", "600"), cwd=folder, log=folder / "log")


def test_a_cut_stops_one_direction_only_and_heals(fleet: NamespaceFleet, chatter: Chatter) -> None:
    assert chatter.heard(chatter.pairs) == chatter.pairs
    fleet.links.cut("one", [Link(A, B)])
    assert fleet.links.dropped("one") == {Link(A, B): 0}
    assert chatter.heard(chatter.pairs - {Link(A, B)}) == chatter.pairs - {Link(A, B)}
    assert fleet.links.dropped("one") == {Link(A, B): 1}
    fleet.links.heal("one")
    fleet.links.heal("one")
    fleet.links.heal("never done")
    assert chatter.heard(chatter.pairs) == chatter.pairs
    assert fleet.links.dropped("one") == {}


def test_causes_add_up_and_heal_each_for_itself(fleet: NamespaceFleet, chatter: Chatter) -> None:
    one, other = between([A], [B]), between([A], [B, "worker-0"])
    fleet.links.cut("one", one)
    fleet.links.cut("other", other)
    assert chatter.heard(chatter.pairs - other) == chatter.pairs - other
    fleet.links.heal("one")
    assert chatter.heard(chatter.pairs - other) == chatter.pairs - other
    fleet.links.heal("other")
    assert chatter.heard(chatter.pairs) == chatter.pairs
    with pytest.raises(FleetError, match="no host nobody"):
        fleet.links.cut("one", [Link(A, "nobody")])
    fleet.links.heal("one")


class Cluster(FakeCluster):
    """Made-up brokers on real hosts."""

    def __init__(self, fleet: NamespaceFleet) -> None:
        super().__init__(brokers=len(BROKERS))
        self.links = fleet.links


@pytest.mark.parametrize("kind", [each.kind for each in NETWORK_FAULTS if isinstance(each, Partition)])
def test_each_shape_silences_what_it_says(kind: Kind, fleet: NamespaceFleet, chatter: Chatter) -> None:
    cluster, fault = Cluster(fleet), FAULTS[kind]
    links = frozenset(fault.draw(cluster, A, random.Random(7)))
    aim = Aim("it", A, 1, tuple(links))
    fault.inject(cluster, aim)
    assert fault.evidence(cluster, aim) is None, "nothing was sent yet"
    if kind is Kind.LOSS:
        wait_until(lambda: chatter.heard(chatter.pairs - links) != chatter.pairs, "a packet to be lost")
    else:
        assert chatter.heard(chatter.pairs - links) == chatter.pairs - links
    assert "dropped on" in str(fault.evidence(cluster, aim))
    assert "carry again" in fault.heal(cluster, aim)
    assert "carry again" in fault.heal(cluster, aim)
    assert chatter.heard(chatter.pairs) == chatter.pairs


def test_loss_drops_its_share_and_counts_what_it_drops(fleet: NamespaceFleet) -> None:
    with fleet.on_host(A, _udp) as sender, fleet.on_host(B, _udp) as receiver:
        receiver.bind(("0.0.0.0", 7))
        receiver.setblocking(False)
        fleet.links.lose("it", [Link(A, B)], 0.3)
        arrived = 0
        for _ in range(2000):
            sender.sendto(b"", (fleet.address(B), 7))
            arrived += _drained(receiver)

        def all_known() -> bool:
            nonlocal arrived
            arrived += _drained(receiver)
            return arrived + fleet.links.dropped("it")[Link(A, B)] == 2000

        wait_until(all_known, "each packet to have arrived or to be counted")
        assert 450 < fleet.links.dropped("it")[Link(A, B)] < 750, "0.3 of 2000, give or take seven sigma"


def _udp() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _drained(receiver: socket.socket) -> int:
    count = 0
    while True:
        try:
            receiver.recv(16)
        except BlockingIOError:
            return count
        count += 1


@pytest.mark.parametrize("kind", [Kind.BANDWIDTH, Kind.DELAY])
def test_a_slow_host_makes_packets_wait_and_is_fast_again(kind: Kind, fleet: NamespaceFleet, chatter: Chatter) -> None:
    cluster, fault = Cluster(fleet), FAULTS[kind]
    reason = fault.unavailable(cluster)
    if reason is not None:
        pytest.skip(reason)
    aim = Aim("it", A, 1)
    fault.inject(cluster, aim)
    assert fault.evidence(cluster, aim) is None, "nothing was sent yet"
    with pytest.raises(FleetError, match="slowed down already"):
        fault.inject(cluster, Aim("again", A, 1))
    with fleet.on_host(A, _udp) as sender:
        for _ in range(60):
            sender.sendto(bytes(1000), (fleet.address(B), 9))
    wait_until(lambda: fault.evidence(cluster, aim) is not None, "a packet to wait")
    assert "as fast as before" in fault.heal(cluster, aim)
    assert "as fast as before" in fault.heal(cluster, aim)
    assert chatter.heard(chatter.pairs) == chatter.pairs
    fault.inject(cluster, aim)
    fault.heal(cluster, aim)


def test_the_harness_reaches_a_host_that_nobody_else_does(fleet: NamespaceFleet, chatter: Chatter) -> None:
    fleet.links.cut("it", between([A], [each for each in HOSTS if each != A]))
    listener = fleet.on_host(A, lambda: socket.create_server((fleet.address(A), 9092)))
    with listener, socket.create_connection((fleet.address(A), 9092), timeout=10) as ours:
        theirs, address = listener.accept()
        with theirs:
            theirs.sendall(b"here")
            assert ours.recv(4) == b"here"
            assert address[0].startswith("198.19."), "by the links of the harness"
    assert not any(A in link for link in chatter.heard(()))


@pytest.mark.parametrize(("traffic", "kinds"), [(True, "fault-evidence"), (False, "fault-not-landed")])
def test_a_cut_without_packets_has_not_landed(
    traffic: bool, kinds: str, fleet: NamespaceFleet, chatter: Chatter
) -> None:
    cluster, recorder = Cluster(fleet), Recorder()
    schedule = [PlannedFault(0, 0.0, 0.0, Kind.ISOLATE, A)]
    patience = Patience(selection_s=1.0, evidence_s=30.0 if traffic else 0.1)
    nemesis = Nemesis(cluster, cluster, schedule, cluster.keys, recorder, patience=patience)
    nemesis.start()
    wait_until(lambda: "fault-injected" in recorder.kinds(), "the cut")
    while nemesis.is_running() and traffic:
        chatter.heard(())
    nemesis.heal_all()
    assert recorder.kinds() == ["fault-planned", "fault-injected", kinds, "fault-healed"]
    assert chatter.heard(chatter.pairs) == chatter.pairs


def test_nodes_live_on_hosts_of_their_own(fleet: NamespaceFleet, tmp_path: Path) -> None:
    pids = {name: fleet.start(name, sleeper(tmp_path)) for name in (A, B)}
    networks = {os.readlink(f"/proc/{pid}/ns/net") for pid in pids.values()}
    assert len(networks | {os.readlink("/proc/thread-self/ns/net")}) == 3
    fleet.signal(A, signal.SIGKILL)
    assert fleet.wait(A, 30)
    again = fleet.start(A, sleeper(tmp_path))
    assert os.readlink(f"/proc/{again}/ns/net") in networks, "a host outlives its processes"
    assert fleet.address(A) != fleet.address(B)
    assert [fleet.reserve_port(A), fleet.reserve_port(A), fleet.reserve_port(B)] == [9092, 9093, 9092]


def _devices() -> list[str]:
    return [line.split(":")[0].strip() for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]]


def test_the_machines_own_network_is_not_touched(tmp_path: Path) -> None:
    before, at_first = _devices(), os.readlink("/proc/thread-self/ns/net")
    look, meanwhile, seen = threading.Event(), threading.Event(), []

    def outside() -> None:
        look.wait(60)
        seen.append(_devices())
        meanwhile.set()

    threading.Thread(target=outside).start()
    with NamespaceFleet(tmp_path / "registry") as fleet:
        fleet.start(A, sleeper(tmp_path))
        look.set()
        assert meanwhile.wait(60)
        assert _devices() != before, "this thread is elsewhere"
    assert seen == [before]
    assert (os.readlink("/proc/thread-self/ns/net"), _devices()) == (at_first, before)


def test_close_leaves_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    fleet = NamespaceFleet(tmp_path / "registry")
    with pytest.raises(FleetError, match="not open"):
        fleet.start(A, sleeper(tmp_path))
    fleet.open()
    fleet.open()
    descriptors = len(os.listdir("/proc/self/fd"))
    pid = fleet.start(A, sleeper(tmp_path))
    fleet.start(B, sleeper(tmp_path))
    network = os.readlink(f"/proc/{pid}/ns/net")
    fleet.links.cut("left in force", [Link(A, B)])
    assert holders(network)
    fleet.close()
    fleet.close()
    assert proc.state(pid) is None
    assert holders(network) == []
    assert len(os.listdir("/proc/self/fd")) < descriptors
    assert list((tmp_path / "registry").iterdir()) == []


def test_a_kernel_without_queues_cuts_all_the_same(fleet: NamespaceFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def add_queue(*_: object) -> None:
        raise NetlinkError(errno.EOPNOTSUPP, "refused")

    monkeypatch.setattr(linkfaults, "_add_queue", add_queue)
    assert fleet.links.unavailable("throttle") == "this kernel does not let hosts have tbf: Operation not supported"
    assert fleet.links.unavailable("cut") is None


@pytest.mark.parametrize("bridge", ["data", "manage"])
def test_a_host_that_was_made_by_half_is_none(bridge: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def plug_in(ip: Any, port: str, into: str) -> None:
        if into == bridge:
            raise OSError(errno.ENOMEM, "no memory")
        ways_in(ip, port, into)

    ways_in = network._plug_in
    descriptors = len(os.listdir("/proc/self/fd"))
    with NamespaceFleet(tmp_path / "registry") as fleet:
        with monkeypatch.context() as patched:
            patched.setattr(network, "_plug_in", plug_in)
            for _ in range(2):
                with pytest.raises(FleetError, match=f"host {A} cannot be made: no memory"):
                    fleet.start(A, sleeper(tmp_path))
        assert fleet.links.hosts == ()
        chatter = Chatter(fleet, (A, B))
        assert chatter.heard(chatter.pairs) == chatter.pairs
        chatter.close()
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_network_that_was_made_by_half_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bridge(ip: Any, name: str) -> int:
        if name == "manage":
            raise OSError(errno.ENOMEM, "no memory")
        return bridges(ip, name)

    bridges = network._bridge
    descriptors = len(os.listdir("/proc/self/fd"))
    fleet = NamespaceFleet(tmp_path / "registry")
    with monkeypatch.context() as patched:
        patched.setattr(network, "_bridge", bridge)
        with pytest.raises(FleetError, match="the network of the hosts cannot be made: no memory"):
            fleet.open()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    fleet.open()
    fleet.close()


_HARNESS = """
import os, sys
from pathlib import Path
from harness.fleet.base import Command, Link
from harness.fleet.namespaces import NamespaceFleet
folder = Path(sys.argv[1])
fleet = NamespaceFleet(folder / "registry")
fleet.open()
command = Command(("sleep", "600"), cwd=folder, log=folder / "log")
pids = [fleet.start(each, command) for each in ("a", "b")]
fleet.links.cut("it", [Link("a", "b")])
print(*pids, os.readlink("/proc/thread-self/ns/net"), *(os.readlink(f"/proc/{pid}/ns/net") for pid in pids), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_harness_that_is_killed(tmp_path: Path, ending: signal.Signals) -> None:
    harness = subprocess.Popen(
        [sys.executable, "-c", _HARNESS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with harness:
        assert harness.stdout is not None
        words = harness.stdout.readline().split()
        pids, networks = [int(each) for each in words[:2]], words[2:]
        assert len(set(networks)) == 3
        assert all(map(holders, networks))
        harness.send_signal(ending)
    wait_until(lambda: all(proc.state(pid) in (None, "Z") for pid in pids), "the nodes to die")
    wait_until(lambda: not any(map(holders, networks)), "their networks to be let go")


def test_a_process_of_several_threads_cannot_enter_a_user_namespace() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    with pytest.raises(FleetError, match="one thread only"):
        kernel.become_root_of_a_user_namespace()
    done.set()
    thread.join()
