from __future__ import annotations

import random

import pytest

from nemesis.selectors import Selection, select
from tests.nemesis.fakes import FakeCluster


def test_each_role() -> None:
    cluster = FakeCluster()
    rng = random.Random(1)

    def ask(role: str, *busy: str) -> Selection | str:
        return select(role, cluster, cluster.nodes, cluster.keys(), rng, busy)

    assert ask("controller") == Selection("broker-1", "the controller")
    assert ask("broker-3") == Selection("broker-3", "by name")
    leader = ask("leader")
    assert isinstance(leader, Selection)
    assert leader in (
        Selection("broker-2", "the leader of t-0", 0),
        Selection("broker-3", "the leader of t-1", 1),
    )
    assert {found.node for _ in range(50) if isinstance(found := ask("any"), Selection)} == set(cluster.nodes)


def test_a_busy_node_is_passed_over() -> None:
    cluster = FakeCluster()

    def ask(role: str, *busy: str) -> Selection | str:
        return select(role, cluster, cluster.nodes, cluster.keys(), random.Random(1), busy)

    assert ask("leader", "broker-2") == Selection("broker-3", "the leader of t-1", 1)
    assert ask("leader", "broker-2", "broker-3") == "no key has a leader that is not busy with another fault"
    assert ask("any", "broker-1", "broker-3") == Selection("broker-2", "any broker")
    assert "busy" in str(ask("controller", "broker-1"))
    assert "busy" in str(ask("any", *cluster.nodes))


def test_nobody_knows() -> None:
    cluster = FakeCluster()
    cluster.controller_id = None
    assert select("controller", cluster, cluster.nodes, [], random.Random(1)) == "there is no controller"
    assert select("leader", cluster, cluster.nodes, [], random.Random(1)) == "there are no keys yet"
    with pytest.raises(ValueError, match="unknown role"):
        select("king", cluster, cluster.nodes, [], random.Random(1))
