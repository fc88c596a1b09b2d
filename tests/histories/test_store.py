from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from histories.errors import HistoryError
from histories.meta import Meta
from histories.store import RunStore, State

NOON = datetime(2026, 11, 18, 12, 0, 0, tzinfo=UTC)
LATER = datetime(2026, 11, 18, 13, 59, 0, tzinfo=UTC)


def test_where_the_store_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEMARK_STORE", raising=False)
    assert RunStore.locate(None).root == Path("runs")
    monkeypatch.setenv("TIDEMARK_STORE", "/from/environment")
    assert RunStore.locate(None).root == Path("/from/environment")
    assert RunStore.locate("/asked/for").root == Path("/asked/for")


def test_ids_never_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: Iterator[str] = iter(["aaaa", "x1", "aaaa", "bbbb", "x2"])
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(tokens))
    store = RunStore(tmp_path / "store")
    first, second = store.create("Default plan.toml", 1, NOON), store.create("Default plan.toml", 1, NOON)
    assert first.id == "20261118-120000-default-plan-aaaa"
    assert second.id == "20261118-120000-default-plan-bbbb"
    assert Meta.read(second.meta).run_id == second.id


def test_listing_follows_a_run_through_its_life(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    assert store.list() == []
    run = store.create("default", 42, NOON)
    (summary,) = store.list()
    assert (summary.id, summary.plan, summary.seed, summary.started) == (run.id, "default", 42, NOON)
    assert (summary.state, summary.verdict) == (State.RUNNING, None)
    run.release()
    assert store.list()[0].state == State.UNSEALED
    with pytest.raises(HistoryError, match="not sealed"):
        run.drop_journal()
    run.history.mkdir()
    Meta(run.id, "run", (), {}, ()).write(run.history / "meta.json")
    assert store.list()[0].state == State.SEALED
    run.drop_journal()
    assert not run.journal.exists()
    run.report_json.write_text(json.dumps({"verdict": "invalid"}))
    assert [(each.state, each.verdict) for each in store.list()] == [(State.JUDGED, "invalid")]
    newer = store.create("other", 43, LATER)
    assert [each.id for each in store.list()] == [newer.id, run.id]


def test_a_pid_of_a_dead_or_another_process_is_not_running(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("default", 1, NOON)
    claimed_by = run.running
    assert claimed_by == os.getpid()
    run.pid.write_text(f"{os.getpid()} 12345.0\n")
    assert run.running is None
    command = [sys.executable, "-c", "import os; print(os.getpid())"]
    ended = subprocess.run(command, capture_output=True, check=True)
    run.pid.write_text(f"{int(ended.stdout)} 12345.0\n")
    assert run.running is None


def test_get_by_id_latest_and_prefix(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    with pytest.raises(HistoryError, match="no runs yet"):
        store.get("latest")
    older, newer = store.create("default", 1, NOON), store.create("quick", 1, LATER)
    assert store.get(older.id) == older
    assert store.get("latest") == newer
    assert (tmp_path / "latest").resolve() == newer.folder.resolve()
    assert store.get("20261118-12") == older
    with pytest.raises(HistoryError, match="beginning of 2 runs"):
        store.get("2026")
    with pytest.raises(HistoryError, match=f"no run '20261118-120000-defualt'.*{older.id}"):
        store.get("20261118-120000-defualt")
    for outside in ("", "..", "../x", "/etc"):
        with pytest.raises(HistoryError, match="no run"):
            store.get(outside)


def test_delete(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "store")
    older, newer = store.create("default", 1, NOON), store.create("default", 1, LATER)
    with pytest.raises(HistoryError, match="still running"):
        store.delete("latest")
    assert newer.folder.exists()
    newer.release()
    store.delete(newer.id)
    assert not newer.folder.exists()
    assert store.get("latest") == older
    assert (store.root / "latest").resolve() == older.folder.resolve()
    older.release()
    store.delete(older.id)
    assert list(store.root.iterdir()) == []


def test_delete_does_not_follow_a_link_out_of_the_store(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    store = RunStore(tmp_path / "store")
    store.create("default", 1, NOON)
    link = store.root / "20261118-130000-default-abcd"
    link.symlink_to(precious)
    with pytest.raises(HistoryError, match="leads out of the store"):
        store.delete(link.name)
    assert precious.exists()
