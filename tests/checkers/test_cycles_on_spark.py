"""Histories of transactions judged on Spark: Elle's own verdicts, what is planted, what a person reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from checkers.judge import judge
from checkers.result import Verdict
from histories.jepsen import import_jepsen
from histories.schema import Workload
from histories.synth.gadgets import GADGETS
from histories.synth.transactions import synthesize_transactions

if TYPE_CHECKING:
    from pyspark import SparkContext

FIXTURES = Path(__file__).parents[1] / "fixtures" / "jepsen"

pytestmark = pytest.mark.spark


def elles_verdicts() -> list[dict[str, object]]:
    lines = (FIXTURES / "expected.jsonl").read_text().splitlines()
    return [verdict for line in lines if (verdict := json.loads(line))["file"].startswith("a-")]


@pytest.mark.parametrize("expected", elles_verdicts(), ids=lambda each: str(each["file"]))
def test_verdicts_agree_with_elle(spark: SparkContext, tmp_path: Path, expected: dict[str, object]) -> None:
    import_jepsen(FIXTURES / str(expected["file"]), tmp_path / "h")
    judgement = judge(spark, tmp_path / "h", path_label=str(expected["file"]))
    assert not judgement.crash
    assert {each.anomaly: each.count for each in judgement.findings} == expected["counts"]
    assert judgement.document()["models_ruled_out"] == expected["models_ruled_out"]
    assert judgement.verdict is Verdict.INVALID


@pytest.mark.parametrize("workload", [Workload.APPEND, Workload.REGISTER])
def test_all_that_is_planted_is_told(spark: SparkContext, tmp_path: Path, workload: Workload) -> None:
    planted = {name: 2 for name, gadget in GADGETS.items() if gadget.only in (None, workload)}
    synthesize_transactions(tmp_path / "h", workload, 4000, inject=planted, seed=5)
    judgement = judge(spark, tmp_path / "h", path_label="h")
    assert not judgement.crash
    found = {each.anomaly: each for each in judgement.findings}
    entailed = {each for name in planted for each in GADGETS[name].entails}
    assert set(found) == set(planted)
    for name, finding in found.items():
        assert finding.count == 2 if name not in entailed else finding.count >= 2
        for example in finding.examples:
            assert example.evidence
            assert "{" not in example.sentence
            assert "None" not in example.sentence
            assert bool(example.cycle) == name.startswith(("G0", "G1c", "G-", "G2"))
            for step in example.cycle:
                assert any(row["op"] == step["from"] for row in example.evidence)


@pytest.mark.parametrize("workload", [Workload.APPEND, Workload.REGISTER])
def test_a_strictly_serializable_history_is_valid(spark: SparkContext, tmp_path: Path, workload: Workload) -> None:
    synthesize_transactions(tmp_path / "h", workload, 4000, seed=6)
    judgement = judge(spark, tmp_path / "h", path_label="h")
    assert judgement.verdict is Verdict.VALID
    assert not judgement.findings
    assert judgement.document()["models_ruled_out"] == []


def test_a_value_that_was_written_twice_is_unknown(spark: SparkContext, tmp_path: Path) -> None:
    lines = [
        f"{{:type {type_}, :process {process}, :f :txn, :value [[:append 1 1]]}}"
        for process in (0, 1)
        for type_ in (":invoke", ":ok")
    ]
    (tmp_path / "h.edn").write_text("\n".join(lines))
    import_jepsen(tmp_path / "h.edn", tmp_path / "h")
    judgement = judge(spark, tmp_path / "h", path_label="h")
    assert judgement.verdict is Verdict.UNKNOWN
    assert "written twice" in judgement.reasons[0]
