"""Interrupts and kills real runs on a managed Apache Kafka in every phase, and looks at what is left.

    python -m bench.interrupt [--phase load ...] [--signal INT TERM KILL] [--target kafka] [--store DIR]

INT goes to the process group, as a terminal's Ctrl-C does; TERM and KILL to the harness alone. After each: the
exit code is 130 (of a kill: what ``tidemark check`` says, which must be unknown before the final scans), no
process of the run survives, the run is sealed (of a kill: by ``check``), nothing is left in the temporary folder. Prints
a line per case and exits with 1 when one went wrong. About half a minute each; needs the machine for itself.

``tests/harness/test_interruption.py`` does the same on processes that only sleep, in every test run. This is about
what only the real ones have: virtual machines, Spark, client libraries with threads of their own.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.entry import enter
from histories.errors import HistoryError
from histories.read import open_history
from histories.store import Run, RunStore

SIGNALS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM, "KILL": signal.SIGKILL}
ENDING_S = 90.0
"""What healing, sealing and stopping may take."""
SURVIVING_S = 10.0


@dataclass(frozen=True)
class Phase:
    name: str
    sign: str
    """What the output says when it begins."""
    delay_s: float = 0.0
    """How long after the sign the signal is sent."""
    whole: bool = False
    """The recording is complete."""
    limit_s: int = 10
    """How long the load would last."""


PHASES = (
    Phase("up-early", "phase up", 0.2),
    Phase("up", "phase up", 4.0),
    Phase("load", "phase load", 0.5, limit_s=90),
    Phase("fault", "fault evidence", 0.5, limit_s=90),
    Phase("heal", "phase heal", 0.1),
    Phase("recover", "phase recover", 0.3),
    Phase("final-scans", "phase final scans", 0.7),
    Phase("seal", "phase seal", 0.02, whole=True),
    Phase("check-starting", "judging it", 1.5, whole=True),
    Phase("check", "judging it", 3.5, whole=True),
)


@dataclass
class Case:
    phase: Phase
    signal: str
    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.folder / "output"

    @property
    def store(self) -> RunStore:
        return RunStore(self.folder / "runs")

    def start(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        environment = {**os.environ, "TIDEMARK_MARK": self.mark, "TMPDIR": str(scratch)}
        with self.log.open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "harness.cli", *arguments, "--store", str(self.store.root)],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def survivors(self) -> list[psutil.Process]:
        found = []
        for each in psutil.process_iter():
            try:
                if each.environ().get("TIDEMARK_MARK") == self.mark and each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def has_recorded(self) -> bool:
        journals = self.store.get("latest").journal.glob("worker-*.journal")
        return any(each.stat().st_size > 10_000 for each in journals)

    def expect(self, holds: bool, problem: str) -> None:
        if not holds:
            self.problems.append(problem)


def until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def perform(case: Case, arguments: list[str]) -> None:
    process = case.start(arguments)
    try:
        _interrupt(case, process)
        _look(case)
    finally:
        for each in case.survivors():
            each.kill()
        process.wait(10)


def _interrupt(case: Case, process: subprocess.Popen[bytes]) -> None:
    def reached() -> bool:
        return case.phase.sign in case.log.read_text() or process.poll() is not None

    if not until(reached, 180) or process.poll() is not None:
        case.problems.append(f"never came to {case.phase.name}: exit code {process.poll()}")
        return
    # Workers take seconds to start on a busy machine: the load begins with what they record.
    if case.phase.name == "load" and not until(case.has_recorded, 60):
        case.problems.append("the workers record nothing")
        return
    time.sleep(case.phase.delay_s)
    if process.poll() is not None:
        case.notes.append(f"it ended before the signal, with {process.returncode}")
        return
    if case.signal == "INT":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(SIGNALS[case.signal])
    sent = time.monotonic()
    if not until(lambda: process.poll() is not None, ENDING_S):
        case.problems.append(f"still running {ENDING_S:.0f} s after the signal")
        return
    case.notes.append(f"ended after {time.monotonic() - sent:.1f} s")
    wanted = -signal.SIGKILL if case.signal == "KILL" else 130
    case.expect(process.returncode == wanted, f"exit code {process.returncode}, not {wanted}")


def _look(case: Case) -> None:
    gone = until(lambda: not case.survivors(), SURVIVING_S)
    case.expect(gone, f"still running: {', '.join(' '.join(each.cmdline())[:80] for each in case.survivors())}")
    case.expect("Traceback" not in case.log.read_text(), "a traceback was shown")
    try:
        run = case.store.get("latest")
    except HistoryError as error:
        case.problems.append(str(error))
        return
    if case.signal == "KILL":
        _check(case, run)
    try:
        meta, _ = open_history(run.folder)
    except HistoryError as error:
        case.problems.append(str(error))
        return
    case.notes.append(f"{meta.counts['ops']} operations, {meta.counts['events']} events")
    case.expect(bool(meta.counts["ops"]) != case.phase.name.startswith("up"), "operations are missing")
    case.expect(not (run.folder / "data").exists(), "the brokers' data is left")
    left = sorted(each.name for each in (case.folder / "tmp").iterdir() if not _expected(each.name, case.signal))
    case.expect(not left, f"left in the temporary folder: {', '.join(left)}")


def _expected(name: str, number: str) -> bool:
    # The fleet's registry stays; Java's own hsperfdata goes with the next virtual machine.
    return name.startswith(("tidemark-0", f"tidemark-{os.getuid()}", "hsperfdata")) or (
        number == "KILL" and name.startswith(("spark-", "blockmgr-", "liblz4", "libzstd", "libsnappy", "snappy-"))
    )


def _check(case: Case, run: Run) -> None:
    """Judge what the dead have left; without final scans there is neither proof of loss nor of its absence."""
    code = case.start(["check", str(run.folder)]).wait(170)
    case.notes.append(f"check says {code}")
    # A kill while it is sealed: the recording is whole, but nobody has said so.
    allowed = (0, 1, 2, 3) if case.phase.whole else (2,)
    case.expect(code in allowed, f"check of what was left: exit code {code}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.interrupt", description=__doc__.splitlines()[0])
    parser.add_argument("--phase", nargs="+", choices=[each.name for each in PHASES], default=None)
    parser.add_argument("--signal", nargs="+", choices=list(SIGNALS), default=list(SIGNALS))
    parser.add_argument("--target", default="kafka")
    parser.add_argument("--store", type=Path, default=None, help="a folder for the runs; default: one that is deleted")
    options = parser.parse_args(arguments)
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for phase in PHASES:
            for name in options.signal if options.phase is None or phase.name in options.phase else ():
                folder = (options.store or Path(scratch)) / f"{phase.name}-{name}-{uuid.uuid4().hex[:4]}"
                folder.mkdir(parents=True)
                case = Case(phase, name, folder)
                limit = ["--time-limit", str(phase.limit_s), "--seed", "7"]
                perform(case, ["run", "smoke", "--target", options.target, *limit])
                wrong += bool(case.problems)
                said = "; ".join(case.problems) or "ok"
                print(f"{phase.name:15} {name:5} {said} ({', '.join(case.notes)})", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    enter(main)
