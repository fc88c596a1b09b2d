"""What a mutant may use up: one that never ends, or that asks for all memory, was noticed."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

LIMIT_S = 120
MORE_MEMORY = 6 * 2**30
"""Above what a process has when it begins."""


@contextmanager
def limited() -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def limit_memory() -> None:
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MORE_MEMORY, now + MORE_MEMORY))
