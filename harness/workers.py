"""The runner's side of its workers: start them, follow their progress, stop them, hear how they ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from harness.fleet import launcher
from harness.worker_spec import WorkerSpec
from harness.workloads.base import Tally

Spawn = Callable[[Callable[[], "subprocess.Popen[str]"]], "subprocess.Popen[str]"]
"""Calls what starts a process, where the process belongs."""

COMMAND: Final = (sys.executable, "-m", "harness.worker")


@dataclass(frozen=True)
class WorkerResult:
    worker: int
    tally: Tally
    error: str | None
    """Why it did not end well, and where its log is. None: it did."""


class WorkerHandle:
    """One worker process.

    It dies with the *thread* that starts it (that is how the kernel's parent-death signal works): the calling one,
    unless ``spawn`` sends the start elsewhere.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        folder: Path,
        command: Sequence[str] = COMMAND,
        spawn: Spawn = lambda start: start(),
    ) -> None:
        """Start it. ``folder`` receives its spec and its standard error."""
        self.worker = spec.worker
        self._tally = Tally()
        self._done = False
        self._error: str | None = None
        self._log = folder / f"worker-{spec.worker}.log"
        path = folder / f"worker-{spec.worker}.json"
        spec.write(path)
        program = [sys.executable, str(launcher.__file__), str(os.getpid()), *command, str(path)]
        with self._log.open("wb") as log:
            self._process = spawn(
                lambda: subprocess.Popen(
                    program,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                )
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None, "a pipe was asked for"
        for line in self._process.stdout:
            try:
                report = json.loads(line)
            except json.JSONDecodeError:
                continue  # a line cut off by a kill
            self._take(report)

    def _take(self, report: dict[str, Any]) -> None:
        self._tally = Tally(**{each.name: report[each.name] for each in fields(Tally)})
        if report.get("done"):
            self._done, self._error = True, report.get("error")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def tally(self) -> Tally:
        """As last reported."""
        return self._tally

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Ask it to stop; :meth:`join` waits."""
        assert self._process.stdin is not None, "a pipe was asked for"
        try:
            self._process.stdin.write("stop\n")
            self._process.stdin.close()
        except (BrokenPipeError, ValueError):
            return  # it is gone, or was asked before

    def kill(self) -> None:
        self._process.kill()

    def join(self, timeout_s: float) -> bool:
        """Wait for its end. False: it is still running."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._reader.join()
        return True

    def result(self) -> WorkerResult:
        """How it ended; call after :meth:`join`."""
        if self._done and self._error is None:
            return WorkerResult(self.worker, self._tally, None)
        reason = self._error or self._last_words()
        return WorkerResult(self.worker, self._tally, f"worker {self.worker} failed: {reason}\nits log: {self._log}")

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"it ended with exit code {self._process.returncode}" + (f": {lines[-1]}" if lines else "")


def total(tallies: Sequence[Tally]) -> Tally:
    return Tally(*(sum(getattr(each, column.name) for each in tallies) for column in fields(Tally)))


def stop_all(workers: Sequence[WorkerHandle], timeout_s: float = 20.0) -> list[WorkerResult]:
    """Stop workers together; one that does not stop in time is killed."""
    for worker in workers:
        worker.stop()
    end = time.monotonic() + timeout_s
    for worker in workers:
        if not worker.join(max(0.0, end - time.monotonic())):
            worker.kill()
            worker.join(5.0)
    return [worker.result() for worker in workers]
