"""Ctrl-C, SIGTERM and SIGHUP, as one thing: the wish that a command ends early and in order.

Python raises ``KeyboardInterrupt`` wherever the main thread happens to be. That is right while a run waits, and
wrong while it saves what was recorded. So a run holds signals back except where it is ready for them: one that
comes meanwhile is remembered, and the saving goes on. A person who insists (a second one) gets out at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A terminal's Ctrl-C, a CI job that is cancelled, a terminal that is closed."""


def interrupt_on_signals() -> None:
    """All of them raise ``KeyboardInterrupt``. What the caller ignores (``nohup``) stays ignored."""
    _install(_raise)


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _install(handler: Callable[[int, FrameType | None], None]) -> dict[signal.Signals, Any]:
    """Returns what was in place before; nothing outside of the main thread, where signals are not ours to take."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {each: signal.getsignal(each) for each in SIGNALS}
    taken = {each: old for each, old in before.items() if old is not signal.SIG_IGN}
    for each in taken:
        signal.signal(each, handler)
    return taken


class Interrupts:
    """Holds signals back, except inside :meth:`allowed`."""

    def __init__(self) -> None:
        self.seen = False
        """Whether one came."""
        self._allowed = False
        self._held = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = _install(self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for each, old in self._before.items():
            signal.signal(each, old)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """In here a signal raises ``KeyboardInterrupt``, also one that came before."""
        self._allowed = True
        try:
            if self.seen:
                raise KeyboardInterrupt
            yield
        finally:
            self._allowed = False

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if not self.seen:
            # Not print: the signal may have come in the middle of one.
            os.write(2, b"tidemark: interrupted; healing, and saving what was recorded (once more: without waiting)\n")
        self.seen = True
        self._held += not self._allowed
        if self._allowed or self._held > 1:
            raise KeyboardInterrupt
