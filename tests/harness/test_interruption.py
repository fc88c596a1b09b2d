"""Whole runs, interrupted and killed in every phase, on a cluster of sleeping processes (see fake_run).

What must hold each time: the exit code, nothing left running, and a history of all that was recorded.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from harness.commands.sources import opened
from harness.exits import Exit
from histories.meta import Meta
from histories.read import open_history
from histories.store import Run, RunStore, State
from tests.harness.fake_clients import rows
from tests.harness.waiting import wait_until

PLAN = """
time_limit_s = {limit}
recovery_s = 5.0
[fleet]
kind = "loopback"
[clients]
workers = 1
producers = 1
consumers = 1
rate = 400
[faults]
kinds = ["{kind}"]
interval_s = 0.2
hold_s = {hold}
"""
RECORDED = ("load", "fault", "heal", "recover", "final scans", "seal", "check", "report")
"""Phases in which operations have been recorded; before them there is only ``up``."""
WHOLE = ("seal", "check", "report")
"""Phases in which there is nothing more to record."""
PHASES = ("up", *RECORDED)


@dataclass
class Started:
    """A run that has reached its phase."""

    process: subprocess.Popen[bytes]
    store: RunStore
    mark: str
    go: Path
    log: Path

    @property
    def run(self) -> Run:
        return self.store.get("latest")

    def wait(self) -> int:
        return self.process.wait(60)

    def survivors(self) -> list[psutil.Process]:
        """Whatever carries our mark in its environment: processes of processes, too."""
        found = []
        for each in psutil.process_iter():
            try:
                if each.environ().get("TIDEMARK_TEST") == self.mark and each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found


class Starter:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: Started | None = None

    def __call__(self, phase: str, file_bytes: int | None = None) -> Started:
        """``file_bytes``: no file of the run may grow beyond that, which is how a full disk looks."""
        early = phase in ("up", "load", "fault")
        plan = self._folder / "plan.toml"
        kind = "kill" if phase == "heal" else "pause"
        # A heal is held in the nemesis' own thread, while the load goes on: long enough for a worker to start.
        limit = 600 if early else 30 if phase == "heal" else 2
        plan.write_text(PLAN.format(limit=limit, kind=kind, hold=600 if early else 0.3))
        mark, log, go = uuid.uuid4().hex, self._folder / "output", self._folder / "go"
        environment = {**os.environ, "TIDEMARK_TEST": mark, "TMPDIR": str(self._folder)}
        if phase == "final scans":
            environment["HOLD_SCANS"] = "yes"
        command = [sys.executable, "-m", "tests.harness.fake_run", phase, str(go), "run", str(plan)]
        limits = (file_bytes, file_bytes) if file_bytes else resource.getrlimit(resource.RLIMIT_FSIZE)
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "--store", str(self._folder / "store")],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limits)
        self._started = started = Started(process, RunStore(self._folder / "store"), mark, go, log)
        signs = {"final scans": "phase final scans", "load": "holding at load", "fault": "holding at fault"}
        sign = signs.get(phase, f"holding at {phase}")
        wait_until(lambda: sign in log.read_text() or process.poll() is not None, f"the run to reach {phase}")
        if phase in ("load", "fault", "heal", "final scans"):
            wait_until(lambda: self._has_recorded(started, phase), "the worker to record something")
        assert process.poll() is None, log.read_text()
        return started

    @staticmethod
    def _has_recorded(started: Started, phase: str) -> bool:
        journal = started.run.journal / f"worker-{1 if phase == 'final scans' else 0}.journal"
        return journal.exists() and journal.stat().st_size > 1000 * (phase != "final scans")

    def close(self) -> None:
        if self._started is not None:
            for each in self._started.survivors():
                each.kill()
            self._started.process.wait(10)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    starter.close()


def assert_nothing_runs(started: Started) -> None:
    wait_until(lambda: not started.survivors(), "every process of the run to end")


def assert_judgeable(started: Started, phase: str) -> Meta:
    """What ``tidemark check`` does before it asks Spark; the recording up to the signal is there."""
    with opened(started.run.id, started.store) as source:
        meta, _ = open_history(source.history)
    events = rows(source.history / "events")
    phases = [each["detail"] for each in events if each["kind"] == "phase"]
    assert phases[0] == "up"
    assert bool(meta.counts["ops"]) == (phase in RECORDED)
    if phase not in ("up", "load"):
        assert any(each["kind"] == "fault-evidence" for each in events), "which faults landed is known"
    if phase != "up":
        assert meta.versions == {"target": "sleep", "fleet": "loopback: as asked for"}
    assert not (started.run.folder / "data").exists()
    assert started.run.state in (State.SEALED, State.JUDGED)
    return meta


def to_the_group(started: Started, number: signal.Signals) -> None:
    """As a terminal does."""
    os.killpg(started.process.pid, number)


@pytest.mark.parametrize("phase", PHASES)
def test_ctrl_c(start: Starter, phase: str) -> None:
    started = start(phase)
    to_the_group(started, signal.SIGINT)
    if phase in ("heal", "seal"):  # these are finished first
        wait_until(lambda: "tidemark: interrupted" in started.log.read_text(), "the signal to be taken")
        assert started.process.poll() is None
        started.go.touch()
    assert started.wait() == Exit.INTERRUPTED, started.log.read_text()
    output = started.log.read_text()
    assert "Traceback" not in output
    assert output.count("tidemark: interrupted") == (1 if phase in ("check", "report") else 2)
    assert_nothing_runs(started)
    run = started.run
    assert run.sealed, "at once, not when it is checked"
    assert not run.journal.exists()
    assert not run.pid.exists()
    assert not run.report_html.exists()
    assert not list(run.folder.glob(".*")), "nothing unfinished is left"
    assert assert_judgeable(started, phase).interrupted == (phase not in WHOLE)


@pytest.mark.parametrize("phase", PHASES)
def test_kill(start: Starter, phase: str) -> None:
    started = start(phase)
    started.process.kill()
    assert started.wait() == -signal.SIGKILL
    assert_nothing_runs(started)
    assert started.run.running is None
    meta = assert_judgeable(started, phase)
    assert meta.interrupted == (phase not in ("check", "report"))


@pytest.mark.parametrize(
    ("number", "phase"), [(signal.SIGTERM, "load"), (signal.SIGTERM, "check"), (signal.SIGHUP, "load")]
)
def test_other_signals_to_the_harness_alone(start: Starter, number: signal.Signals, phase: str) -> None:
    started = start(phase)
    started.process.send_signal(number)
    assert started.wait() == Exit.INTERRUPTED, started.log.read_text()
    assert_nothing_runs(started)
    assert started.run.sealed
    assert_judgeable(started, phase)


def test_a_second_ctrl_c_ends_the_healing_too(start: Starter) -> None:
    started = start("heal")
    to_the_group(started, signal.SIGINT)
    wait_until(lambda: "tidemark: interrupted" in started.log.read_text(), "the signal to be taken")
    assert started.process.poll() is None, "the first one lets healing finish, and here it never does"
    to_the_group(started, signal.SIGINT)
    assert started.wait() == Exit.INTERRUPTED, started.log.read_text()
    assert_nothing_runs(started)
    assert started.run.sealed
    assert assert_judgeable(started, "heal").interrupted


def test_a_second_ctrl_c_gives_up_sealing_and_check_makes_up_for_it(start: Starter) -> None:
    started = start("seal")
    to_the_group(started, signal.SIGINT)
    wait_until(lambda: "tidemark: interrupted" in started.log.read_text(), "the signal to be taken")
    to_the_group(started, signal.SIGINT)
    assert started.wait() == Exit.INTERRUPTED, started.log.read_text()
    assert_nothing_runs(started)
    assert not started.run.sealed
    assert_judgeable(started, "seal")


def test_a_run_that_nobody_interrupts(start: Starter) -> None:
    started = start("recover")
    started.go.touch()
    assert started.wait() == Exit.VALID, started.log.read_text()
    assert_nothing_runs(started)
    assert not assert_judgeable(started, "recover").interrupted
    assert started.run.state is State.JUDGED
    assert not started.run.journal.exists()


def test_a_journal_that_cannot_be_written_ends_the_run_with_what_was_recorded(start: Starter) -> None:
    started = start("load", file_bytes=100_000)
    assert started.wait() == Exit.HARNESS, started.log.read_text()
    output = started.log.read_text()
    assert "worker-0.journal: the journal cannot be written after byte" in output
    assert "free space on its disk" in output
    assert "Traceback" not in output
    assert_nothing_runs(started)
    assert open_history(started.run.history)[0].interrupted
    assert started.run.sealed
