"""``tidemark``'s first moments, before anything that takes time to import: Ctrl-C has its exit code from here on.

Imports nothing that Python has not loaded by itself. What comes before (Python's own start, about 0.08 s) nobody can hold.
"""

from __future__ import annotations

import os
import signal

_INTERRUPTED = 130


def end_at_once_on_signals() -> None:
    """While the command is still being loaded nothing has been started, so there is nothing to end in order; and an
    interruption in the middle of an import may come out as any other error."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, _end_at_once)


def _end_at_once(_number: int, _frame: object) -> None:
    os.write(2, b"tidemark: interrupted\n")
    os._exit(_INTERRUPTED)


def command() -> None:
    """What the installed ``tidemark`` calls."""
    end_at_once_on_signals()
    from harness.cli import command as loaded

    loaded()
