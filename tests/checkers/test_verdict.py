"""From findings and reasons to the verdict, and what is no verdict at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import checkers.judge
from checkers.judge import _unscanned, _verdict, cause, judge, undecided
from checkers.names import ANOMALIES, LOOKED_FOR
from checkers.promises import PromiseOverride
from checkers.result import Finding, Judgement, Verdict
from histories.build import HistoryBuilder
from histories.errors import HistoryError
from histories.meta import Meta
from histories.schema import Workload
from histories.synth.gadgets import GADGETS
from histories.synth.transactions import synthesize_transactions
from tests.checkers.local import local_context
from tests.harness import report_sample

OBSERVED, VIOLATED = Finding("duplicate", 2, 0, ()), Finding("lost-write", 2, 1, ())


@pytest.mark.parametrize(
    ("findings", "reasons", "missing", "lacking", "verdict"),
    [
        ([], [], [], [], Verdict.VALID),
        ([OBSERVED], [], [], [], Verdict.VALID),
        ([OBSERVED, VIOLATED], ["why"], ["phantom"], ["idle"], Verdict.INVALID),
        ([VIOLATED], [], [], [], Verdict.INVALID),
        ([], [], ["phantom"], [], Verdict.INVALID),
        ([OBSERVED], ["why"], [], ["idle"], Verdict.UNKNOWN),
        ([], [], [], ["idle"], Verdict.NOT_EXERCISED),
    ],
)
def test_what_dominates(
    findings: list[Finding], reasons: list[str], missing: list[str], lacking: list[str], verdict: Verdict
) -> None:
    assert _verdict(findings, reasons, missing, lacking) is verdict


@pytest.mark.parametrize(
    ("complete", "reason", "count"), [(False, "scanner", 2), (False, "cluster", 0), (True, None, 0)]
)
def test_scans_that_failed_on_our_side(tmp_path: Path, complete: bool, reason: str | None, count: int) -> None:
    b = HistoryBuilder()
    b.scan(0, [], complete=complete, reason=reason)
    b.write(tmp_path / "h")
    assert _unscanned(tmp_path / "h") == ([f"the final scan of {count} keys failed on our side"] if count else [])


def test_half_a_recording_is_neither_valid_nor_short_of_what_was_expected() -> None:
    whole = Meta("r", "run", keys=(), topics={}, producers=(), counts={"ops": 5, "mops": 5})
    half, empty = replace(whole, interrupted=True), replace(whole, counts={"ops": 0, "mops": 0})
    valid = report_sample.valid()
    short = replace(valid, verdict=Verdict.INVALID, reasons=("expected lost-write, and it did not show",))
    assert undecided(valid, whole) == valid
    assert undecided(short, whole) == short
    for meta, why in ((half, "the run ended early"), (empty, "nothing was sent or read")):
        for each in (valid, short, replace(valid, verdict=Verdict.NOT_EXERCISED)):
            judged = undecided(each, meta)
            assert judged.verdict is Verdict.UNKNOWN
            assert judged.reasons[0].startswith(why)
            assert judged.reasons[1:] == each.reasons
    guilty = report_sample.invalid()
    assert any(each.fatal for each in guilty.findings)
    assert undecided(guilty, half) == guilty, "a violation is one, however early the run ended"


def judged(folder: Path, b: HistoryBuilder, *, interrupted: bool = False) -> Judgement:
    """As Spark would, in this process."""
    b.write(folder)
    if interrupted:
        replace(Meta.read(folder / "meta.json"), interrupted=True).write(folder / "meta.json")
    return judge(local_context(), folder, path_label="h")


def one_send() -> HistoryBuilder:
    b = HistoryBuilder()
    b.send(process=0, key=0, value=1, offset=0)
    b.scan_rest()
    return b


def test_a_recording_that_ended_early_is_undecided_however_it_is_judged(tmp_path: Path) -> None:
    assert judged(tmp_path / "whole", one_send()).verdict is Verdict.VALID
    half = judged(tmp_path / "half", one_send(), interrupted=True)
    assert (half.verdict, half.reasons[0].split(",")[0]) == (Verdict.UNKNOWN, "the run ended early")
    assert judged(tmp_path / "nothing", HistoryBuilder()).verdict is Verdict.UNKNOWN


WORKER_TRACE = """An error occurred while calling o10.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
ValueError: 'x' is not in list
and more

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (RuntimeError("one\ntwo"), "RuntimeError: one"),
        (RuntimeError(WORKER_TRACE), "ValueError: 'x' is not in list"),
        (
            RuntimeError("Traceback (most recent call last): cut"),
            "RuntimeError: Traceback (most recent call last): cut",
        ),
        (RuntimeError("x" * 999), "RuntimeError: " + "x" * 286),
    ],
)
def test_a_crash_is_one_sentence(error: Exception, said: str) -> None:
    assert cause(error) == said


def test_a_crash_is_unknown_and_keeps_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crashes(*_: object, **__: object) -> None:
        raise RuntimeError(WORKER_TRACE)

    monkeypatch.setattr(checkers.judge, "checked", crashes)
    found = judged(tmp_path / "h", one_send())
    assert (found.verdict, found.reasons) == (Verdict.UNKNOWN, ("a check crashed: ValueError: 'x' is not in list",))
    assert "in crashes" in found.document()["crash"]
    assert "PythonRunner.scala" in found.document()["crash"]


def test_an_interruption_that_another_error_covers_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise ConnectionError("answer is empty")

    monkeypatch.setattr(checkers.judge, "checked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        judged(tmp_path / "h", one_send())


def test_an_interruption_that_caused_another_error_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise ConnectionError("answer is empty") from KeyboardInterrupt()

    monkeypatch.setattr(checkers.judge, "checked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        judged(tmp_path / "h", one_send())


def test_bad_input_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise HistoryError("part 3: damaged")

    monkeypatch.setattr(checkers.judge, "checked", refuses)
    with pytest.raises(HistoryError, match="part 3: damaged"):
        judged(tmp_path / "h", one_send())


@pytest.mark.parametrize(
    ("workload", "only"),
    [
        (Workload.LOG, {"G1c", "lost-update"}),
        (Workload.APPEND, {"lost-write", "cyclic-versions"}),
        (Workload.REGISTER, {"duplicate-elements"}),
    ],
)
def test_what_is_never_looked_for_is_not_valid(workload: Workload, only: set[str], tmp_path: Path) -> None:
    if workload is Workload.LOG:
        b = HistoryBuilder()
        b.send(0, 0, 1, 0)
        b.scan_rest()
        b.write(tmp_path / "h")
    else:
        synthesize_transactions(tmp_path / "h", workload, 100)
    with pytest.raises(HistoryError, match=rf"h: nothing of {', '.join(sorted(only))} is looked for .* \({workload}\)"):
        judge(local_context(), tmp_path / "h", path_label="h", only=frozenset(only))


def test_promises_of_a_log_are_not_ignored_for_transactions(tmp_path: Path) -> None:
    synthesize_transactions(tmp_path / "h", Workload.APPEND, 100)
    with pytest.raises(HistoryError, match=r"h: a history of transactions, .* judge it without --promises"):
        judge(local_context(), tmp_path / "h", path_label="h", promises=PromiseOverride(safe=False))


def test_each_anomaly_is_looked_for_in_some_history() -> None:
    assert {name for names in LOOKED_FOR.values() for name in names} == set(ANOMALIES)
    assert {each for name in GADGETS for each in (name, *GADGETS[name].entails)} <= set(
        LOOKED_FOR[Workload.APPEND] + LOOKED_FOR[Workload.REGISTER]
    )
    for name, gadget in GADGETS.items():
        if gadget.only is not None:
            assert name in LOOKED_FOR[gadget.only]
