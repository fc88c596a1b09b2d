"""unavailable-after-heal, from the final scans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from checkers.coverage import unserved
from checkers.explain import Case
from histories.build import HistoryBuilder

RAW, COMMITTED = "read_uncommitted", "read_committed"


def cases(b: HistoryBuilder, folder: Path) -> list[Case]:
    b.send(0, 0, 1, 0)
    meta = b.write(folder)
    return unserved(folder, meta, void=False)


def test_a_key_that_the_cluster_did_not_serve_is_one_case(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.topic("t", 2)
    b.scan(0, [(0, 1)])
    b.scan(1, [(0, 1), (6, 2)], complete=False, reason="cluster")
    assert cases(b, tmp_path / "h") == [Case("unavailable-after-heal", 1, 1, True, key=1, offset=7)]


def test_one_of_two_scans_is_enough(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.scan(0, [(0, 1)], RAW)
    b.scan(0, [], COMMITTED, complete=False, reason="cluster")
    assert [case.key for case in cases(b, tmp_path / "h")] == [0]


def test_a_complete_scan_is_none_whatever_its_reason(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.scan(0, [(0, 1)], reason="cluster")
    assert cases(b, tmp_path / "h") == []


def test_our_own_failure_is_none(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.scan(0, [], complete=False, reason="scanner")
    assert cases(b, tmp_path / "h") == []


def test_a_key_deleted_on_purpose_is_none(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.topic("gone", deleted=True)
    b.scan(0, [], complete=False, reason="cluster")
    b.send(0, 0, 1, 0)
    meta = b.write(tmp_path / "h")
    assert unserved(tmp_path / "h", meta, void=False) == []
    kept = replace(meta, keys=tuple(replace(key, deleted=False) for key in meta.keys))
    assert len(unserved(tmp_path / "h", kept, void=False)) == 1


def test_what_was_destroyed_nobody_can_serve(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.scan(0, [], RAW, complete=False, reason="cluster")
    meta = b.write(tmp_path / "h")
    assert unserved(tmp_path / "h", meta, void=True) == [Case("unavailable-after-heal", 1, 0, False, key=0, offset=0)]
