"""Ctrl-C, SIGTERM and SIGHUP, as one thing: the wish that a command ends early and in order.

Python raises ``KeyboardInterrupt`` wherever the main thread happens to be. That is right while a run waits, and
wrong while it saves what was recorded. So a run holds signals back except where it is ready for them: one that
comes meanwhile is remembered, and the saving goes on. A person who insists (a second one) gets out at once.
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, Self

from harness.exits import Exit

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A terminal's Ctrl-C, a CI job that is cancelled, a terminal that is closed."""


_AGAIN_S: Final = 0.02


def interrupt_on_signals() -> None:
    """All of them raise ``KeyboardInterrupt``. What the caller ignores (``nohup``) stays ignored."""
    _install(_raise)


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class Ending:
    """The end of a command, which Ctrl-C may hasten, but not spoil: what it started is ended by callbacks of ``atexit``,
    and an interruption of those would be a traceback. To be made first of all: the callback that was registered first
    is the last one to be called."""

    def __init__(self) -> None:
        self._interrupted = False
        atexit.register(self._last)
        sys.unraisablehook = _unraisable

    def begin(self) -> None:
        _install(self._remember)

    def _remember(self, _number: int, _frame: FrameType | None) -> None:
        if self._interrupted:
            os._exit(Exit.INTERRUPTED)
        self._interrupted = True

    def _last(self) -> None:
        # Python gives signals back to the system when it ends; what the system makes of them is no exit code of ours.
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        if self._interrupted:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(Exit.INTERRUPTED)


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Where an interruption falls into a finaliser, Python would show it and go on. It is raised again instead, by a
    thread: at once would be inside of the finaliser still."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        again = threading.Timer(_AGAIN_S, _thread.interrupt_main)
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(unraisable)


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
