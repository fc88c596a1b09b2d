"""Recordings of a real Apache Kafka 3.9, thinned to one key and a few seconds around a fault (``bench/thin.py``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from checkers.judge import judge
from checkers.promises import PromiseOverride
from checkers.result import Verdict

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = pytest.mark.spark

RECORDINGS = Path(__file__).parent.parent / "fixtures" / "recordings"
NORMAL = {"int-send-skip"}
INNOCENT = Verdict.NOT_EXERCISED
"""Nothing is wrong, and a few seconds are too little to mean anything: the run's other faults met no operation."""


def test_a_leader_killed_under_safe_settings_loses_nothing(spark: SparkContext) -> None:
    judgement = judge(spark, RECORDINGS / "default", path_label="default")
    assert judgement.verdict is INNOCENT, judgement.reasons
    assert {each.anomaly for each in judgement.findings} <= NORMAL


def test_a_leader_killed_under_acks_1_takes_acknowledged_records_with_it(spark: SparkContext) -> None:
    """Twelve records were acknowledged by a leader that nobody had copied yet; later ones got their offsets."""
    judgement = judge(spark, RECORDINGS / "acks-one", path_label="acks-one")
    found = {each.anomaly: each for each in judgement.findings}
    assert judgement.verdict is INNOCENT, judgement.reasons
    assert found["lost-write"].count == 12
    assert not any(each.fatal for each in judgement.findings), "acks=1 promises nothing: observed, not violated"
    assert "acknowledged at offset" in found["lost-write"].examples[0].sentence


def test_the_same_losses_under_a_promise_are_violations(spark: SparkContext) -> None:
    judgement = judge(spark, RECORDINGS / "acks-one", path_label="acks-one", promises=PromiseOverride(safe=True))
    fatal = {each.anomaly for each in judgement.findings if each.fatal}
    assert judgement.verdict is Verdict.INVALID
    assert "lost-write" in fatal
