"""Pure parts: who leads next, and which steps the tables have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from system_under_test.controller import partition_states, replica_states, selectors
from system_under_test.controller.context import PartitionPhase, ReplicaPhase
from system_under_test.controller.core import InvalidTransition, check_transition
from system_under_test.controller.selectors import Elected

brokers = st.integers(0, 5)
replica_lists = st.lists(brokers, min_size=1, max_size=5, unique=True)


def test_offline() -> None:
    assert selectors.offline([0, 1, 2], [1, 2], {1, 2}, False) == Elected(1, (1, 2))
    assert selectors.offline([0, 1, 2], [2, 1], {0, 2}, False) == Elected(2, (2,))
    assert selectors.offline([0, 1, 2], [2], {0, 1}, False) is None
    assert selectors.offline([0, 1, 2], [2], {0, 1}, True) == Elected(0, (0,), unclean=True)
    assert selectors.offline([0, 1, 2], [2], set(), True) is None


def test_reassigned() -> None:
    assert selectors.reassigned([3, 2], [0, 2, 3], {2, 3}) == Elected(3, (0, 2, 3))
    assert selectors.reassigned([3, 2], [0, 2, 3], {2}) == Elected(2, (0, 2, 3))
    assert selectors.reassigned([3, 2], [0], {0, 2, 3}) is None


def test_preferred() -> None:
    assert selectors.preferred([0, 1], [1, 0], {0, 1}) == Elected(0, (1, 0))
    assert selectors.preferred([0, 1], [1], {0, 1}) is None
    assert selectors.preferred([0, 1], [1, 0], {1}) is None


def test_controlled_shutdown() -> None:
    assert selectors.controlled_shutdown([0, 1, 2], [0, 1, 2], {0, 1, 2}, {0}) == Elected(1, (1, 2))
    assert selectors.controlled_shutdown([0, 1], [0, 1], {0, 1}, {0, 1}) is None
    assert selectors.controlled_shutdown([0, 1], [0], {0, 1}, {0}) is None


@given(replica_lists, st.data(), st.booleans())
def test_a_leader_is_alive_assigned_and_in_its_isr(replicas: list[int], data: st.DataObject, unclean: bool) -> None:
    isr = data.draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    live = data.draw(st.sets(st.sampled_from(replicas)))
    leaving = data.draw(st.sets(brokers))
    for elected in (
        selectors.offline(replicas, isr, live, unclean),
        selectors.reassigned(replicas, isr, live),
        selectors.preferred(replicas, isr, live),
        selectors.controlled_shutdown(replicas, isr, live, leaving),
    ):
        if elected is None:
            continue
        assert elected.leader in live
        assert elected.leader in replicas
        assert elected.leader in elected.isr
        assert elected.unclean or elected.leader in isr
        assert elected.unclean or set(elected.isr) <= set(isr)
        assert not elected.unclean or (unclean and not live & set(isr))


PARTITION_STEPS = {
    ("NonExistentPartition", "NewPartition"),
    ("NewPartition", "OnlinePartition"),
    ("OnlinePartition", "OnlinePartition"),
    ("OfflinePartition", "OnlinePartition"),
    ("NewPartition", "OfflinePartition"),
    ("OnlinePartition", "OfflinePartition"),
    ("OfflinePartition", "OfflinePartition"),
    ("OfflinePartition", "NonExistentPartition"),
}
REPLICA_STEPS = {
    ("NonExistentReplica", "NewReplica"),
    ("NewReplica", "OnlineReplica"),
    ("OnlineReplica", "OnlineReplica"),
    ("OfflineReplica", "OnlineReplica"),
    ("ReplicaDeletionIneligible", "OnlineReplica"),
    ("NewReplica", "OfflineReplica"),
    ("OnlineReplica", "OfflineReplica"),
    ("OfflineReplica", "OfflineReplica"),
    ("ReplicaDeletionIneligible", "OfflineReplica"),
    ("OfflineReplica", "ReplicaDeletionStarted"),
    ("ReplicaDeletionStarted", "ReplicaDeletionSuccessful"),
    ("OfflineReplica", "ReplicaDeletionIneligible"),
    ("ReplicaDeletionStarted", "ReplicaDeletionIneligible"),
    ("ReplicaDeletionSuccessful", "NonExistentReplica"),
}


def test_every_other_step_of_a_partition_raises() -> None:
    for source in PartitionPhase:
        for target in PartitionPhase:
            if (source.value, target.value) in PARTITION_STEPS:
                check_transition(partition_states.VALID_SOURCES, source, target, "t-0")
            else:
                with pytest.raises(InvalidTransition):
                    check_transition(partition_states.VALID_SOURCES, source, target, "t-0")


def test_every_other_step_of_a_replica_raises() -> None:
    for source in ReplicaPhase:
        for target in ReplicaPhase:
            if (source.value, target.value) in REPLICA_STEPS:
                check_transition(replica_states.VALID_SOURCES, source, target, "t-0 on 1")
            else:
                with pytest.raises(InvalidTransition):
                    check_transition(replica_states.VALID_SOURCES, source, target, "t-0 on 1")
