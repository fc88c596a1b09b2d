"""Everything that can be wrong with a history folder is named, with a remedy."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from histories.errors import HistoryError
from histories.journal import JournalWriter
from histories.meta import Meta
from histories.read import open_history
from histories.schema import TABLES, Phase
from histories.seal import seal, seal_leftover
from histories.store import RunStore


@pytest.fixture
def history(tmp_path: Path) -> Path:
    (tmp_path / "journal").mkdir()
    with JournalWriter(tmp_path / "journal" / "0.journal", "run", 0, 0) as journal:
        journal.invoke_sends(1, 0, 0, 1, Phase.MAIN, 5, [0, 1], [10, 11])
    seal(tmp_path / "journal", tmp_path / "history", Meta("run", "run", (), {}, ()))
    return tmp_path / "history"


def rewrite(part: Path, table: pa.Table) -> None:
    pq.write_table(table, part)


def test_a_sealed_history_opens_by_itself_or_by_its_run(history: Path) -> None:
    meta, tables = open_history(history)
    assert meta.counts == {"ops": 1, "mops": 2, "coverage": 0, "events": 0}
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
