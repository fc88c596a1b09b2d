"""The reference and the random histories themselves: worth comparing with only if both are good."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings

from tests.checkers.reference import ANOMALIES, Cases, judge
from tests.checkers.rows import History
from tests.checkers.strategies import case_of, generate, histories, innocent_histories

NORMAL = {"unseen", "int-send-skip"}
"""What a correct cluster shows too."""


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(innocent_histories())
def test_a_correct_cluster_is_never_convicted(history: History) -> None:
    assert {name for name, cases in judge(history).items() if cases} <= NORMAL


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_random_histories_keep_what_the_checks_assume(history: History) -> None:
    values = [each.value for each in history.mops if each.kind == "send"]
    places = [each.place for each in history.mops]
    assert len(values) == len(set(values))
    assert len(places) == len(set(places))
    assert [each.op for each in history.ops] == list(range(len(history.ops)))
    for each in history.mops:
        assert each.complete_ns is None or each.complete_ns >= each.invoke_ns


def test_every_anomaly_is_frequent_and_so_is_innocence() -> None:
    expected = generate(seed=7, cases=3000).expected
    frequency = Counter(name for each in expected for name, cases in each.items() if cases)
    rare = {name: frequency[name] for name in ANOMALIES if frequency[name] < 15}
    assert not rare
    assert sum(1 for each in expected if not any(each.values())) >= 600


def test_the_union_is_judged_as_its_parts_are() -> None:
    drawn = generate(seed=11, cases=60)
    together = judge(History.of(drawn.plain_tables(), drawn.meta))
    apart: list[dict[str, Cases]] = [{name: set() for name in ANOMALIES} for _ in drawn.histories]
    for name, cases in together.items():
        for identity, fatal in cases:
            case, own = case_of(name, identity)
            apart[case][name].add((own, fatal))
    assert apart == list(drawn.expected)
