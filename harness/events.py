"""One typed event stream; terminal, NDJSON log and the history's ``events`` table are its handlers.

The runner and the nemesis emit; handlers are called in the emitting thread, in order, under one lock,
so a handler needs no lock of its own and must be quick.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from histories.recorded import RecordedEvent

Handler = Callable[["Event"], None]


@dataclass(frozen=True)
class Progress:
    """A sample of the load, for the terminal; not stored."""

    elapsed_s: float
    limit_s: float
    acknowledged: int
    polled: int
    failed: int
    unknown: int


Event = RecordedEvent | Progress


class EventStream:
    def __init__(self, started_ns: int) -> None:
        self._started_ns = started_ns
        self._handlers: list[Handler] = []
        self._lock = threading.RLock()

    def subscribe(self, handler: Handler) -> None:
        self._handlers.append(handler)

    def emit(self, event: Event) -> None:
        """Stamp an event that has no time yet, and hand it to everyone."""
        with self._lock:
            if isinstance(event, RecordedEvent) and event.time_ns is None:
                event = replace(event, time_ns=time.monotonic_ns() - self._started_ns)
            for handler in self._handlers:
                handler(event)
