"""``tidemark`` on a cluster of sleeping processes, with clients in memory and a judge that has made up its mind.

    python -m tests.harness.fake_run HOLD_AT GO ARGUMENT...

says ``holding at PHASE`` on standard error when the run reaches that phase, and waits there until the file GO
exists. Phases: up, load, fault, heal, recover, final scans, seal, check, report; ``none`` holds nowhere. Where the
real thing would wait in a system call or in Python's own waiting, so does this.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import checkers.judge
import checkers.session
import harness.pool
import harness.report.html
import harness.run
from checkers.result import Judgement
from harness import cli
from harness.events import Event, EventStream
from harness.pool import WorkerPool
from harness.workers import WorkerHandle
from histories.recorded import RecordedEvent
from tests.harness import report_sample
from tests.harness.fake_target import FakeTarget

WORKER = (sys.executable, "-m", "tests.harness.fake_worker")


class Hold:
    def __init__(self, phase: str, go: Path) -> None:
        self._phase = phase
        self._go = go
        self._said = threading.Event()

    def __call__(self, phase: str) -> None:
        if phase != self._phase:
            return
        if not self._said.is_set():
            self._said.set()
            os.write(2, f"holding at {phase}\n".encode())
        while not self._go.exists():
            threading.Event().wait(0.02)


class Session:
    def stop(self) -> None:
        """There is nothing to stop."""


def replaced(place: Any, name: str, value: Any) -> Any:
    """Put another thing in the place of one; returns the one."""
    before = getattr(place, name)
    setattr(place, name, value)
    return before


def install(hold: Hold) -> None:
    def seal(*arguments: Any, **options: Any) -> Any:
        hold("seal")
        return real_seal(*arguments, **options)

    def judge(_spark: Any, _folder: Path, *, path_label: str, **_: Any) -> Judgement:
        hold("check")
        return replace(report_sample.valid(), path=path_label)

    def write(*arguments: Any, **options: Any) -> Any:
        hold("report")
        return real_write(*arguments, **options)

    def emit(self: EventStream, event: Event) -> None:
        real_emit(self, event)
        # The load is watched by the main thread, and a fault stays in force by itself: both are said, not held.
        if isinstance(event, RecordedEvent):
            if (event.kind, event.detail) == ("phase", "load"):
                os.write(2, b"holding at load\n")
            elif event.kind == "fault-evidence":
                landed.set()
                os.write(2, b"holding at fault\n")

    def watch(self: WorkerPool, limit_s: float) -> None:
        """On a busy machine workers may need longer to start than the load lasts: it lasts until both are seen."""
        real_watch(self, limit_s)
        while not (landed.is_set() and all(worker.tally.acknowledged for worker in self._workers)):
            real_watch(self, 0.1)

    landed = threading.Event()
    real_watch = replaced(WorkerPool, "watch", watch)

    real_seal = replaced(harness.run, "seal", seal)
    real_write = replaced(harness.report.html, "write", write)
    real_emit = replaced(EventStream, "emit", emit)
    replaced(harness.run, "make_target", functools.partial(FakeTarget, reached=hold))
    replaced(harness.pool, "WorkerHandle", functools.partial(WorkerHandle, command=WORKER))
    replaced(checkers.judge, "judge", judge)
    replaced(checkers.session, "start", lambda _master=None: Session())


if __name__ == "__main__":
    # Whoever runs the tests under nohup hands an ignored SIGHUP down, which the harness would rightly leave ignored.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    install(Hold(sys.argv[1], Path(sys.argv[2])))
    sys.exit(cli.main(sys.argv[3:]))
