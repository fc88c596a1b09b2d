"""Random schedules: repeatable to the step, silent on the correct cluster, loud where a bug is switched on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from system_under_test.bugs import NONE, Bug
from system_under_test.simulation.__main__ import main
from system_under_test.simulation.run import run_schedule


def test_a_seed_repeats_a_run_to_the_step() -> None:
    first, second, other = (run_schedule(seed, 6.0, trace_lines=50) for seed in (3, 3, 4))
    assert first == second
    assert first.digest != other.digest
    assert (first.violation, first.acknowledged > 0, first.steps > 1000) == (None, True, True)


def test_the_order_of_sets_decides_nothing() -> None:
    program = "from system_under_test.simulation.run import run_schedule; print(run_schedule(6, 6.0).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1


def test_the_correct_cluster_violates_nothing() -> None:
    outcomes = [run_schedule(seed, 8.0, NONE) for seed in range(100, 108)]
    assert [each.violation for each in outcomes if each.violation] == []
    assert sum(each.leader_changes for each in outcomes) > 5
    assert sum(each.acknowledged for each in outcomes) > 100


@pytest.mark.parametrize(
    ("bug", "invariant"),
    [(Bug.ACK_ON_APPEND, "acknowledged-is-committed"), (Bug.SERVE_BEYOND_HIGH_WATERMARK, "read-is-committed")],
)
def test_a_bug_is_found(bug: Bug, invariant: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seed", "1000", "--schedules", "10", "--seconds", "6", "--jobs", "1", "--bug", bug.value]
    assert main(arguments) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("seed 1000\n")
    assert "VIOLATED after" in shown
    assert invariant in shown
    assert "NOT REPEATABLE" not in shown
    again = shown.splitlines()[-1].removeprefix("again: python -m system_under_test.simulation ").split()
    assert main(again) == 1
    assert invariant in capsys.readouterr().out


def test_every_bug_is_hunted_down(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--hunt", "all", "--seeds", "1", "--limit", "200"]) == 0
    table = capsys.readouterr().out.split("\n\n")[-1].splitlines()
    assert [line.split("|")[1].strip() for line in table[2:]] == [bug.value for bug in Bug]
    assert all("| 1 of 1 |" in line for line in table[2:])


def test_a_hunt_that_finds_nothing_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--hunt", "ack-on-append", "--seeds", "1", "--limit", "0"]) == 1
    assert "NOT FOUND" in capsys.readouterr().out


def test_a_quiet_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5", "--schedules", "2", "--seconds", "3", "--jobs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "2 schedules" in shown
    assert "every invariant held" in shown
