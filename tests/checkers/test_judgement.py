"""What a whole judgement shows besides its verdict, judged in this process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import checkers.judge
from checkers.explain import Case
from checkers.judge import EXAMPLES, _findings, judge
from checkers.load import History
from checkers.promises import PromiseOverride
from checkers.result import Example, Finding, Judgement, Verdict
from histories.build import HistoryBuilder
from histories.meta import Exercise
from histories.schema import Workload
from tests.checkers.local import local_context

Batch = tuple[int, int, int, int]


def healthy(replicas: Sequence[Sequence[Batch]] = ()) -> HistoryBuilder:
    b = HistoryBuilder()
    b.send(0, 0, 1, 0)
    b.scan_rest()
    for broker, batches in enumerate(replicas):
        b.replica(broker, 0, batches)
    return b


def lost(*values: int) -> HistoryBuilder:
    b = healthy()
    for value in values:
        b.send(0, 0, value, value)
    return b


def judged(folder: Path, b: HistoryBuilder, **options: Any) -> Judgement:
    b.write(folder)
    return judge(local_context(), folder, path_label="h", **options)


def shown(judgement: Judgement) -> list[tuple[str, int, int]]:
    return [(each.anomaly, each.count, each.fatal_count) for each in judgement.findings]


def test_of_what_it_is(tmp_path: Path) -> None:
    meta = replace(healthy().write(tmp_path / "h"), run_id="given", seed=7, versions={"broker": "1"})
    began = time.monotonic()
    found = judge(local_context(), tmp_path / "h", path_label="here", meta=meta)
    assert (found.path, found.meta) == (
        "here", {"run_id": "given", "seed": 7, "origin": "synthetic", "versions": {"broker": "1"}},
    )  # fmt: skip
    assert 0 < found.seconds <= time.monotonic() - began
    assert judge(local_context(), tmp_path / "h", path_label="here").meta["run_id"] == "built"


def test_it_looks_again_only_where_somebody_would_be_convicted(tmp_path: Path) -> None:
    said: list[str] = []

    def says(name: str, b: HistoryBuilder) -> list[str]:
        said.clear()
        judged(tmp_path / name, b, progress=said.append)
        return [each.partition(",")[0] for each in said]

    once, again = ["looking for anomalies", "explaining"], ["looking for anomalies", "looking again", "explaining"]
    assert says("healthy", healthy()) == once
    assert says("guilty", lost(1, 2)) == again, "value 1 was sent twice, and 2 is lost"
    assert says("lost", lost(2)) == once
    twice = healthy()
    twice.send(1, 0, 1, 0)
    assert says("twice", twice) == once


def test_only_what_was_asked_for(tmp_path: Path) -> None:
    b = lost(2, 3)
    b.poll(1, [(0, 9, 77)])
    every = judged(tmp_path / "every", b)
    assert shown(every) == [("lost-write", 2, 2), ("vanished-read", 1, 1), ("phantom", 1, 1)]
    some = judged(tmp_path / "some", b, only=frozenset({"phantom"}))
    assert shown(some) == [("phantom", 1, 1)]
    none = judged(tmp_path / "none", b, only=frozenset({"unseen"}))
    assert (none.verdict, none.findings) == (Verdict.VALID, ())


def test_what_is_undecided_is_so_whatever_was_asked_for(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.send(0, 0, 1, 0)
    found = judged(tmp_path / "h", b, only=frozenset({"phantom"}))
    assert found.verdict is Verdict.UNKNOWN
    assert found.reasons == ("1 committed values were never read, and no final scan of their keys is complete",)


def test_what_a_person_says_of_the_promises_counts(tmp_path: Path) -> None:
    found = judged(tmp_path / "h", lost(2), promises=PromiseOverride(safe=False))
    assert (found.verdict, shown(found)) == (Verdict.VALID, [("lost-write", 1, 0)])


def test_a_scan_that_failed_on_our_side_leaves_it_undecided(tmp_path: Path) -> None:
    b = healthy()
    b.scan(1, [], complete=False, reason="scanner")
    found = judged(tmp_path / "h", b)
    assert (found.verdict, found.reasons) == (Verdict.UNKNOWN, ("the final scan of 2 keys failed on our side",))


def test_what_was_expected(tmp_path: Path) -> None:
    b = lost(2)
    b.poll(1, [(0, 7, 77)])
    b.promise(expect=["phantom", "duplicate"])
    found = judged(tmp_path / "h", b)
    assert (found.verdict, found.reasons) == (Verdict.INVALID, ("expected duplicate, and it did not show",))


def quiet(judgement: Judgement) -> list[str]:
    return [each for each in judgement.not_exercised if each is None or each.startswith("replica-divergence")]


SAME: list[list[Batch]] = [[(0, 0, 0, 7)], [(0, 0, 0, 7)]]
OTHER: list[list[Batch]] = [[(0, 0, 0, 7)], [(0, 0, 0, 8)]]


def test_replicas_that_differ_are_found(tmp_path: Path) -> None:
    found = judged(tmp_path / "h", healthy(OTHER))
    assert (found.verdict, shown(found)) == (Verdict.INVALID, [("replica-divergence", 1, 1)])
    void = judged(tmp_path / "void", healthy(OTHER), promises=PromiseOverride(void=True))
    assert (void.verdict, shown(void)) == (Verdict.VALID, [("replica-divergence", 1, 0)])


@pytest.mark.parametrize(
    ("replicas", "only", "said"),
    [
        (SAME, None, 0),
        ([], None, 1),
        ([], frozenset({"replica-divergence"}), 1),
        ([], frozenset({"phantom"}), 0),
        (SAME, frozenset({"replica-divergence"}), 0),
    ],
)
def test_that_replicas_were_not_seen_is_said_to_who_asks(
    tmp_path: Path, replicas: list[list[Batch]], only: frozenset[str] | None, said: int
) -> None:
    found = judged(tmp_path / "h", healthy(replicas), only=only)
    assert (len(quiet(found)), found.verdict) == (said, Verdict.VALID)
    b = healthy(replicas)
    b.promise(exercise=Exercise(subject=("replica-divergence",)))
    subject = judged(tmp_path / "subject", b, only=only)
    assert any("it is this plan's subject" in each for each in subject.reasons) is bool(said)


def test_a_key_that_is_not_served(tmp_path: Path) -> None:
    b = healthy()
    b.scan(1, [], complete=False, reason="cluster")
    found = judged(tmp_path / "h", b)
    assert (found.verdict, shown(found)) == (Verdict.INVALID, [("unavailable-after-heal", 1, 1)])
    void = judged(tmp_path / "void", b, promises=PromiseOverride(void=True))
    assert (void.verdict, shown(void)) == (Verdict.VALID, [("unavailable-after-heal", 1, 0)])


def test_transactions_are_judged_by_their_own_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = Judgement("", Verdict.NOT_EXERCISED, (), ("theirs",), {})
    monkeypatch.setattr("checkers.cycles.verdict.judge_transactions", lambda *_: theirs)
    meta = replace(healthy().write(tmp_path / "h"), workload=Workload.APPEND)
    for none in (None, PromiseOverride()):
        found = judge(local_context(), tmp_path / "h", path_label="h", meta=meta, promises=none)
        assert found.reasons == ("theirs",)
    assert judge(local_context(), tmp_path / "h", path_label="h").verdict is Verdict.VALID


def test_a_run_that_did_too_little(tmp_path: Path) -> None:
    meta = replace(healthy().write(tmp_path / "h"), origin="run", exercise=Exercise(min_acknowledged=10))
    found = judge(local_context(), tmp_path / "h", path_label="h", meta=meta)
    assert (found.verdict, found.reasons) == (
        Verdict.NOT_EXERCISED, ("1 sends were acknowledged, and the plan wants 10",),
    )  # fmt: skip


@pytest.fixture
def cases_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """An example is nothing but its case."""

    def explained(_history: History, cases: Sequence[Case]) -> dict[Case, Example]:
        return {case: Example(case.fatal, "", ({"op": case.op},), case.key, case.value) for case in cases}

    monkeypatch.setattr(checkers.judge, "explain", explained)


def findings(*cases: Case) -> list[Finding]:
    return _findings(None, list(cases))  # type: ignore[arg-type]


def case(name: str = "int-send-skip", fatal: bool = False, **place: int | None) -> Case:
    return Case(name, 2, int(fatal), fatal, **place)


def ops(finding: Finding) -> list[int | None]:
    return [each.evidence[0]["op"] for each in finding.examples]


@pytest.mark.usefixtures("cases_shown")
def test_the_worst_and_earliest_is_the_example() -> None:
    def first(*cases: Case) -> int | None:
        (only,) = findings(*cases)
        (op,) = ops(only)
        return op

    assert first(case(op=3), case(op=2)) == 2
    assert first(case(op=2), case(op=3, fatal=True)) == 3
    assert first(case(op=1), case(op=None)) is None, "of no operation: before all"


@pytest.mark.usefixtures("cases_shown")
def test_at_most_so_many_examples() -> None:
    (many,) = findings(*(case("duplicate", op=10 - number, key=number) for number in range(10)))
    assert (EXAMPLES, many.count) == (8, 20)
    assert ops(many) == [8, 7, 6, 5, 4, 3, 2, 1], "the earliest, by key"


@pytest.mark.usefixtures("cases_shown")
def test_examples_by_key_and_value() -> None:
    def order(*cases: Case) -> list[int | None]:
        return ops(findings(*cases)[0])

    def some(op: int, key: int | None, value: int | None, fatal: bool = False) -> Case:
        return case("duplicate", fatal, op=op, key=key, value=value)

    assert order(some(0, 2, 1), some(1, 1, 3), some(2, 1, 2)) == [2, 1, 0]
    assert order(some(0, 1, 1), some(1, 2, 2, fatal=True)) == [1, 0]
    assert order(some(0, 1, 1), some(1, None, 2)) == [1, 0]
    assert order(some(0, 1, 1), some(1, 1, None)) == [1, 0]


@pytest.mark.usefixtures("cases_shown")
def test_broken_promises_stand_first() -> None:
    found = findings(
        case("int-send-skip"), case("phantom", fatal=True), case("lost-write"), case("duplicate", fatal=True)
    )
    assert [each.anomaly for each in found] == ["duplicate", "phantom", "lost-write", "int-send-skip"]
    assert [(each.count, each.fatal_count) for each in found] == [(2, 1), (2, 1), (2, 0), (2, 0)]
