"""A history's tables in pieces of work."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers import scan
from checkers.load import has_strays, has_transactions


def table(folder: Path, column: str, *files: list[list[int | str]], statistics: bool = True) -> Path:
    folder.mkdir(parents=True)
    for number, groups in enumerate(files):
        schema = pa.schema({column: pa.array(groups[0]).type})
        with pq.ParquetWriter(folder / f"part-{number}.parquet", schema, write_statistics=statistics) as writer:
            for each in groups:
                writer.write_table(pa.table({column: each}))
    return folder.parent


def test_one_row_group_is_one_piece(tmp_path: Path) -> None:
    folder = table(tmp_path / "h" / "mops", "key", [[1], [2]], [[3]])
    pieces = scan.chunks(folder, "mops")
    assert [(each.table, each.sequence, len(each.groups)) for each in pieces] == [("mops", n, 1) for n in range(3)]
    assert read(pieces) == [(0, [1]), (1, [2]), (2, [3])]


def test_only_what_is_wanted(tmp_path: Path) -> None:
    folder = table(tmp_path / "h" / "mops", "key", [[1], [2, 2]], [[3]])
    assert read(scan.chunks(folder, "mops", lambda group: group.num_rows == 1)) == [(0, [1]), (1, [3])]


def test_very_many_are_taken_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MOST_CHUNKS", 2)
    folder = table(tmp_path / "h" / "mops", "key", [[1], [2], [3]], [[4], [5]])
    pieces = scan.chunks(folder, "mops")
    assert [(each.sequence, len(each.groups)) for each in pieces] == [(0, 3), (3, 2)]
    assert read(pieces) == [(0, [1]), (1, [2]), (2, [3]), (3, [4]), (4, [5])]


def test_nothing_is_no_piece(tmp_path: Path) -> None:
    (tmp_path / "mops").mkdir()
    assert scan.chunks(tmp_path, "mops") == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([[["poll", "send"]]], False),
        ([[["poll"], ["txn"]], [["send"]]], True),
        ([[["poll"]], [["send", "txn"], ["send"]]], True),
    ],
)
def test_whether_there_are_transactions(tmp_path: Path, files: list[list[list[int | str]]], expected: bool) -> None:
    assert has_transactions(table(tmp_path / "h" / "ops", "f", *files)) is expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [([[[0, 1]]], False), ([[[0], [-1]], [[0]]], True), ([[[0]], [[5, -1], [0]]], True)],
)
def test_whether_there_are_strays(tmp_path: Path, files: list[list[list[int | str]]], expected: bool) -> None:
    assert has_strays(table(tmp_path / "h" / "mops", "key", *files)) is expected


def test_where_the_files_do_not_say_there_may_be_some(tmp_path: Path) -> None:
    assert has_transactions(table(tmp_path / "h" / "ops", "f", [["send"]], statistics=False))
    assert has_strays(table(tmp_path / "h" / "mops", "key", [[0]], statistics=False))
    nulls = pa.table({"key": pa.array([None], pa.int32())})
    (tmp_path / "n" / "mops").mkdir(parents=True)
    pq.write_table(nulls, tmp_path / "n" / "mops" / "part-0.parquet")
    assert has_strays(tmp_path / "n")


def test_texts_become_their_places() -> None:
    names = ("send", "poll")
    texts = pa.chunked_array([["poll", None], ["send", "poll"]], pa.string()).dictionary_encode()
    assert scan.codes(pa.table({"f": texts}), "f", names).tolist() == [1, scan.ABSENT, 0, 1]
    nothing = pa.table({"f": pa.chunked_array([], pa.dictionary(pa.int32(), pa.string()))})
    assert scan.codes(nothing, "f", names).tolist() == []
    assert scan.ABSENT < 0


def read(pieces: list[scan.Chunk]) -> list[tuple[int, list[int]]]:
    return [
        (number, found.column("key").to_pylist()) for each in pieces for number, found in scan.read(each, ("key",), ())
    ]
