"""Everything that can be wrong with a history folder is named, with a remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from histories.errors import HistoryError
from histories.journal import JournalWriter
from histories.meta import KeyInfo, Meta, ProducerSettings, TopicSettings
from histories.read import open_history
from histories.recorded import CoverageRow
from histories.schema import TABLES, Isolation, Phase
from histories.seal import seal, seal_leftover
from histories.store import RunStore
from tests.histories.damage import forget_digests

META = Meta(
    "run",
    "run",
    keys=(KeyInfo("t", 0), KeyInfo("t", 1)),
    topics={"t": TopicSettings(2, 3, 2)},
    producers=(ProducerSettings(-1, True, 3, 5),),
)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    (tmp_path / "journal").mkdir()
    with JournalWriter(tmp_path / "journal" / "0.journal", "run", 0, 0) as journal:
        journal.invoke_sends(1, 0, 0, 1, Phase.MAIN, 5, [0, 1], [10, 11])
        journal.coverage(CoverageRow(0, Isolation.READ_COMMITTED, complete=False, reason="cluster"))
    seal(tmp_path / "journal", tmp_path / "history", META)
    return tmp_path / "history"


def rewrite(part: Path, table: pa.Table) -> None:
    pq.write_table(table, part)
    forget_digests(part.parent.parent)


def test_a_sealed_history_opens_by_itself_or_by_its_run(history: Path) -> None:
    meta, tables = open_history(history)
    assert meta.counts == {"ops": 1, "mops": 2, "coverage": 1, "events": 0, "replicas": 0}
    assert tables == {name: history / name for name in TABLES}
    assert open_history(history.parent) == (meta, tables)


def test_plain_strings_and_further_columns_are_let_through(history: Path) -> None:
    part = history / "ops" / "part-00000.parquet"
    table = pq.read_table(part, read_dictionary=[])
    plain = pa.schema(
        [
            pa.field(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
            for field in table.schema
        ]
    )
    rewrite(part, table.cast(plain).append_column("further", pa.array([1])))
    open_history(history)


def test_columns_are_checked(history: Path) -> None:
    part = history / "mops" / "part-00000.parquet"
    table = pq.read_table(part)
    rewrite(part, table.drop_columns(["status"]))
    with pytest.raises(HistoryError, match=r"mops/part-00000\.parquet: column status is missing; expected string"):
        open_history(history)
    place = table.column_names.index("value")
    rewrite(part, table.set_column(place, "value", table.column("value").cast(pa.float64())))
    with pytest.raises(HistoryError, match=r"column value has type double; expected int64: seal or import"):
        open_history(history)


def test_files_are_checked(history: Path) -> None:
    part = history / "events" / "part-00000.parquet"
    whole = part.read_bytes()
    for size in (0, 3, len(whole) // 2, len(whole) - 1):
        part.write_bytes(whole[:size])
        with pytest.raises(HistoryError, match=r"events/part-00000\.parquet: not a whole Parquet file"):
            open_history(history)
    part.unlink()
    with pytest.raises(HistoryError, match="events: no Parquet file"):
        open_history(history)
    part.parent.rmdir()
    with pytest.raises(HistoryError, match="events: this table is missing"):
        open_history(history)


def test_a_lost_part_is_noticed(history: Path) -> None:
    part = history / "ops" / "part-00000.parquet"
    rewrite(part, pq.read_table(part).slice(0, 0))
    with pytest.raises(HistoryError, match="ops: 0 rows, but 1 were sealed"):
        open_history(history)


def test_folders_that_are_no_history(tmp_path: Path, history: Path) -> None:
    with pytest.raises(HistoryError, match="no such folder"):
        open_history(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(HistoryError, match="the folder is empty"):
        open_history(tmp_path / "empty")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("hello")
    with pytest.raises(HistoryError, match="not a history"):
        open_history(tmp_path / "other")
    (history / "meta.json").unlink()
    with pytest.raises(HistoryError, match=r"tables without meta\.json"):
        open_history(history)


def test_a_run_that_died_is_sealed_from_what_it_left(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("default", 42)
    replace(META, run_id=run.id, seed=42).write(run.meta)
    with JournalWriter(run.journal / "0.journal", run.id, 0, 0) as journal:
        journal.invoke_sends(1, 0, 0, 1, Phase.MAIN, 5, [0, 1], [10, 11])
    with pytest.raises(HistoryError, match=f"never sealed.*tidemark check .*{run.id}"):
        open_history(run.folder)
    with pytest.raises(HistoryError, match="still running"):
        seal_leftover(run.folder)
    run.release()
    meta = seal_leftover(run.folder)
    assert (meta.interrupted, meta.seed, meta.counts["ops"]) == (True, 42, 1)
    assert open_history(run.folder)[0] == meta
    assert seal_leftover(run.folder) == meta


def column(name: str, values: Any) -> Callable[[pa.Table], pa.Table]:
    """Replaces a column; ``values`` is one value for all rows."""

    def change(table: pa.Table) -> pa.Table:
        kind = pa.string() if isinstance(values, str) else table.schema.field(name).type
        place = table.column_names.index(name)
        return table.set_column(place, name, pa.array([values] * table.num_rows, kind))

    return change


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("mops", column("status", "okay"), "column status: unknown name 'okay'; expected one of ok, fail, info"),
        ("mops", column("type", "gut"), "column type: unknown name 'gut'"),
        ("mops", column("kind", "posted"), "column kind: unknown name 'posted'; expected one of send, poll"),
        ("mops", column("phase", "middle"), "column phase: unknown name 'middle'"),
        ("ops", column("f", "jump"), "column f: unknown name 'jump'"),
        ("coverage", column("isolation", "dirty"), "column isolation: unknown name 'dirty'"),
        ("mops", column("key", 2), "column key: 2 is out of range; there are 2 keys"),
        ("mops", column("key", -2), "column key: -2 is out of range"),
        ("mops", column("key", None), "column key: 2 rows have none"),
        ("mops", column("op", 1), "column op: 1 is out of range; there are 1 operations"),
        ("mops", column("producer", 1), "column producer: 1 is out of range; there are 1 producers"),
        ("mops", column("producer", -1), "column producer: -1 is out of range"),
        ("mops", column("offset", -5), "column offset: -5 is out of range"),
        ("mops", column("offset", 1 << 44), "column offset: 17592186044416 is out of range"),
        ("mops", column("pos", -1), "column pos: -1 is out of range"),
        ("mops", column("mop", -1), "column mop: -1 is out of range"),
        ("mops", column("worker", -1), "column worker: -1 is out of range"),
        ("ops", column("process", -1), "column process: -1 is out of range"),
        ("coverage", column("key", 5), "column key: 5 is out of range"),
        ("coverage", column("key", -1), "column key: -1 is out of range"),
        ("coverage", column("reason", "weather"), "column reason of key 0, read_committed: 'weather' says not why"),
        ("coverage", lambda each: pa.concat_tables([each, each]), "key 0, read_committed, is there twice"),
    ],
)
@pytest.mark.parametrize("dictionaries", [True, False])
def test_a_column_that_holds_what_it_cannot_is_refused(
    history: Path, table: str, change: Callable[[pa.Table], pa.Table], message: str, dictionaries: bool
) -> None:
    part = history / table / "part-00000.parquet"
    changed = change(pq.read_table(part))
    pq.write_table(changed, part, use_dictionary=dictionaries)
    forget_digests(history)
    meta = json.loads((history / "meta.json").read_text())
    meta["counts"][table] = changed.num_rows
    (history / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(HistoryError, match=rf"{table}.*{message}"):
        open_history(history)
