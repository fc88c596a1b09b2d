from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], awaited: str, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {awaited}"
        time.sleep(0.01)
