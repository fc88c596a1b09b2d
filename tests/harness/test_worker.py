"""The worker process and its protocol, with clients in memory."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.fleet import proc
from harness.plan import ClientPlan, FaultPlan, Plan, TopicPlan
from harness.worker_spec import WorkerSpec
from harness.workers import WorkerHandle, stop_all, total
from harness.workloads.base import Key, Tally
from histories.seal import seal
from tests.harness.fake_clients import meta, rows
from tests.harness.waiting import wait_until

COMMAND = (sys.executable, "-m", "tests.harness.fake_worker")
KEYS = tuple(Key(number, "t", number) for number in range(2))

Start = Callable[..., WorkerHandle]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[WorkerHandle] = []
    (tmp_path / "journal").mkdir()

    def start_one(library: str = "fake", worker: int = 0) -> WorkerHandle:
        clients = ClientPlan(library=library, rate=400, workers=2, crash_every_s=0.3, burst=4)
        spec = WorkerSpec(
            run_id="run",
            worker=worker,
            started_ns=time.monotonic_ns(),
            bootstrap="nowhere:1",
            plan=Plan(seed=3, clients=clients),
            keys=KEYS,
            journal=str(tmp_path / "journal" / f"worker-{worker}.journal"),
            grace_s=0.2,
        )
        started.append(WorkerHandle(spec, tmp_path, COMMAND))
        return started[-1]

    yield start_one
    for each in started:
        each.kill()
        each.join(10)


def test_a_spec_reads_back_as_it_was_written(tmp_path: Path) -> None:
    plan = Plan(seed=9, topic=TopicPlan(writes_per_key=3), faults=FaultPlan(kinds=("kill",), roles=()))
    spec = WorkerSpec("run", 1, 2, "b:1", replace(plan, name="x"), KEYS, "j", mode="final", deadline_s=1.5)
    spec.write(tmp_path / "spec.json")
    assert WorkerSpec.read(tmp_path / "spec.json") == spec


def test_workers_report_progress_stop_and_leave_a_history(start: Start, tmp_path: Path) -> None:
    workers = [start(worker=0), start(worker=1)]
    wait_until(
        lambda: all(each.tally.acknowledged > 50 and each.tally.polled > 0 for each in workers),
        "progress of both workers",
    )
    results = stop_all(workers)
    assert [result.error for result in results] == [None, None]
    seal(tmp_path / "journal", tmp_path / "history", meta("run", KEYS))
    ops, mops = rows(tmp_path / "history" / "ops"), rows(tmp_path / "history" / "mops")
    assert {op["process"] // 1_000_000 for op in ops} == {0, 1}
    assert {op["worker"] for op in ops} == {0, 1}
    values = [mop["value"] for mop in mops if mop["kind"] == "send"]
    assert len(set(values)) == len(values)
    acknowledged = sum(mop["status"] == "ok" for mop in mops)
    assert acknowledged == total([result.tally for result in results]).acknowledged
    assert all(op["complete_ns"] is not None for op in ops)


def test_totals_add_up() -> None:
    assert total([Tally(acknowledged=1, polled=2), Tally(acknowledged=3)]) == Tally(acknowledged=4, polled=2)


def test_sigterm_stops_and_sigint_does_not(start: Start) -> None:
    worker = start()
    wait_until(lambda: worker.tally.acknowledged > 0, "the first progress")
    os.kill(worker.pid, signal.SIGINT)
    seen = worker.tally.acknowledged
    wait_until(lambda: worker.tally.acknowledged > seen, "progress after SIGINT")
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.join(20)
    assert worker.result().error is None


def test_a_client_that_never_comes_back_does_not_hold_the_worker(start: Start, tmp_path: Path) -> None:
    worker = start("stuck")
    wait_until(lambda: worker.tally.polled == 0 and worker.tally.operations > 0, "the first operations")
    assert stop_all([worker])[0].error is None
    seal(tmp_path / "journal", tmp_path / "history", meta("run", KEYS))
    sends = [op for op in rows(tmp_path / "history" / "ops") if op["f"] == "send"]
    assert sends
    assert {(op["type"], op["complete_ns"]) for op in sends} == {("info", None)}


def test_a_failure_of_our_own_is_reported_with_its_traceback(start: Start) -> None:
    worker = start("broken")
    assert worker.join(20)
    error = worker.result().error
    assert error is not None
    assert "ZeroDivisionError: a bug of ours" in error


def test_a_killed_worker_is_not_taken_for_a_finished_one(start: Start, tmp_path: Path) -> None:
    worker = start()
    wait_until(lambda: worker.tally.acknowledged > 0, "the first progress")
    worker.kill()
    assert worker.join(10)
    error = worker.result().error
    assert error is not None
    assert "exit code -9" in error
    seal(tmp_path / "journal", tmp_path / "history", meta("run", KEYS))
    assert rows(tmp_path / "history" / "ops")


def test_a_worker_ends_when_nobody_listens_any_more(start: Start) -> None:
    worker = start()
    wait_until(lambda: worker.tally.acknowledged > 0, "the first progress")
    process = proc.identify(worker.pid)
    assert process is not None
    assert worker._process.stdin is not None
    worker._process.stdin.close()
    wait_until(lambda: not proc.is_running(process), "the end of the worker")
