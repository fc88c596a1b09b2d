"""The windowed search finds in random histories exactly what the reference finds in the whole graph."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from checkers.cycles import inside
from checkers.cycles.edges import Edge, Ints
from checkers.cycles.inside import search_windows
from checkers.cycles.lists import check_lists
from checkers.cycles.models import ruled_out
from checkers.cycles.registers import check_registers
from checkers.cycles.search import KINDS, Cycle, Step, Txn, search
from tests.checkers import cycle_reference as reference
from tests.checkers.cycle_histories import Drawn, draw, search_columns
from tests.checkers.cycle_reference import anomalies

CASES = 1000


def found_in(drawn: Drawn) -> tuple[list[Counter[str]], list[Cycle], Ints]:
    """What the checks find, by case."""
    elements, txns = drawn.columns()
    reports, report = search_columns(elements, txns, drawn.lists)
    case_of = np.repeat(np.arange(len(drawn.cases)), [len(case) for case in drawn.cases])
    found: list[Counter[str]] = [Counter() for _ in drawn.cases]
    for each in reports:
        for case in each.found.cases:
            found[int(case_of[case.op])][case.anomaly] += 1
    for cycle in report.cycles:
        found[int(case_of[cycle.steps[0].src])][cycle.kind] += 1
    return found, report.cycles, case_of


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "registers"])
@pytest.mark.parametrize("seed", range(1, 7))
def test_a_thousand_random_histories(seed: int, lists: bool) -> None:
    drawn = draw(seed, CASES, lists)
    found, _, _ = found_in(drawn)
    wrong = [
        (number, +mine, expected)
        for number, (mine, case) in enumerate(zip(found, drawn.cases, strict=True))
        if +mine != (expected := +anomalies(case, lists))
    ]
    assert not wrong, f"{len(wrong)} differ, the first: {wrong[0]}\n" + "\n".join(map(str, drawn.cases[wrong[0][0]]))


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "registers"])
def test_every_anomaly_is_frequent_and_so_is_innocence(lists: bool) -> None:
    total: Counter[str] = Counter()
    innocent = 0
    for case in draw(99, 2000, lists).cases:
        names = +anomalies(case, lists)
        innocent += not names
        total.update(names.keys())
    of_both = {"internal", "future-read", "G1a", "G1b", "lost-update", "phantom"}
    of_both |= {"G1c-process", "G1c-realtime", "G2-item", "G2-item-process"}
    of_both |= {"G-single-item" + variant for variant in ("", "-process", "-realtime")}
    of_lists = {"incompatible-order", "duplicate-elements", "dirty-update", "G0", "G0-process", "G0-realtime", "G1c"}
    for name in of_both | (of_lists if lists else set()):
        assert total[name] >= 2, f"{name}: {total}"
    assert innocent > 200


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "registers"])
def test_a_cycle_is_closed_and_of_its_kind(lists: bool) -> None:
    _, cycles, _ = found_in(draw(5, CASES, lists))
    for cycle in cycles:
        kinds = [step.kind.name for step in cycle.steps]
        assert [step.dst for step in cycle.steps] == [step.src for step in (*cycle.steps[1:], cycle.steps[0])]
        assert ("REALTIME" in kinds) <= cycle.kind.endswith("-realtime")
        assert ("PROCESS" in kinds) <= cycle.kind.endswith(("-process", "-realtime"))
        rw = kinds.count("RW")
        adjacent = any(a == b == "RW" for a, b in zip(kinds, [*kinds[1:], kinds[0]], strict=True))
        if cycle.kind.startswith("G0"):
            assert set(kinds) <= {"WW", "PROCESS", "REALTIME"}
        elif cycle.kind.startswith("G1c"):
            assert "WR" in kinds
            assert not rw
        elif cycle.kind.startswith("G-single"):
            assert rw == 1
        else:
            assert rw >= 2
            assert adjacent == cycle.kind.startswith("G2")
    assert {cycle.kind for cycle in cycles} <= set(KINDS)


def test_a_component_too_large_to_search_names_its_stale_read(monkeypatch: pytest.MonkeyPatch) -> None:
    between = [
        reference.Txn(n, n, "ok", 10 * n, 10 * n + 5, (("r", 1, [] if n == 30 else [1]), ("w", 2, n)))
        for n in range(1, 31)
    ]
    writer = reference.Txn(0, 0, "ok", 0, 5, (("w", 1, 1), ("w", 2, 100)))
    expected = Counter({"G-single-item-realtime": 1})
    found, cycles, _ = found_in(Drawn(True, [[writer, *between]]))
    assert found == [expected]
    assert [step.kind for step in cycles[0].steps] == [Edge.RW, Edge.REALTIME]
    monkeypatch.setattr(inside, "MOST_EDGES", 3)
    found, cycles, _ = found_in(Drawn(True, [[writer, *between]]))
    assert found == [expected]
    assert [step.kind for step in cycles[0].steps] == [Edge.RW, Edge.REALTIME]


def test_versions_of_a_register_in_a_circle() -> None:
    one = reference.Txn(0, 0, "ok", 0, 3, (("r", 0, 1), ("w", 0, 2)))
    other = reference.Txn(1, 1, "ok", 1, 2, (("r", 0, 2), ("w", 0, 1)))
    found, _, _ = found_in(Drawn(False, [[one, other]]))
    assert found == [Counter({"cyclic-versions": 1, "G1c": 1})]
    assert found == [+anomalies([one, other], False)]


def _ring(*kinds: str) -> tuple[list[Txn], list[Step]]:
    """Transactions one after the other in a circle of edges; ``p`` and ``t`` are orders of process and time."""
    size = len(kinds)
    step_of = {"ww": Edge.WW, "wr": Edge.WR, "rw": Edge.RW}
    steps = [Step(n, (n + 1) % size, step_of[kind], 0, 1, 2) for n, kind in enumerate(kinds) if kind in step_of]
    txns = []
    for number in range(size):
        after = kinds[number - 1] in ("p", "t")
        mine = (number - 1) % size if kinds[number - 1] == "p" else number
        leads = kinds[number] in ("p", "t")
        txns.append(Txn(number, mine, 1000 + number if after else number, 500 + number if leads else 5000 + number))
    return txns, steps


@pytest.mark.parametrize(
    ("kinds", "named"),
    [
        ("ww ww", "G0"),
        ("ww wr", "G1c"),
        ("ww rw", "G-single-item"),
        ("rw ww rw wr", "G-nonadjacent-item"),
        ("rw rw", "G2-item"),
        ("rw rw ww", "G2-item"),
        ("ww p", "G0-process"),
        ("wr p", "G1c-process"),
        ("rw p", "G-single-item-process"),
        ("rw p rw wr", "G-nonadjacent-item-process"),
        ("rw rw p", "G2-item-process"),
        ("ww t", "G0-realtime"),
        ("wr t", "G1c-realtime"),
        ("rw t", "G-single-item-realtime"),
        ("rw t rw wr", "G-nonadjacent-item-realtime"),
        ("rw rw t", "G2-item-realtime"),
    ],
)
def test_the_smallest_cycle_of_each_kind(kinds: str, named: str) -> None:
    txns, steps = _ring(*kinds.split())
    found = search(txns, steps)
    assert [cycle.kind for cycle in found.cycles] == [named]
    assert len(found.cycles[0].steps) == len(kinds.split())
    assert search(txns, steps[1:]).cycles == []


def test_a_search_without_time_says_that_a_cycle_exists() -> None:
    drawn = draw(3, 300, True)
    elements, txns = drawn.columns()
    report = check_lists(elements, None)
    everything = np.arange(txns["type"].size)
    nodes = {"op": everything, "window": np.zeros_like(everything), **txns}
    quick = search_windows(nodes, report.edges, None, lambda: lambda: True)
    assert quick.unnamed
    assert all(len(cycle.steps) == 2 for cycle in quick.cycles)
    assert len(quick.timed_out) > len(quick.unnamed)


@pytest.mark.parametrize(
    ("anomaly", "models"),
    [
        ("G0", ("read-uncommitted",)),
        ("G1a", ("read-committed",)),
        ("G1c", ("read-committed",)),
        ("internal", ("read-atomic",)),
        ("G-single-item", ("consistent-view", "repeatable-read")),
        ("G-nonadjacent-item", ("repeatable-read", "snapshot-isolation")),
        ("G2-item", ("repeatable-read",)),
        ("G-single-item-realtime", ("strong-snapshot-isolation",)),
    ],
)
def test_models_that_an_anomaly_rules_out(anomaly: str, models: tuple[str, ...]) -> None:
    found = ruled_out([anomaly])
    assert found.weakest == models
    assert "strict-serializable" in found.others


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "registers"])
@pytest.mark.parametrize("first", ["fail", "info"])
def test_a_key_with_a_value_that_was_written_twice_convicts_nobody(lists: bool, first: str) -> None:
    """A client that tries again what failed, with the same value; and next to it a key that is beyond doubt."""

    def of(key: int, write_again: bool) -> list[reference.Txn]:
        read = [1, 1] if lists and first == "info" else [1] if lists else 1
        return [
            reference.Txn(0, 0, first, 0, 5, (("w", key, 1),)),
            reference.Txn(1, 1, "ok", 10, 15, (("w", key, 1 if write_again else 2),)),
            reference.Txn(2, 2, "ok", 20, 25, (("r", key, read),)),
        ]

    check = check_lists if lists else check_registers
    elements, _ = Drawn(lists, [of(1, write_again=True)]).columns()
    alone = check(elements, None)
    assert (alone.rewritten, alone.found.cases) == (1, [])
    assert not alone.edges["src"].size
    elements, _ = Drawn(lists, [of(1, write_again=True), of(2, write_again=False)]).columns()
    assert check(elements, None).rewritten == 1
    assert {case.key for case in check(elements, None).found.cases} == ({2} if lists or first == "fail" else set())
