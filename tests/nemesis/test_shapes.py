from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.fleet.base import Link
from nemesis.network import NETWORK_FAULTS, Partition
from nemesis.shapes import Hosts, between, one_way, ring, sides, told

FIVE = tuple(f"broker-{each}" for each in range(5))
HOSTS = Hosts(FIVE, ("zookeeper-1",), ("worker-0", "worker-1"))
ALL = (*FIVE, "zookeeper-1", "worker-0", "worker-1")
PARTITIONS = {str(fault.kind): fault for fault in NETWORK_FAULTS if isinstance(fault, Partition)}


def sees(cut: frozenset[Link], one: str, other: str) -> bool:
    return Link(one, other) not in cut and Link(other, one) not in cut


def test_directions() -> None:
    assert one_way(["a"], ["a", "b", "c"]) == {("a", "b"), ("a", "c")}
    assert between(["a"], ["b"]) == {("a", "b"), ("b", "a")}
    assert told(between(["a"], ["b", "c"])) == "a ↔ b, a ↔ c"
    assert told({Link("b", "a"), Link("c", "a"), Link("a", "c")}) == "a ↔ c, b → a"
    assert told([]) == ""


@given(seed=st.integers(), size=st.integers(1, 5), node=st.sampled_from(FIVE))
def test_sides(seed: int, size: int, node: str) -> None:
    mine, others = sides(node, FIVE, size, random.Random(seed))
    assert node in mine
    assert len(mine) == size
    assert sorted(mine + others) == sorted(FIVE)


@given(count=st.integers(4, 12))
def test_a_ring_gives_everybody_another_majority(count: int) -> None:
    brokers = [f"b{each}" for each in range(count)]
    cut = ring(brokers)
    seen = [frozenset(other for other in brokers if sees(cut, one, other)) for one in brokers]
    assert cut, "somebody does not see somebody"
    assert all(2 * len(each) > count for each in seen)
    assert len(set(seen)) == count
    assert ring(brokers[:3]) == frozenset(), "three brokers have no ring of majorities"


@pytest.mark.parametrize("name", PARTITIONS)
@given(seed=st.integers(), node=st.sampled_from(FIVE))
def test_every_shape_cuts_something_and_names_only_hosts(name: str, seed: int, node: str) -> None:
    cut = PARTITIONS[name].shape(HOSTS, node, random.Random(seed))
    assert cut
    assert {host for link in cut for host in link} <= set(ALL)
    assert all(link.source != link.destination for link in cut)
    if name not in ("mute", "deaf"):
        assert cut == {Link(link.destination, link.source) for link in cut}, "both ways"
    if name in ("halves", "ring", "bridge", "cut-brokers"):
        assert {host for link in cut for host in link} <= set(FIVE), "clients and ZooKeeper reach everybody"


def shape(name: str, node: str = "broker-2", hosts: Hosts = HOSTS) -> frozenset[Link]:
    return PARTITIONS[name].shape(hosts, node, random.Random(5))


def test_what_is_said_of_one_node() -> None:
    everybody = [each for each in ALL if each != "broker-2"]
    assert shape("isolate") == shape("loss") == between(["broker-2"], everybody)
    assert shape("mute") == one_way(["broker-2"], everybody)
    assert shape("deaf") == one_way(everybody, ["broker-2"])
    assert shape("cut-brokers") == between(["broker-2"], set(FIVE))
    assert shape("cut-zookeeper") == between(["broker-2"], ["zookeeper-1"])
    assert shape("cut-clients") in [between(["broker-2"], [f"worker-{each}"]) for each in (0, 1)]


@given(seed=st.integers())
def test_a_minority_loses_the_majority_and_zookeeper(seed: int) -> None:
    cut = PARTITIONS["majority"].shape(HOSTS, "broker-2", random.Random(seed))
    minority = [each for each in FIVE if not sees(cut, each, "zookeeper-1")]
    assert "broker-2" in minority
    assert len(minority) == 2
    assert cut == between(minority, [each for each in (*FIVE, "zookeeper-1") if each not in minority])


@given(seed=st.integers())
def test_halves_and_their_bridge(seed: int) -> None:
    cut = PARTITIONS["halves"].shape(HOSTS, "broker-2", random.Random(seed))
    half = [each for each in FIVE if sees(cut, "broker-2", each)]
    assert len(half) == 2
    assert cut == between(half, [each for each in FIVE if each not in half])

    cut = PARTITIONS["bridge"].shape(HOSTS, "broker-2", random.Random(seed))
    assert all(sees(cut, "broker-2", each) for each in FIVE)
    half = [each for each in FIVE if sees(cut, "broker-0", each) and each != "broker-2"]
    assert len(half) == 2
    assert cut == between(half, [each for each in FIVE if each not in (*half, "broker-2")])


def test_three_brokers() -> None:
    three = Hosts(FIVE[:3], ("zookeeper-1",), ())
    alone = between(["broker-2"], ["broker-0", "broker-1"])
    assert shape("halves", hosts=three) == alone
    assert shape("majority", hosts=three) == alone | between(["broker-2"], ["zookeeper-1"])
    assert shape("bridge", hosts=three) == between(["broker-0"], ["broker-1"])
