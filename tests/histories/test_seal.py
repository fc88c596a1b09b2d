"""Sealing against a plain model, and what it refuses."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from histories import journal as journals
from histories import journal_reader, seal_index
from histories import seal as sealing
from histories.errors import HistoryError
from histories.journal import JournalWriter
from histories.meta import Meta
from histories.recorded import Completion, CoverageRow, Invocation, RecordedEvent, ReplicaLog, Step
from histories.schema import Defect, F, Isolation, Kind, Outcome, Phase
from histories.seal import seal

META = Meta(run_id="run", origin="run", keys=(), topics={}, producers=())
Row = dict[str, Any]


def rows(history: Path, table: str) -> list[Row]:
    found: list[Row] = pq.read_table(history / table).to_pylist()
    return found


@dataclass
class Expected:
    """One operation as the model knows it: the row of ``ops``, and the rows of ``mops``."""

    order: tuple[int, int, int]
    row: Row
    mops: list[Row] = field(default_factory=list)


@dataclass
class Model:
    """Drives one worker's journal at random and keeps, in the plainest way, what must come out of it."""

    journal: JournalWriter
    worker: int
    choose: random.Random
    done: list[Expected] = field(default_factory=list)
    open: dict[int, tuple[int, Expected]] = field(default_factory=dict)

    def number(self) -> int:
        return self.choose.randrange(40)

    def maybe(self, number: int) -> int | None:
        return self.choose.choice([None, number])

    def step(self) -> None:
        process = self.worker * 100 + self.choose.randrange(3)
        if process in self.open:
            op, expected = self.open[process]
            if self.choose.random() < 0.2 and expected.row["f"] == F.TXN:
                expected.row["commit_ns"] = self.number()
                self.journal.commit_requested(op, expected.row["commit_ns"])
                return
            del self.open[process]
            {F.SEND: self.end_sends, F.POLL: self.end_poll}.get(expected.row["f"], self.end_any)(op, expected)
        else:
            begin = self.choose.choice([self.begin_sends, self.begin_poll, self.begin_txn, self.begin_assign])
            op, expected = begin(process)
            expected.order = (expected.row["invoke_ns"], self.worker, op)
            expected.row.update(worker=self.worker, process=process, type=Outcome.INFO)
            self.open[process] = (op, expected)
            self.done.append(expected)

    def begin_sends(self, process: int) -> tuple[int, Expected]:
        at, count = self.number(), self.choose.randrange(1, 5)
        keys, values = [self.number() for _ in range(count)], [self.number() for _ in range(count)]
        op = self.journal.invoke_sends(process, 1, 2, -1, Phase.FINAL, at, keys, values)
        row = {"f": F.SEND, "instance": 1, "acks": -1, "phase": Phase.FINAL, "invoke_ns": at}
        sends = [
            {"kind": Kind.SEND, "key": key, "value": value, "mop": mop, "pos": 0, "status": Outcome.INFO,
             "producer": 2, "invoke_ns": at}
            for mop, (key, value) in enumerate(zip(keys, values, strict=True))
        ]  # fmt: skip
        return op, Expected((0, 0, 0), row, sends)

    def end_sends(self, op: int, expected: Expected) -> None:
        at, outcome = self.number(), self.choose.choice(list(Outcome))
        told = expected.mops[: self.choose.randrange(len(expected.mops) + 1)]
        statuses: list[Outcome | None] = [self.choose.choice([None, *Outcome]) for _ in told]
        offsets = [self.maybe(self.number()) for _ in told]
        begins, ends = [self.maybe(7) for _ in told], [self.maybe(self.number()) for _ in told]
        error = self.choose.choice([None, "_TIMED_OUT", "NOT_LEADER"])
        timed = self.choose.random() < 0.7
        times = (begins, ends) if timed else (None, None)
        self.journal.complete_sends(op, outcome, at, error, statuses, offsets, *times)
        expected.row.update(type=outcome, complete_ns=at, error=error)
        for send, status, offset, begin, end in zip(told, statuses, offsets, begins, ends, strict=True):
            send["offset"] = offset
            send["status"] = status or Outcome.INFO
            send["complete_ns"] = at if status else None
            if timed:
                send["invoke_ns"] = send["invoke_ns"] if begin is None else begin
                send["complete_ns"] = send["complete_ns"] if end is None else end

    def begin_poll(self, process: int) -> tuple[int, Expected]:
        at, isolation = self.number(), self.choose.choice(list(Isolation))
        op = self.journal.invoke_poll(process, 0, isolation, Phase.MAIN, at)
        row = {"f": F.POLL, "instance": 0, "phase": Phase.MAIN, "invoke_ns": at, "isolation": isolation}
        return op, Expected((0, 0, 0), row)

    def end_poll(self, op: int, expected: Expected) -> None:
        at, outcome, count = self.number(), self.choose.choice(list(Outcome)), self.choose.randrange(4)
        keys, offsets = [self.number() for _ in range(count)], [self.number() for _ in range(count)]
        values = [self.maybe(self.number()) for _ in range(count)]
        defects = [None if value is not None else Defect.CHECKSUM for value in values]
        self.journal.complete_poll(op, outcome, at, None, keys, offsets, values, defects)
        expected.row.update(type=outcome, complete_ns=at)
        expected.mops = [
            {"kind": Kind.POLL, "key": key, "offset": offset, "value": value, "defect": defect, "mop": 0,
             "pos": pos, "invoke_ns": expected.row["invoke_ns"], "complete_ns": at}
            for pos, (key, offset, value, defect) in enumerate(zip(keys, offsets, values, defects, strict=True))
        ]  # fmt: skip

    def begin_txn(self, process: int) -> tuple[int, Expected]:
        at, txn_id = self.number(), f"txn-{process}"
        sends: list[Row] = [
            {"kind": Kind.SEND, "key": self.number(), "value": self.number(), "mop": 2 * place, "pos": 0}
            for place in range(self.choose.randrange(4))
        ]
        asked = tuple(Step(**send) for send in sends)
        op = self.journal.invoke(Invocation(process, 3, F.TXN, at, producer=1, acks=-1, txn_id=txn_id, steps=asked))
        row = {"f": F.TXN, "instance": 3, "acks": -1, "phase": Phase.MAIN, "invoke_ns": at, "txn_id": txn_id}
        mops = [{**send, "status": Outcome.INFO, "producer": 1, "invoke_ns": at} for send in sends]
        return op, Expected((0, 0, 0), row, mops)

    def end_any(self, op: int, expected: Expected) -> None:
        at, outcome = self.number(), self.choose.choice(list(Outcome))
        told: list[Step] = []
        for mop in expected.mops:
            mop["offset"], mop["complete_ns"] = self.number(), at
            if mop["kind"] is Kind.SEND:
                mop["status"] = self.choose.choice(list(Outcome))
            told.append(Step(mop["kind"], mop["key"], mop["value"], mop["offset"], mop.get("status"), mop=mop["mop"]))
        if expected.row["f"] == F.TXN:
            polls = [Step(Kind.POLL, self.number(), 1, 2, mop=1, pos=pos, invoke_ns=9) for pos in range(2)]
            told[1:1] = polls
            for poll in polls:
                row = {"kind": poll.kind, "key": poll.key, "value": 1, "offset": 2, "mop": 1, "pos": poll.pos}
                expected.mops.append({**row, "invoke_ns": 9, "complete_ns": at})
        self.journal.complete(op, Completion(outcome, at, steps=tuple(told)))
        expected.row.update(type=outcome, complete_ns=at)

    def begin_assign(self, process: int) -> tuple[int, Expected]:
        at, keys = self.number(), range(self.choose.randrange(3))
        steps = tuple(Step(Kind.SEEK, key) for key in keys)
        op = self.journal.invoke(Invocation(process, 0, F.ASSIGN, at, steps=steps))
        row = {"f": F.ASSIGN, "instance": 0, "phase": Phase.MAIN, "invoke_ns": at}
        seek = {"kind": Kind.SEEK, "pos": 0, "invoke_ns": at, "value": None}
        return op, Expected((0, 0, 0), row, [{**seek, "key": key, "mop": key} for key in keys])


REPEATED = ("process", "worker", "f", "type", "phase", "isolation", "commit_ns")


def present(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


@pytest.mark.parametrize("tiny", [False, True], ids=["one batch", "many batches"])
def test_a_history_is_what_the_model_says(tiny: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if tiny:
        monkeypatch.setattr(seal_index, "RUN_ROWS", 3)
        monkeypatch.setattr(seal_index, "MERGE_ROWS", 4)
        monkeypatch.setattr(seal_index, "MIN_BLOCK_ROWS", 1)
        monkeypatch.setattr(sealing, "BATCH_BYTES", 500)
        monkeypatch.setattr(journal_reader, "CHUNK_BYTES", 200)
    prop()


@settings(max_examples=60, deadline=None)
@given(
    choose=st.randoms(use_true_random=False),
    length=st.integers(0, 80),
    workers=st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True),
)
def prop(choose: random.Random, length: int, workers: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal_dir, out = Path(folder) / "journal", Path(folder) / "history"
        journal_dir.mkdir()
        models = [
            Model(JournalWriter(journal_dir / f"{place}.journal", "run", worker, 0), worker, choose)
            for place, worker in enumerate(workers)
        ]
        for _ in range(length):
            choose.choice(models).step()
        for model in models:
            model.journal.close()
        meta = seal(journal_dir, out, META)
        expected = sorted((op for model in models for op in model.done), key=lambda op: op.order)
        ops, mops = rows(out, "ops"), rows(out, "mops")
        assert [present(row) for row in ops] == [present({"op": n, **e.row}) for n, e in enumerate(expected)]
        expected_mops = [
            present({"op": n, **{name: e.row.get(name) for name in REPEATED}, **mop})
            for n, e in enumerate(expected)
            for mop in sorted(e.mops, key=lambda mop: (mop["mop"], mop["pos"]))
        ]
        assert [present(row) for row in mops] == expected_mops
        assert meta.counts["ops"] == len(ops)
        assert not (out / ".sealing").exists()


def journal_in(folder: Path, worker: int = 0, run_id: str = "run") -> JournalWriter:
    (folder / "journal").mkdir(exist_ok=True)
    return JournalWriter(folder / "journal" / f"w{worker}.journal", run_id, worker, 0)


def send(journal: JournalWriter, process: int, at: int = 0) -> int:
    return journal.invoke_sends(process, 0, 0, 1, Phase.MAIN, at, [0], [at])


def ok(journal: JournalWriter, op: int) -> None:
    journal.complete_sends(op, Outcome.OK, 5, None, [Outcome.OK], [1])


def twice(journal: JournalWriter) -> int:
    op = send(journal, 1)
    ok(journal, op)
    at = journal._size
    ok(journal, op)
    return at


def unknown(journal: JournalWriter) -> int:
    at = journal._size
    ok(journal, 0)
    send(journal, 1)
    return at


def unknown_commit(journal: JournalWriter) -> int:
    send(journal, 1)
    at = journal._size
    journal.commit_requested(4, 5)
    return at


def two_at_a_time(journal: JournalWriter) -> int:
    ok(journal, send(journal, 1))
    send(journal, 1)
    send(journal, 2)
    at = journal._size
    send(journal, 1)
    return at


def more_sends(journal: JournalWriter) -> int:
    op = send(journal, 1)
    at = journal._size
    journal.complete_sends(op, Outcome.OK, 5, None, [Outcome.OK] * 2, [1, 2])
    return at


def other_value(journal: JournalWriter) -> int:
    op = send(journal, 1, at=3)
    at = journal._size
    journal.complete(op, Completion(Outcome.OK, 5, steps=(Step(Kind.SEND, 0, 4, 1, Outcome.OK),)))
    return at


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (twice, "operation 0 completes a second time"),
        (unknown, "completion of unknown operation 0"),
        (unknown_commit, "commit of unknown operation 4"),
        (two_at_a_time, "process 1 begins operation 3 while its operation 1 is open"),
        (more_sends, "more sends than its invocation"),
        (other_value, "value 4 where 3 was sent"),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [64, 1 << 20])
def test_a_recording_that_contradicts_itself_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[JournalWriter], int],
    message: str,
    chunk_bytes: int,
) -> None:
    monkeypatch.setattr(journal_reader, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(seal_index, "RUN_ROWS", 2 if chunk_bytes == 64 else 1000)
    with journal_in(tmp_path) as journal:
        at = write(journal)
    with pytest.raises(HistoryError, match=re.escape("w0.journal: byte " + str(at)) + ".*" + message):
        seal(tmp_path / "journal", tmp_path / "history", META)
    assert not (tmp_path / "history" / "meta.json").exists()


def test_journals_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no journal"):
        seal(tmp_path / "journal", tmp_path / "history", META)
    for worker in (0, 1):
        with journal_in(tmp_path, worker) as journal:
            send(journal, 7)
    with pytest.raises(HistoryError, match=r"w1\.journal: process 7 is also in w0\.journal"):
        seal(tmp_path / "journal", tmp_path / "history", META)
    journal_in(tmp_path, 2, run_id="other").close()
    with pytest.raises(HistoryError, match=r"w2\.journal: the journal of run 'other'"):
        seal(tmp_path / "journal", tmp_path / "history", META)


def test_a_deleted_topic_takes_the_key_of_an_open_send(tmp_path: Path) -> None:
    with journal_in(tmp_path) as journal:
        op = send(journal, 1)
        journal.complete(op, Completion(Outcome.INFO, 5, steps=(Step(Kind.SEND, -1, 0),)))
    seal(tmp_path / "journal", tmp_path / "history", META)
    (row,) = rows(tmp_path / "history", "mops")
    assert (row["key"], row["status"], row["complete_ns"]) == (-1, "info", None)


def test_replicas_logs_come_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "_REPLICA_BATCHES", 2)  # a long log takes several frames
    count = 5
    whole = ReplicaLog(
        2, 1, 3, 9,
        np.arange(count), np.arange(count) + 1, np.array([-(2**63), -1, 0, 1, 2**63 - 1]), np.arange(count, dtype=np.int32),
    )  # fmt: skip
    with journal_in(tmp_path) as journal:
        journal.replica(whole)
        journal.replica(whole.cut(0, 0))
    meta = seal(tmp_path / "journal", tmp_path / "history", META)
    assert meta.counts["replicas"] == count + 1
    stored = rows(tmp_path / "history", "replicas")
    assert {(row["broker"], row["key"], row["log_start"], row["high_watermark"]) for row in stored} == {(2, 1, 3, 9)}
    for name in ("offset", "last_offset", "digest", "leader_epoch"):
        assert [row[name] for row in stored] == [*getattr(whole, name).tolist(), None]


def test_half_a_replicas_log_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that was killed in the middle of it: what is missing would look like what the replica lost."""
    monkeypatch.setattr(journals, "_REPLICA_BATCHES", 2)
    count = 5
    offsets = np.arange(count)
    log = ReplicaLog(1, 0, 0, count, offsets, offsets, offsets, np.zeros(count, dtype=np.int32))
    with journal_in(tmp_path) as journal:
        journal.replica(log)
        journal.replica(replace(log, broker=2))
    (file,) = (tmp_path / "journal").iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    meta = seal(tmp_path / "journal", tmp_path / "history", META)
    assert [row["broker"] for row in rows(tmp_path / "history", "replicas")] == [1] * count
    assert meta.counts["replicas"] == count


def test_events_and_scans_are_merged_and_sorted(tmp_path: Path) -> None:
    scanned = CoverageRow(1, Isolation.READ_COMMITTED, complete=False, position=4, reason="cluster")
    with journal_in(tmp_path) as journal:
        journal.event(RecordedEvent("isr", time_ns=30, key=1, isr=(1, 2), detail="shrunk"))
        journal.event(RecordedEvent("leader", time_ns=10, leader=1))
        journal.coverage(scanned)
    more = [RecordedEvent("phase", time_ns=20, detail="final")]
    coverage = [scanned, CoverageRow(0, Isolation.READ_UNCOMMITTED, complete=True, log_start=0)]
    seal(tmp_path / "journal", tmp_path / "history", META, coverage, more)
    events = rows(tmp_path / "history", "events")
    assert [(row["time_ns"], row["kind"], row["isr"]) for row in events] == [
        (10, "leader", None), (20, "phase", None), (30, "isr", [1, 2])
    ]  # fmt: skip
    stored = rows(tmp_path / "history", "coverage")
    assert [(row["key"], row["isolation"], row["complete"]) for row in stored] == [
        (0, "read_uncommitted", True), (1, "read_committed", False)
    ]  # fmt: skip
    other = CoverageRow(1, Isolation.READ_COMMITTED, complete=True)
    with pytest.raises(HistoryError, match="told twice, differently"):
        seal(tmp_path / "journal", tmp_path / "again", META, [other])


PEAK = """
import re, sys
from pathlib import Path
from histories.journal import JournalWriter
from histories.meta import Meta
from histories.schema import Outcome, Phase
from histories.seal import seal
from histories.writer import HistoryWriter
import histories.seal as sealing
folder, count = Path(sys.argv[1]), int(sys.argv[2])
folder.mkdir()
journal = JournalWriter(folder / "w.journal", "run", 0, 0)
journal.invoke_sends(0, 0, 0, 1, Phase.MAIN, 0, [0], [0])  # stays open to the end
for n in range(1, count):
    op = journal.invoke_sends(n % 8 + 1, 0, 0, 1, Phase.MAIN, n, [0], [n])
    journal.complete_sends(op, Outcome.OK, n + 1, None, [Outcome.OK], [n])
peak = 0
real = sealing.batch_tables
def measured(*arguments):
    global peak
    status = Path("/proc/self/status").read_text()
    peak = max(peak, int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]))
    return real(*arguments)
sealing.batch_tables = measured
# Small row groups, of which a table holds one: both histories are far beyond what is held.
sealing.HistoryWriter = lambda out: HistoryWriter(out, rows_per_group=16384)
assert seal(folder, folder / "history", Meta("run", "run", (), {}, ())).counts["ops"] == count
print(peak)
"""


def test_memory_does_not_grow_with_the_history(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        command = [sys.executable, "-c", PEAK, str(tmp_path / str(count)), str(count)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout)

    assert peak(400_000) < 1.4 * peak(100_000)
