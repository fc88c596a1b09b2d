"""Waiting for a condition with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.targets.base import TargetError

_POLL_S = 0.05


def wait_until(condition: Callable[[], bool], timeout_s: float, awaited: Callable[[], str]) -> None:
    """Return as soon as the condition holds; a :class:`TargetError` says what was awaited in vain."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            raise TargetError(f"waited {timeout_s:.0f} s: {awaited()}")
        time.sleep(_POLL_S)
