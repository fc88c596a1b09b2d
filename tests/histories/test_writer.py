from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from histories.errors import HistoryError
from histories.meta import Meta
from histories.schema import EVENTS, OPS, TABLES
from histories.writer import HistoryWriter

META = Meta(run_id="r", origin="synthetic", keys=(), topics={}, producers=())


def ops(first: int, count: int) -> pa.Table:
    return pa.table(
        {
            "op": list(range(first, first + count)),
            "process": [1] * count,
            "worker": [0] * count,
            "instance": [0] * count,
            "f": ["send"] * count,
            "type": ["ok" if n % 2 else "info" for n in range(first, first + count)],
            "invoke_ns": list(range(first, first + count)),
            "phase": ["main"] * count,
        }
    )


def test_small_batches_become_whole_groups_and_parts_in_order(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, rows_per_group=10, rows_per_part=30)
    for start in range(0, 77, 7):
        writer.write("ops", ops(start, 7))
    meta = writer.close(META)
    parts = sorted((tmp_path / "ops").iterdir())
    assert [part.name for part in parts] == [f"part-0000{n}.parquet" for n in range(3)]
    assert [pq.read_metadata(part).num_row_groups for part in parts] == [3, 3, 2]
    rows = [op for part in parts for op in pq.read_table(part).column("op").to_pylist()]
    assert rows == list(range(77))
    assert meta.counts == {"ops": 77, "mops": 0, "coverage": 0, "events": 0, "replicas": 0}
    assert Meta.read(tmp_path / "meta.json") == meta


def test_text_is_dictionary_encoded_text_and_absent_columns_are_null(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path)
    writer.write("ops", ops(0, 100).to_batches()[0])
    writer.write("ops", ops(100, 100))
    writer.close(META)
    file = pq.ParquetFile(tmp_path / "ops" / "part-00000.parquet")
    column = file.metadata.row_group(0).column(OPS.names.index("type"))
    assert column.physical_type == "BYTE_ARRAY"
    assert "RLE_DICTIONARY" in column.encodings
    assert column.is_stats_set
    assert file.schema_arrow == OPS
    assert file.read().column("error").null_count == 200


def test_a_folder_without_meta_is_written_again_and_one_with_it_is_refused(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, rows_per_group=1, rows_per_part=1) as writer:
        writer.write("ops", ops(0, 3))
    assert not (tmp_path / "meta.json").exists()
    HistoryWriter(tmp_path).close(META)
    assert [pq.read_metadata(part).num_rows for part in (tmp_path / "ops").iterdir()] == [0]
    assert {path.name for path in tmp_path.iterdir()} == {*TABLES, "meta.json"}
    with pytest.raises(HistoryError, match="already holds a sealed history"):
        HistoryWriter(tmp_path)


def test_what_does_not_fit_the_schema_is_named(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path)
    with pytest.raises(HistoryError, match="column phase: null where"):
        writer.write("ops", ops(0, 1).drop_columns(["phase"]))
    with pytest.raises(HistoryError, match="unknown column 'colour'"):
        writer.write("ops", ops(0, 1).append_column("colour", pa.array(["red"])))
    with pytest.raises(HistoryError, match="column op: "):
        writer.write("ops", ops(0, 1).set_column(0, "op", pa.array(["x"])))
    with pytest.raises(ValueError, match="no table 'op'"):
        writer.write("op", ops(0, 1))


def test_lists_and_plain_text_of_events(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path)
    row = {"time_ns": 5, "kind": "isr", "isr": [1, 2], "detail": "shrunk"}
    writer.write("events", pa.Table.from_pylist([row], schema=EVENTS))
    writer.close(META)
    stored = pq.read_table(tmp_path / "events").to_pylist()[0]
    assert {name: stored[name] for name in row} == row
