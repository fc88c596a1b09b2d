from __future__ import annotations

from collections.abc import Callable

from harness.targets.base import PartitionState, Snapshot
from harness.targets.watcher import ClusterWatcher, changes
from histories.recorded import RecordedEvent
from tests.harness.waiting import wait_until

CALM = Snapshot({1: 10, 2: 20}, 1, 5, {("t", 0): PartitionState(1, 3, (1, 2), 5)})


def key_of(topic: str, partition: int) -> int | None:
    return 40 + partition if topic == "t" else None


def test_nothing_new() -> None:
    assert changes(CALM, CALM, key_of) == []


def test_the_first_look_tells_everything() -> None:
    kinds = [event.kind for event in changes(Snapshot(), CALM, key_of)]
    assert kinds == ["node-started", "node-started", "controller", "leader", "isr"]


def test_a_leader_dies() -> None:
    after = Snapshot({2: 20}, 2, 6, {("t", 0): PartitionState(2, 4, (2,), 6)})
    state = {"key": 40, "leader": 2, "leader_epoch": 4, "controller_epoch": 6, "isr": (2,)}
    assert changes(CALM, after, key_of) == [
        RecordedEvent("node-died", node="broker-1", detail="its registration is gone"),
        RecordedEvent("controller", node="broker-2", controller_epoch=6),
        RecordedEvent("leader", **state),  # type: ignore[arg-type]
        RecordedEvent("isr", **state),  # type: ignore[arg-type]
    ]


def test_the_same_leader_in_a_new_epoch_is_a_change_and_the_order_of_the_isr_is_none() -> None:
    after = Snapshot(CALM.brokers, 1, 5, {("t", 0): PartitionState(1, 4, (2, 1), 5)})
    assert [event.kind for event in changes(CALM, after, key_of)] == ["leader"]


def test_a_broker_that_was_away_between_two_looks() -> None:
    after = Snapshot({1: 10, 2: 21}, 1, 5, CALM.partitions)
    assert [(each.kind, each.node) for each in changes(CALM, after, key_of)] == [
        ("node-died", "broker-2"),
        ("node-started", "broker-2"),
    ]


def test_partitions_without_a_key_are_nobodys_business() -> None:
    after = Snapshot(CALM.brokers, 1, 5, {**CALM.partitions, ("other", 0): PartitionState(1, 0, (1,))})
    assert changes(CALM, after, key_of) == []


class FakeView:
    def __init__(self) -> None:
        self.now: Snapshot | None = CALM
        self.looks = 0

    def snapshot(self, wanted: Callable[[str], bool]) -> Snapshot | None:
        assert (wanted("t"), wanted("other")) == (True, False)
        self.looks += 1
        return self.now


def test_the_watcher_sees_through_silence_and_takes_a_last_look() -> None:
    view, seen = FakeView(), list[RecordedEvent]()
    watcher = ClusterWatcher(view, seen.append, key_of, interval_s=0.001)  # type: ignore[arg-type]
    watcher.start()
    wait_until(lambda: len(seen) == 5, "the first look")
    view.now = None
    silent = view.looks
    wait_until(lambda: view.looks > silent + 2, "looks that see nothing")
    assert len(seen) == 5, "no answer is no change"
    view.now = Snapshot({1: 10}, 1, 5, CALM.partitions)
    watcher.stop()
    watcher.stop()
    assert [event.kind for event in seen[5:]] == ["node-died"]
    assert {event.source for event in seen} == {"zookeeper"}
