"""The builder writes what was asked for, in the shape that the schema fixes."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow.parquet as pq

from histories.build import HistoryBuilder, Poll, Seek, Send
from histories.meta import Meta
from histories.schema import TABLES


def test_operations_without_times_follow_each_other() -> None:
    b = HistoryBuilder()
    b.send(process=0, key=0, value=1, offset=0)
    b.poll(process=1, records=[(0, 0, 1)])
    b.txn(process=2, steps=[Send(0, 2, 1), Poll([(0, 0, 1)])])
    ops = b.tables()["ops"].to_pylist()
    assert [row["op"] for row in ops] == [0, 1, 2]
    assert all(before["complete_ns"] < after["invoke_ns"] for before, after in itertools.pairwise(ops))


def test_operations_are_numbered_by_invocation_and_their_mops_follow() -> None:
    b = HistoryBuilder()
    b.send(process=0, key=0, value=7, offset=0, at=(50, 60))
    b.send(process=1, key=1, value=8, type="info", at=(10, None))
    tables = b.tables()
    assert [row["process"] for row in tables["ops"].to_pylist()] == [1, 0]
    first, second = tables["mops"].to_pylist()
    assert (first["op"], first["value"], first["status"], first["complete_ns"]) == (0, 8, "info", None)
    assert (second["op"], second["value"], second["offset"], second["type"]) == (1, 7, 0, "ok")
    assert [key.partition for key in b.meta().keys] == [0, 1]


def test_steps_of_a_transaction_lie_inside_it_and_before_its_commit() -> None:
    b = HistoryBuilder()
    b.txn(process=0, steps=[Seek(0, 0), Send(0, 1, 0), Poll([(0, 0, 1), (0, 1, 2)])])
    tables = b.tables()
    (op,) = tables["ops"].to_pylist()
    mops = tables["mops"].to_pylist()
    assert [(row["mop"], row["pos"], row["kind"]) for row in mops] == [
        (0, 0, "seek"),
        (1, 0, "send"),
        (2, 0, "poll"),
        (2, 1, "poll"),
    ]
    for row in mops[1:]:
        assert op["invoke_ns"] <= row["invoke_ns"] <= row["complete_ns"] <= op["commit_ns"] <= op["complete_ns"]
        assert row["commit_ns"] == op["commit_ns"]


def test_a_failed_transaction_never_asked_to_commit() -> None:
    b = HistoryBuilder()
    b.txn(process=0, steps=[Send(0, 1)], type="fail")
    assert b.tables()["ops"].to_pylist()[0]["commit_ns"] is None


def test_a_scan_covers_its_key_in_both_isolations() -> None:
    b = HistoryBuilder()
    b.send(process=0, key=0, value=1, offset=0)
    b.scan(0, [(0, 1), (4, 2)], batch=1)
    tables = b.tables()
    coverage = tables["coverage"].to_pylist()
    assert [row["isolation"] for row in coverage] == ["read_uncommitted", "read_committed"]
    assert [row["position"] for row in coverage] == [5, 5]
    final = [row for row in tables["mops"].to_pylist() if row["phase"] == "final"]
    assert [row["kind"] for row in final] == ["seek", "poll", "poll"] * 2


def test_the_rest_is_scanned_without_what_should_be_missing() -> None:
    b = HistoryBuilder()
    b.send(process=0, key=0, value=1, offset=0)
    b.send(process=0, key=1, value=2, offset=0)
    b.send(process=0, key=1, value=3, type="fail")
    b.scan(0, [(0, 1)])
    b.scan_rest(without=[2])
    assert [(row["key"], row["position"]) for row in b.tables()["coverage"].to_pylist()] == [
        (0, 1),
        (0, 1),
        (1, 0),
        (1, 0),
    ]


def test_declared_settings_are_in_the_meta() -> None:
    b = HistoryBuilder()
    assert b.topic("a", 2) == (0, 1)
    assert b.topic("b", cleanup_policy="compact") == (2,)
    weak = b.producer(acks=1, idempotent=False)
    b.worker(3, [5], clock_error_ns=100)
    b.send(process=5, key=2, value=1, offset=0, producer=weak)
    meta = b.meta()
    assert (meta.keys[2].topic, meta.topics["b"].cleanup_policy) == ("b", "compact")
    assert meta.clock_error_ns == {"3": 100}
    (op,) = b.tables()["ops"].to_pylist()
    assert (op["acks"], op["worker"]) == (1, 3)


def test_a_written_history_reads_back(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.send(process=0, key=0, value=1, offset=0)
    b.event("leader", key=0, leader=2, leader_epoch=1, isr=[1, 2])
    b.scan_rest()
    b.write(tmp_path)
    assert Meta.read(tmp_path / "meta.json").counts["ops"] == b.tables()["ops"].num_rows
    for name in TABLES:
        assert pq.read_table(tmp_path / name).num_rows == b.tables()[name].num_rows
