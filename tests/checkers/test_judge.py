"""Whole judgements: injected anomalies, Jepsen's verdicts, and input whose assumptions do not hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from checkers.judge import judge
from checkers.promises import PromiseOverride
from checkers.result import Judgement, Verdict
from histories.build import HistoryBuilder
from histories.jepsen import import_jepsen
from histories.synth import ENTAILS, synthesize

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = pytest.mark.spark

FIXTURES = Path(__file__).parent.parent / "fixtures" / "jepsen"
NORMAL = {"int-send-skip"}
CYCLES = {"G1c", "PL-2-cycle-exists"}
OUR_NAMES = {"G1a": "aborted-read"}


def counts(judgement: Judgement) -> dict[str, int]:
    return {each.anomaly: each.count for each in judgement.findings}


def test_a_healthy_history_is_valid(spark: SparkContext, tmp_path: Path) -> None:
    synthesize(tmp_path / "h", 3000, 4, 0, {}, 3)
    judgement = judge(spark, tmp_path / "h", path_label="h")
    assert judgement.verdict is Verdict.VALID, judgement.reasons
    assert set(counts(judgement)) <= NORMAL
    assert judgement.metrics["acknowledged"] > 1000


@pytest.mark.parametrize("name", sorted(ENTAILS))
def test_exactly_what_was_injected_is_found(spark: SparkContext, tmp_path: Path, name: str) -> None:
    synthesize(tmp_path / "h", 4000, 6, 0, {name: 3}, 11)
    judgement = judge(spark, tmp_path / "h", path_label="h")
    found = counts(judgement)
    assert found.get(name, 0) == 3 or (name in NORMAL and found[name] >= 3)
    assert set(found) <= {name} | ENTAILS[name] | NORMAL
    expected = Verdict.UNKNOWN if name == "unseen" else Verdict.VALID if name in NORMAL else Verdict.INVALID
    assert judgement.verdict is expected
    example = next(each for each in judgement.findings if each.anomaly == name).examples[0]
    assert example.evidence
    assert "{" not in example.sentence


def jepsen_verdicts() -> list[dict[str, object]]:
    lines = (FIXTURES / "expected.jsonl").read_text().splitlines()
    return [verdict for line in lines if (verdict := json.loads(line))["file"].startswith("k-")]


@pytest.mark.parametrize("expected", jepsen_verdicts(), ids=lambda each: str(each["file"]))
def test_delivery_and_order_agree_with_jepsen(spark: SparkContext, tmp_path: Path, expected: dict[str, object]) -> None:
    import_jepsen(FIXTURES / str(expected["file"]), tmp_path / "h")
    judgement = judge(spark, tmp_path / "h", path_label=str(expected["file"]))
    theirs = expected["counts"]
    assert isinstance(theirs, dict)
    wanted = {OUR_NAMES.get(name, name): n for name, n in theirs.items() if name not in CYCLES}
    found = {name: n for name, n in counts(judgement).items() if name not in NORMAL}
    assert found == wanted
    if wanted:
        assert judgement.verdict in (Verdict.INVALID, Verdict.UNKNOWN)


def test_a_value_sent_twice_is_unknown(spark: SparkContext, tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.send(process=0, key=0, value=1, offset=0)
    b.send(process=0, key=0, value=1, offset=1)
    b.write(tmp_path / "h")
    judgement = judge(spark, tmp_path / "h", path_label="h")
    assert judgement.verdict is not Verdict.VALID
    assert any("unique" in reason for reason in judgement.reasons)


def test_two_operations_in_flight_are_unknown(spark: SparkContext, tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.send(process=0, key=0, value=1, offset=0, at=(10, 100))
    b.send(process=0, key=0, value=2, offset=1, at=(20, 90))
    b.write(tmp_path / "h")
    judgement = judge(spark, tmp_path / "h", path_label="h")
    assert judgement.verdict is not Verdict.VALID
    assert any("same process" in reason for reason in judgement.reasons)


def test_promises_decide_what_is_fatal(spark: SparkContext, tmp_path: Path) -> None:
    synthesize(tmp_path / "h", 3000, 4, 0, {"lost-write": 2}, 5)
    judgement = judge(
        spark,
        tmp_path / "h",
        path_label="h",
        promises=PromiseOverride(safe=False, unclean=True),
        only=frozenset({"lost-write"}),
    )
    assert [(each.anomaly, each.count, each.fatal_count) for each in judgement.findings] == [("lost-write", 2, 0)]
    assert judgement.verdict is Verdict.VALID


def test_what_is_undecided_stays_so_when_only_one_anomaly_is_asked_for(spark: SparkContext, tmp_path: Path) -> None:
    synthesize(tmp_path / "h", 3000, 4, 0, {"unseen": 1}, 5)
    judgement = judge(spark, tmp_path / "h", path_label="h", only=frozenset({"lost-write"}))
    assert judgement.findings == ()
    assert judgement.verdict is Verdict.UNKNOWN
    assert any("never read" in reason for reason in judgement.reasons)
