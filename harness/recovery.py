"""Waiting until the cluster is healthy again by its own account."""

from __future__ import annotations

import time
from collections.abc import Callable

from histories.recorded import RecordedEvent
from nemesis.view import ClusterView

_LOOK_EVERY_S = 0.25
_HEALTHY_LOOKS = 3
"""In a row: right after a pause ends, a cluster has not yet noticed the session that expired meanwhile."""


def await_healthy(view: ClusterView, timeout_s: float, emit: Callable[[RecordedEvent], None]) -> bool:
    """False when the deadline passes first; what was still wrong then is in the events."""
    deadline = time.monotonic() + timeout_s
    in_a_row = 0
    while in_a_row < _HEALTHY_LOOKS:
        problems = view.unhealthy()
        in_a_row = 0 if problems else in_a_row + 1
        if problems and time.monotonic() > deadline:
            for problem in problems:
                emit(RecordedEvent("unhealthy", detail=problem))
            return False
        time.sleep(_LOOK_EVERY_S)
    return True
