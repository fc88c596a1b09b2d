"""What the checks take for granted: counted in each partition, judged from the sums."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from checkers import assumptions
from checkers.load import NONE, History

FINE = {"ops": 3, "lowest": 0, "highest": 2, "numbers": 3, "last_ns": 60, "backwards": 0, "overlapping": 0}
NOWHERE = cast(History, None)


def counted(*ops: tuple[int, int, int, int | None], kinds: str = "send:ok") -> dict[str, int]:
    """Each op: its number, process, invocation and completion."""
    f, kind = kinds.split(":")
    rows = [
        {
            "op": op,
            "process": process,
            "invoke_ns": start,
            "complete_ns": NONE if end is None else end,
            "f": f,
            "type": kind,
        }
        for op, process, start, end in ops
    ]
    batch = pa.RecordBatch.from_pylist(rows)
    empty = batch.slice(0, 0)
    (found,) = assumptions._count_operations(iter([empty, batch, empty]))
    return {row["name"]: row["n"] for row in found.to_pylist()}


def test_nothing_is_counted_of_nothing() -> None:
    assert list(assumptions._count_operations(iter([]))) == []
    empty = pa.RecordBatch.from_pylist([], pa.schema([("op", pa.int64())]))
    assert list(assumptions._count_operations(iter([empty]))) == []


def test_one_after_the_other_is_fine() -> None:
    found = counted((0, 1, 10, 20), (2, 1, 20, 30), (1, 2, 15, 60))
    assert found == {**FINE, "send:ok": 3}


def test_a_process_that_begins_before_its_last_operation_ended() -> None:
    assert counted((0, 1, 10, 21), (1, 1, 20, 30))["overlapping"] == 1
    assert counted((1, 1, 20, 30), (0, 1, 10, 21))["overlapping"] == 1, "sorted by number, not as they come"
    assert counted((0, 1, 10, 21), (1, 2, 20, 30))["overlapping"] == 0


def test_a_process_that_goes_on_after_an_operation_that_never_ended() -> None:
    assert counted((0, 1, 10, None), (1, 1, 20, 30))["overlapping"] == 1
    assert counted((0, 1, 10, 15), (1, 1, 20, None))["overlapping"] == 0
    assert counted((0, 1, 10, None), (1, 2, 20, None))["overlapping"] == 0


def test_an_operation_that_ends_before_it_began() -> None:
    assert counted((0, 1, 10, 9))["backwards"] == 1
    assert counted((0, 1, 10, 10))["backwards"] == 0
    assert counted((0, 1, 10, None))["backwards"] == 0


def test_numbers_and_the_last_moment() -> None:
    twice = counted((4, 1, 10, 20), (4, 2, 10, 30), (7, 3, 90, None))
    assert (twice["ops"], twice["numbers"], twice["lowest"], twice["highest"]) == (3, 2, 4, 7)
    assert twice["last_ns"] == 90
    assert counted((0, 1, 10, 95), (1, 2, 90, None))["last_ns"] == 95


def reasons(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, int], tallies: dict[str, int] | None = None, again: Any = None
) -> list[str]:
    monkeypatch.setattr(assumptions, "_sent_to_two_keys", lambda _: again)
    return assumptions.broken_assumptions(NOWHERE, found, tallies or {})


def test_what_holds_is_not_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reasons(monkeypatch, FINE, {"#missing-of-sent": 3}) == []
    assert reasons(monkeypatch, {}) == [], "an empty history breaks nothing"


@pytest.mark.parametrize("wrong", [{"lowest": 1}, {"lowest": -1}, {"highest": 3}, {"highest": 1}, {"numbers": 2}])
def test_numbers_that_are_not_dense(monkeypatch: pytest.MonkeyPatch, wrong: dict[str, int]) -> None:
    (reason,) = reasons(monkeypatch, {**FINE, **wrong})
    assert "not numbered densely from 0: 3 rows" in reason


def test_times_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reasons(monkeypatch, {**FINE, "backwards": 1}) == ["1 operations complete before they were invoked"]
    assert reasons(monkeypatch, {**FINE, "overlapping": 2}) == [
        "2 operations began while another of the same process was open"
    ]


def test_values_that_are_not_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reasons(monkeypatch, FINE, {"#value-sent-twice": 2}) == [
        "2 values were sent more than once to one key: values must be unique"
    ]
    again = SimpleNamespace(value=5, n=2)
    assert reasons(monkeypatch, FINE, again=again) == ["value 5 was sent 2 times: values must be unique within a run"]
