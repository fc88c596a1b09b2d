"""Watches a cluster change: leaders, ISRs, controllers, members, as events.

It asks for the whole picture several times a second and reports the differences. What changes and changes
back between two looks goes unseen; the epochs in the events show that something is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from harness.targets.base import Snapshot, TargetView, node_name
from histories.recorded import RecordedEvent

KeyOf = Callable[[str, int], int | None]


def changes(before: Snapshot, after: Snapshot, key_of: KeyOf) -> list[RecordedEvent]:
    """What happened between two pictures. Partitions without a key are nobody's business."""
    return [*_members(before, after), *_controller(before, after), *_partitions(before, after, key_of)]


def _members(before: Snapshot, after: Snapshot) -> list[RecordedEvent]:
    events = []
    for broker in sorted(before.brokers.keys() | after.brokers.keys()):
        old, new = before.brokers.get(broker), after.brokers.get(broker)
        if old is not None and old != new:
            events.append(RecordedEvent("node-died", node=node_name(broker), detail="its registration is gone"))
        if new is not None and old != new:
            events.append(RecordedEvent("node-started", node=node_name(broker), detail="it has registered"))
    return events


def _controller(before: Snapshot, after: Snapshot) -> list[RecordedEvent]:
    if (before.controller, before.controller_epoch) == (after.controller, after.controller_epoch):
        return []
    node = node_name(after.controller) if after.controller is not None else None
    return [RecordedEvent("controller", node=node, controller_epoch=after.controller_epoch)]


def _partitions(before: Snapshot, after: Snapshot, key_of: KeyOf) -> list[RecordedEvent]:
    events = []
    for (topic, partition), new in sorted(after.partitions.items()):
        key = key_of(topic, partition)
        old = before.partitions.get((topic, partition))
        if key is None or old == new:
            continue
        for kind, changed in (
            ("leader", old is None or (old.leader, old.leader_epoch) != (new.leader, new.leader_epoch)),
            ("isr", old is None or set(old.isr) != set(new.isr)),
        ):
            if changed:
                events.append(
                    RecordedEvent(
                        kind,
                        key=key,
                        leader=new.leader,
                        leader_epoch=new.leader_epoch,
                        controller_epoch=new.controller_epoch,
                        isr=new.isr,
                    )
                )
    return events


class ClusterWatcher:
    def __init__(
        self,
        view: TargetView,
        emit: Callable[[RecordedEvent], None],
        key_of: KeyOf,
        *,
        source: str = "zookeeper",
        interval_s: float = 0.2,
    ) -> None:
        """``key_of`` is asked for partition 0 of a topic to learn whether the topic matters."""
        self._view = view
        self._emit = emit
        self._key_of = key_of
        self._source = source
        self._interval_s = interval_s
        self._last = Snapshot()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cluster-watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Take a last look, then emit nothing more. Idempotent."""
        if self._stop.is_set():
            return
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self.look()

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.look()
            self._stop.wait(self._interval_s)

    def look(self) -> None:
        """Take one look and report what is new."""
        now = self._view.snapshot(lambda topic: self._key_of(topic, 0) is not None)
        if now is None:
            return
        for event in changes(self._last, now, self._key_of):
            self._emit(replace(event, source=self._source))
        self._last = now
