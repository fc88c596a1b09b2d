"""Each anomaly's smallest guilty histories are convicted of exactly their case; its neighbours of none."""

from __future__ import annotations

import pytest

from histories.build import HistoryBuilder
from tests.checkers.reference import ANOMALIES, Cases, judge
from tests.checkers.rows import History
from tests.checkers.smallest import GUILTY, INNOCENT, Guilty, Innocent, Writer


def _cases(write: Writer, anomaly: str) -> Cases:
    builder = HistoryBuilder()
    write(builder)
    return judge(History.of(builder.tables(), builder.meta()))[anomaly]


@pytest.mark.parametrize("example", GUILTY, ids=lambda each: each.name)
def test_guilty(example: Guilty) -> None:
    assert _cases(example.write, example.anomaly) == {(example.case, example.fatal)}


@pytest.mark.parametrize("example", INNOCENT, ids=lambda each: each.name)
def test_innocent(example: Innocent) -> None:
    assert _cases(example.write, example.anomaly) == set()


def test_every_anomaly_has_both() -> None:
    assert {each.anomaly for each in GUILTY} == set(ANOMALIES)
    assert {each.anomaly for each in INNOCENT} == set(ANOMALIES)
