"""What is counted where ``mops`` and ``ops`` contradict each other: each contradiction alone, and nothing else with it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checkers.agreement import SENTENCES, Agreement, Edge, groups_of
from checkers.narrow import NUMBERS, TEXT
from checkers.scan import chunks, read
from histories.build import HistoryBuilder, Poll, Send
from histories.schema import TABLES
from histories.writer import HistoryWriter

Row = dict[str, Any]
Rows = list[Row]
Change = Callable[[Rows, Rows], object]


def healthy() -> HistoryBuilder:
    """Operations 0 (three sends), 1 (a transaction: send, poll of two), 2 (poll of three), 3 (seek), 4 (unknown send)."""
    b = HistoryBuilder()
    b.worker(1, [1])
    b.burst(process=0, sends=[Send(1, 1, 0), Send(1, 2, 1), Send(1, 3, 2)])
    b.txn(process=1, steps=[Send(1, 4, 3), Poll([(1, 0, 1), (1, 1, 2)])])
    b.poll(process=2, records=[(1, 0, 1), (1, 1, 2), (1, 2, 3)])
    b.assign(3, [1], [0])
    b.send(process=4, key=1, value=5, type="info", at=(1000, None))
    return b


def written(folder: Path, b: HistoryBuilder, change: Change | None = None, rows_per_group: int = 100) -> Path:
    tables = b.tables()
    ops, mops = tables["ops"].to_pylist(), tables["mops"].to_pylist()
    if change is not None:
        change(ops, mops)
    rows = {"ops": ops, "mops": mops}
    with HistoryWriter(folder, rows_per_group=rows_per_group) as writer:
        for name, table in tables.items():
            writer.write(name, pa.Table.from_pylist(rows[name], TABLES[name]) if name in rows else table)
        writer.close(b.meta())
    return folder


def counted(folder: Path, *, imported: bool = False) -> tuple[dict[str, int], list[Edge]]:
    """Of all row groups."""
    agreement = Agreement(groups_of(folder), imported)
    tallies: Counter[str] = Counter()
    edges = []
    for chunk in chunks(folder, "mops"):
        for sequence, table in read(chunk, NUMBERS, TEXT):
            found, edge = agreement.of(sequence, table)
            assert all(found.values()), "what is not there is not mentioned"
            tallies.update(found)
            edges += edge
    return dict(tallies), edges


@pytest.mark.parametrize("rows_per_group", [1, 2, 3, 4, 5, 100])
def test_a_sound_history_has_none_however_it_is_cut(tmp_path: Path, rows_per_group: int) -> None:
    assert counted(written(tmp_path / "h", healthy(), rows_per_group=rows_per_group))[0] == {}


def test_where_row_groups_begin_and_end(tmp_path: Path) -> None:
    _, edges = counted(written(tmp_path / "h", healthy(), rows_per_group=4))
    assert edges == [(0, (0, 0, 0), (1, 0, 0)), (1, (1, 1, 0), (2, 0, 1)), (2, (2, 0, 2), (4, 0, 0))]


def set_step(number: int, **columns: Any) -> Change:
    return lambda _, mops: mops[number].update(columns)


def set_operation(number: int, **columns: Any) -> Change:
    return lambda ops, _: ops[number].update(columns)


def both(*changes: Change) -> Change:
    def change(ops: Rows, mops: Rows) -> None:
        for each in changes:
            each(ops, mops)

    return change


S0, S1, S2, TXN_SEND, TXN_POLL, TXN_POLL_2, P0, P1, P2, SEEK, INFO = range(11)
"""The rows of mops."""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (set_step(S0, invoke_ns=90, complete_ns=90), {}),
        (set_step(S0, invoke_ns=90, complete_ns=89), {"#backwards": 1}),
        (both(set_step(S0, invoke_ns=90, complete_ns=89), set_step(P0, invoke_ns=9, complete_ns=0)), {"#backwards": 2}),
        (set_operation(0, process=9), {"#other:process": 1}),
        (set_operation(1, worker=9), {"#other:worker": 1}),
        (set_operation(2, commit_ns=9), {"#other:commit_ns": 1}),
        (set_operation(3, f="poll"), {"#other:f": 1}),
        (set_operation(4, type="fail"), {"#other:type": 1}),
        (set_operation(4, phase="final"), {"#other:phase": 1}),
        (set_operation(2, isolation="read_uncommitted"), {"#other:isolation": 1}),
        (both(set_operation(0, process=9), set_operation(4, process=9)), {"#other:process": 2}),
        (set_step(S1, process=9), {"#mixed": 2}),
        (set_step(S2, process=9, worker=9), {"#mixed": 1}),
        (set_step(P2, isolation="read_uncommitted"), {"#mixed": 1}),
        (set_step(S1, kind="seek", status=None), {}),
        (set_step(SEEK, kind="send", status="ok", value=9), {"#misplaced": 1}),
        (set_step(SEEK, kind="poll", value=9), {"#misplaced": 1}),
        (set_step(TXN_SEND, kind="poll", status=None), {}),
        (set_step(TXN_POLL, kind="send", status="ok"), {}),
        (set_step(P0, kind="send", status="ok"), {"#misplaced": 1}),
        (set_step(S0, kind="poll", status=None), {"#misplaced": 1}),
        (set_step(S0, defect="checksum"), {"#misplaced": 1}),
        (set_step(SEEK, defect="checksum"), {"#misplaced": 1}),
        (set_step(P0, defect="checksum"), {}),
        (set_step(P0, defect="checksum", value=None), {}),
        (set_step(P0, value=None), {"#unread": 1}),
        (set_step(S0, value=None), {"#wordless": 1}),
        (set_step(TXN_SEND, status=None), {"#wordless": 1}),
        (set_step(TXN_SEND, status=None, value=None), {"#wordless": 1}),
        (set_step(S0, key=-1), {}),
        (set_step(P0, key=-1), {"#keyless": 1}),
        (set_step(P0, key=0), {}),
        (set_step(SEEK, key=-1), {"#keyless": 1}),
        (set_step(S1, mop=0), {"#twice": 1}),
        (set_step(P1, pos=0), {"#twice": 1}),
        (set_step(P1, pos=9), {"#twice": 1}),
        (both(set_step(P1, pos=2), set_step(P2, pos=1)), {"#twice": 1}),
        (both(set_step(S1, mop=2), set_step(S2, mop=1)), {"#twice": 1}),
        (set_step(P1, mop=1, pos=0), {"#twice": 1}),
        (set_step(TXN_POLL, pos=9, mop=0), {}),
        (lambda _, mops: mops.insert(P1, dict(mops[P0])), {"#twice": 1}),
        (lambda _, mops: mops.insert(P0, mops.pop(TXN_POLL)), {"#twice": 1}),
    ],
)
def test_one_contradiction_is_counted_alone(tmp_path: Path, change: Change, expected: dict[str, int]) -> None:
    assert counted(written(tmp_path / "h", healthy(), change))[0] == expected


def test_only_other_harnesses_read_records_without_a_value(tmp_path: Path) -> None:
    folder = written(tmp_path / "h", healthy(), set_step(P0, value=None))
    assert counted(folder) == ({"#unread": 1}, counted(folder)[1])
    assert counted(folder, imported=True)[0] == {}


def operations(*numbers: int) -> Change:
    """Only these are left in ops."""
    return lambda ops, _: ops.__setitem__(slice(None), [ops[each] for each in numbers])


@pytest.mark.parametrize("rows_per_group", [1, 2, 3, 100])
@pytest.mark.parametrize("left", [(0, 1, 2, 3), (1, 2, 3, 4), (0, 2, 3, 4), (0, 1), ()])
def test_steps_of_no_operation(tmp_path: Path, left: tuple[int, ...], rows_per_group: int) -> None:
    """Each operation of which there are steps in a row group counts once."""
    found, _ = counted(written(tmp_path / "h", healthy(), operations(*left), rows_per_group))
    if rows_per_group == 100:
        assert found == {"#lonely": 5 - len(left)}
    else:
        assert set(found) == {"#lonely"}


@pytest.mark.parametrize("order", [(3, 0, 4, 2, 1), (0, 4, 2, 1, 3)])
@pytest.mark.parametrize("rows_per_group", [1, 2, 3, 100])
def test_operations_may_stand_in_any_order(tmp_path: Path, rows_per_group: int, order: tuple[int, ...]) -> None:
    shuffled = operations(*order)
    assert counted(written(tmp_path / "h", healthy(), shuffled, rows_per_group))[0] == {}
    found, _ = counted(written(tmp_path / "g", healthy(), both(set_operation(4, worker=7), shuffled), rows_per_group))
    assert found == {"#other:worker": 1}


def ended(statuses: list[str], outcome: str) -> HistoryBuilder:
    """Operation 1 of three that only send."""
    b = HistoryBuilder()
    b.send(0, 0, 90, 90)
    b.burst(0, [Send(0, n, n if each == "ok" else None, each) for n, each in enumerate(statuses)], outcome)
    b.send(0, 0, 91, 91)
    return b


@pytest.mark.parametrize(
    ("statuses", "outcome", "wrong"),
    [
        (["ok", "ok"], "ok", 0),
        (["ok", "fail"], "ok", 0),
        (["fail", "ok"], "ok", 0),
        (["fail", "fail"], "ok", 1),
        (["ok", "info"], "ok", 1),
        (["ok", "info", "info"], "ok", 1),
        (["fail", "fail"], "fail", 0),
        (["ok", "fail"], "fail", 1),
        (["ok", "info"], "fail", 1),
        (["info", "fail"], "fail", 1),
        (["ok", "ok"], "info", 0),
        (["fail", "fail"], "info", 0),
        (["ok", "info"], "info", 0),
    ],
)
def test_operations_end_as_their_sends_did(tmp_path: Path, statuses: list[str], outcome: str, wrong: int) -> None:
    found, _ = counted(written(tmp_path / "h", ended(statuses, outcome)))
    assert found == ({"#outcome": wrong} if wrong else {})


def test_what_is_no_send_does_not_decide_how_sends_ended(tmp_path: Path) -> None:
    found, _ = counted(written(tmp_path / "h", ended(["ok", "info"], "ok"), set_step(2, kind="poll")))
    assert found == {"#misplaced": 1}


def test_of_an_operation_cut_in_two_nobody_sees_all_sends(tmp_path: Path) -> None:
    first, last = ended(["fail", "ok"], "ok"), ended(["ok", "fail"], "ok")
    assert counted(written(tmp_path / "first", first, rows_per_group=2))[0] == {}
    assert counted(written(tmp_path / "last", last, rows_per_group=2))[0] == {}
    assert counted(written(tmp_path / "none", ended(["fail", "fail"], "ok"), rows_per_group=2))[0] == {}
    assert counted(written(tmp_path / "unknown", ended(["ok", "info"], "ok"), rows_per_group=2))[0] == {"#outcome": 1}


def test_steps_of_transactions_may_end_in_any_way(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.send(0, 0, 90, 90)
    b.txn(0, [Send(0, 1, None, "fail"), Send(0, 2, None, "info")])
    b.send(0, 0, 91, 91)
    assert counted(written(tmp_path / "h", b))[0] == {}


@pytest.mark.parametrize("same", ["inode", "time"])
def test_a_file_that_was_written_anew_is_read_anew(tmp_path: Path, same: str) -> None:
    folder = written(tmp_path / "h", healthy())
    assert counted(folder)[0] == {}
    (part,) = (folder / "ops").glob("*.parquet")
    other = written(tmp_path / "other", healthy(), set_operation(0, process=9)) / "ops" / part.name
    before = part.stat()
    if same == "inode":
        part.write_bytes(other.read_bytes())
        os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
        assert part.stat().st_ino == before.st_ino
    else:
        os.replace(other, part)
        os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert part.stat().st_ino != before.st_ino
    assert counted(folder)[0] == {"#other:process": 1}


def test_nothing_says_nothing(tmp_path: Path) -> None:
    folder = written(tmp_path / "h", healthy())
    ((_, table),) = [each for chunk in chunks(folder, "mops") for each in read(chunk, NUMBERS, TEXT)]
    assert Agreement(groups_of(folder), False).of(0, table.slice(0, 0)) == ({}, [])


def test_every_tally_has_its_sentence() -> None:
    repeated = ("process", "worker", "commit_ns", "f", "type", "phase", "isolation")
    others = ("lonely", "mixed", "outcome", "misplaced", "wordless", "keyless", "unread", "twice")
    assert set(SENTENCES) == {f"#other:{name}" for name in repeated} | {f"#{name}" for name in others}
    assert all("{n}" in each for each in SENTENCES.values())
