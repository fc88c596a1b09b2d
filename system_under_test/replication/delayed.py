"""Purgatories: operations that wait for an event at one of several partitions, or for their time-out.

Nothing polls. Whoever causes an event (the high watermark moved, the log's end moved, a follower fetched, leadership
went) calls :meth:`Purgatory.check` with the partition; operations that wait there are asked whether that was enough.
When nobody waits this is one look into a dictionary.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from system_under_test.types import TopicPartition


class DelayedOperation(ABC):
    """Completed exactly once: by an event, or by its time-out."""

    __slots__ = ("_keys", "_timer")

    _keys: tuple[TopicPartition, ...]
    _timer: asyncio.TimerHandle | None

    @abstractmethod
    def try_complete(self, key: TopicPartition) -> bool:
        """Something happened at ``key``: is that enough? Must not call back into the purgatory."""

    @abstractmethod
    def on_complete(self) -> None:
        """Give the answer; an event satisfied the operation."""

    @abstractmethod
    def on_expire(self) -> None:
        """Give the answer; the time is up."""


class Purgatory:
    """Operations that wait, by partition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._waiting: dict[TopicPartition, dict[DelayedOperation, None]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def watch(self, operation: DelayedOperation, keys: tuple[TopicPartition, ...], timeout_s: float) -> None:
        """Wait at ``keys``. The caller has made sure that the operation cannot be completed at once."""
        operation._keys = keys
        for key in keys:
            self._waiting.setdefault(key, {})[operation] = None
        operation._timer = asyncio.get_running_loop().call_later(max(timeout_s, 0.0), self._expire, operation)
        self._size += 1

    def check(self, key: TopicPartition) -> None:
        waiting = self._waiting.get(key)
        if waiting is None:
            return
        for operation in list(waiting):
            if operation.try_complete(key):
                self._remove(operation)
                operation.on_complete()

    def cancel_all(self) -> None:
        """End every wait as if its time were up: the broker is shutting down."""
        while self._waiting:
            self._expire(next(iter(next(iter(self._waiting.values())))))

    def _expire(self, operation: DelayedOperation) -> None:
        self._remove(operation)
        operation.on_expire()

    def _remove(self, operation: DelayedOperation) -> None:
        assert operation._timer is not None, f"an operation of {self.name} was completed twice"
        operation._timer.cancel()
        operation._timer = None
        self._size -= 1
        for key in operation._keys:
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.pop(operation, None)
                if not waiting:
                    del self._waiting[key]
