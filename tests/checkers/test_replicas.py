"""replica-divergence, from the brokers' own logs: the smallest guilty and innocent ones, and a slow reference."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.judge import judge
from checkers.replica_logs import Log, batches_around, first_difference, replica_logs
from checkers.replicas import diverged
from checkers.result import Verdict
from histories.build import HistoryBuilder
from histories.meta import Exercise
from histories.read import open_history
from tests.checkers.local import local_context

Batch = tuple[int, int, int, int]
"""First and last offset, leader epoch, digest."""
A, B, C = (0, 1, 0, 11), (2, 2, 0, 22), (3, 5, 1, 33)
Writer = Callable[[HistoryBuilder], None]


def found(write: Writer, folder: Path, *, void: bool = False) -> tuple[list[tuple[int, int, int, int]], str | None]:
    """Key, the two brokers and the offset of each case; why the promise was not observable."""
    b = HistoryBuilder()
    b.send(0, 0, 1, 0)
    write(b)
    meta = b.write(folder)
    cases, unobservable = diverged(folder, meta, void)
    assert all(each.fatal is not void and each.fatal_count == int(not void) for each in cases)
    places = []
    for each in cases:
        assert each.key is not None
        assert each.offset is not None
        assert each.broker is not None
        assert each.other_broker is not None
        places.append((each.key, each.broker, each.other_broker, each.offset))
    return places, unobservable


def _two(one: list[Batch], other: list[Batch], **whole: int) -> Writer:
    def write(b: HistoryBuilder) -> None:
        b.replica(1, 0, one)
        b.replica(2, 0, other, **whole)

    return write


@pytest.mark.parametrize(
    ("write", "offset"),
    [
        pytest.param(_two([A, B], [A, (2, 2, 0, 23)]), 2, id="other-bytes"),
        pytest.param(_two([A, B], [A, (2, 2, 1, 22)]), 2, id="another-epoch"),
        pytest.param(_two([A, C], [(0, 0, 0, 11), C]), 0, id="another-end"),
        pytest.param(_two([A, B, C], [A, C]), 2, id="a-batch-is-missing-in-the-middle"),
        pytest.param(_two([A, B, C], [A], high_watermark=3), 2, id="the-rest-is-missing"),
        pytest.param(_two([A, B], [B], log_start=1), 1, id="the-batch-at-the-log-start-is-missing"),
        pytest.param(_two([A], [], high_watermark=2), 0, id="everything-is-missing"),
    ],
)
def test_guilty(write: Writer, offset: int, tmp_path: Path) -> None:
    assert found(write, tmp_path / "h") == ([(0, 1, 2, offset)], None)


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(_two([A, B], [A, B]), id="the-same"),
        pytest.param(_two([A, B], [A, (2, 2, 0, 23)], high_watermark=2), id="different-above-a-high-watermark"),
        pytest.param(_two([A, B, C], [A, B]), id="one-has-more"),
        pytest.param(_two([A, B], [B], log_start=2), id="one-begins-later"),
    ],
)
def test_innocent(write: Writer, tmp_path: Path) -> None:
    assert found(write, tmp_path / "h") == ([], None)


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(_two([A], []), id="one-is-empty-and-knows-of-nothing"),
        pytest.param(_two([A], [A], high_watermark=0), id="one-has-no-checkpoint"),
        pytest.param(_two([A], [A], log_start=2), id="one-begins-where-the-other-ends"),
    ],
)
def test_where_nothing_was_compared_nothing_is_promised(write: Writer, tmp_path: Path) -> None:
    cases, unobservable = found(write, tmp_path / "h")
    assert cases == []
    assert unobservable is not None
    assert "no two replicas of a key have something committed in common" in unobservable


def test_each_pair_is_a_case(tmp_path: Path) -> None:
    def write(b: HistoryBuilder) -> None:
        for key in (0, 1):
            for broker in (1, 2, 3):
                b.replica(broker, key, [A, (2, 2, 0, 22 + (key == 1 and broker == 3))])
        b.topic("t", 2)

    assert found(write, tmp_path / "h")[0] == [(1, 1, 3, 2), (1, 2, 3, 2)]


def test_compacted_and_deleted_keys_are_exempt(tmp_path: Path) -> None:
    def write(b: HistoryBuilder) -> None:
        b.topic("compacted", cleanup_policy="compact")
        b.topic("deleted", deleted=True)
        for key in (0, 1):
            b.replica(1, key, [A])
            b.replica(2, key, [(0, 1, 0, 12)])

    places, unobservable = found(write, tmp_path / "h")
    assert places == []
    assert unobservable is not None


@pytest.mark.parametrize(
    ("unclean", "in_sync", "places"),
    [
        pytest.param(True, [1, 2], [], id="it-never-came-back"),
        pytest.param(True, [1, 2, 3], [(0, 1, 3, 2), (0, 2, 3, 2)], id="it-came-back"),
        pytest.param(False, [1, 2], [(0, 1, 3, 2), (0, 2, 3, 2)], id="no-unclean-election"),
    ],
)
def test_what_an_unclean_election_gave_up(
    unclean: bool, in_sync: list[int], places: list[tuple[int, int, int, int]], tmp_path: Path
) -> None:
    """Broker 3 led up to 5; a replica that lagged took over without it. It knows of that once it is in sync again."""

    def write(b: HistoryBuilder) -> None:
        b.topic("t", unclean_leader_election=unclean)
        b.event("isr", key=0, isr=[1, 2, 3])
        b.event("isr", key=0, isr=in_sync)
        b.event("leader", key=0, leader=1)
        b.replica(1, 0, [A, (2, 2, 1, 222), (3, 5, 1, 333)])
        b.replica(2, 0, [A, (2, 2, 1, 222), (3, 5, 1, 333)])
        b.replica(3, 0, [A, B, (3, 5, 0, 33)])

    assert found(write, tmp_path / "h") == (places, None)


def test_after_an_unclean_election_nobody_counts_who_is_not_known_to_be_in_sync(tmp_path: Path) -> None:
    def write(b: HistoryBuilder) -> None:
        b.topic("t", unclean_leader_election=True)
        b.event("isr", key=0, isr=None)
        _two([A], [(0, 1, 0, 12)])(b)

    places, unobservable = found(write, tmp_path / "h")
    assert places == []
    assert unobservable is not None


def test_destroyed_storage_makes_it_an_observation(tmp_path: Path) -> None:
    places, _ = found(_two([A], [(0, 1, 0, 12)]), tmp_path / "h", void=True)
    assert places == [(0, 1, 2, 0)]


def test_without_the_table_nothing_is_observable(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.send(0, 0, 1, 0)
    b.scan_rest()
    meta = b.write(tmp_path / "h")
    shutil.rmtree(tmp_path / "h" / "replicas")
    counts = {name: count for name, count in meta.counts.items() if name != "replicas"}
    (tmp_path / "h" / "meta.json").unlink()
    replace(meta, counts=counts).write(tmp_path / "h" / "meta.json")
    open_history(tmp_path / "h")
    judgement = judge(local_context(), tmp_path / "h", path_label="h")
    assert judgement.verdict is Verdict.VALID
    assert any(each.startswith("replica-divergence: not observable: nobody read") for each in judgement.not_exercised)


def test_as_a_plan_s_subject_it_must_be_observable(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.send(0, 0, 1, 0)
    b.scan_rest()
    b.replica(1, 0, [A])
    meta = replace(b.meta(), exercise=Exercise(subject=("replica-divergence",)))
    _write(b, tmp_path / "h", meta.exercise)
    judgement = judge(local_context(), tmp_path / "h", path_label="h")
    assert judgement.verdict is Verdict.UNKNOWN
    assert any("no two replicas" in each for each in judgement.reasons)


def _write(b: HistoryBuilder, folder: Path, exercise: Exercise) -> None:
    meta = b.write(folder)
    (folder / "meta.json").unlink()
    replace(meta, exercise=exercise).write(folder / "meta.json")


def test_the_judgement_names_brokers_and_offset(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.send(0, 0, 1, 0)
    b.scan_rest()
    b.replica(1, 0, [A, B])
    b.replica(2, 0, [A, (2, 2, 0, -1)])
    b.write(tmp_path / "h")
    judgement = judge(local_context(), tmp_path / "h", path_label="h")
    assert judgement.verdict is Verdict.INVALID
    anomaly = judgement.document()["anomalies"]["replica-divergence"]
    assert (anomaly["count"], anomaly["fatal_count"]) == (1, 1)
    example = anomaly["examples"][0]
    assert "t-0 on broker 1 and on broker 2 differ from offset 2 on" in example["sentence"]
    assert [(each["broker"], each["digest"]) for each in example["evidence"]] == [
        (1, "0000000000000016"),
        (2, "ffffffffffffffff"),
    ]


def test_logs_by_key_and_broker_batches_by_offset(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.replica(2, 1, [B, A], high_watermark=7)
    b.replica(1, 1, [C], log_start=3)
    b.replica(2, 0, [], log_start=4)
    b.replica(1, 0, [C, A, B], high_watermark=5)
    b.write(tmp_path / "h")
    found = replica_logs(tmp_path / "h")
    assert [(each.key, each.broker, each.log_start, each.high_watermark) for each in found] == [
        (0, 1, 0, 5), (0, 2, 4, 4), (1, 1, 3, 6), (1, 2, 0, 7),
    ]  # fmt: skip
    batches = [list(zip(*(column.tolist() for column in each.columns.values()), strict=True)) for each in found]
    assert batches == [[A, B, C], [], [C], [A, B]]


def test_evidence_is_the_batch_that_each_of_the_brokers_has_there(tmp_path: Path) -> None:
    b = HistoryBuilder()
    for key, broker, batches in ((0, 1, [A, B, C]), (0, 2, [A, B]), (0, 3, [A]), (0, 4, []), (1, 1, [A, B])):
        b.replica(broker, key, batches)
    b.write(tmp_path / "h")

    def there(*brokers: int, offset: int) -> list[tuple[int, str | None]]:
        rows = batches_around(tmp_path / "h", 0, brokers, offset)
        assert all(row["table"] == "replicas" and row["key"] == 0 for row in rows)
        assert all(None not in row.values() for row in rows), "what is not there has no column"
        return [(row["broker"], row.get("digest")) for row in rows]

    assert there(1, 3, offset=2) == [(1, "0000000000000016")]
    assert there(1, 2, offset=1) == [(1, "000000000000000b"), (2, "000000000000000b")]
    assert there(1, offset=4) == there(1, offset=3) == there(1, offset=5) == [(1, "0000000000000021")]
    assert there(2, 4, offset=2) == [(2, "0000000000000016"), (4, None)], "an empty log has no batch to show"
    assert there(4, offset=2) == [(4, None)]


def reference(one: tuple[list[Batch], int, int], other: tuple[list[Batch], int, int]) -> int | None:
    """The first offset in sight of both at which they do not have the same batch."""
    for offset in range(max(one[1], other[1]), min(one[2], other[2])):
        mine, theirs = (
            next((batch for batch in each[0] if batch[0] <= offset <= batch[1]), None) for each in (one, other)
        )
        if mine != theirs:
            return offset
    return None


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[list[Batch], int, int]]:
    """Three replicas, from the same batches: now and then one has another batch, lacks some, starts later."""
    ends = sorted(draw(st.sets(st.integers(0, 12), min_size=1)))
    common = [(start, end, start // 4, 7) for start, end in zip([0, *[each + 1 for each in ends]], ends, strict=False)]
    found = []
    for _ in range(3):
        batches = [
            (first, last, epoch, draw(st.sampled_from([digest] * 6 + [8])))
            for first, last, epoch, digest in common
            if draw(st.sampled_from([True] * 6 + [False]))
        ]
        start = draw(st.integers(0, 5))
        kept = [each for each in batches if each[1] >= start]
        found.append((kept, start, draw(st.integers(start, 13))))
    return found


@given(logs())
def test_against_the_reference(replicas: list[tuple[list[Batch], int, int]]) -> None:
    names = ("offset", "last_offset", "leader_epoch", "digest")
    tables = [
        Log(0, n, start, mark, dict(zip(names, np.array(batches, np.int64).reshape(-1, 4).T, strict=True)))
        for n, (batches, start, mark) in enumerate(replicas)
    ]
    for one, other in combinations(range(3), 2):
        assert first_difference(tables[one], tables[other]) == reference(replicas[one], replicas[other])
