"""The run store: a folder of runs, each a folder of its own.

A run's id says when it began and what it was: ``20261118-135900-default-3fa1``. The folder is made
exclusively, so two runs never share one. ``latest`` is a symlink that is replaced by rename, so it always
leads somewhere. While a run goes on, its ``pid`` file names its process and when that process began,
because process ids are used again.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

import psutil

from histories.errors import HistoryError
from histories.meta import Meta

LATEST: Final = "latest"
_ID: Final = re.compile(r"(\d{8}-\d{6})-(.+)-[0-9a-f]{4}")


def _parsed(run_id: str) -> tuple[datetime, str] | None:
    """When a run began and the name of its plan; None: not the name of a run's folder."""
    match = _ID.fullmatch(run_id)
    if match is None:
        return None
    try:
        return datetime.strptime(match[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC), match[2]
    except ValueError:
        return None


class State(StrEnum):
    RUNNING = "running"
    UNSEALED = "unsealed"
    """Its process died before the journal became a history."""
    SEALED = "sealed"
    JUDGED = "judged"


@dataclass(frozen=True)
class RunSummary:
    id: str
    plan: str
    seed: int | None
    started: datetime
    state: State
    verdict: str | None


@dataclass(frozen=True)
class Run:
    """The folder of one run, and where things are in it."""

    id: str
    folder: Path

    @property
    def plan(self) -> Path:
        return self.folder / "plan.toml"

    @property
    def meta(self) -> Path:
        return self.folder / "meta.json"

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @property
    def history(self) -> Path:
        return self.folder / "history"

    @property
    def schedule(self) -> Path:
        return self.folder / "schedule.json"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def report_html(self) -> Path:
        return self.folder / "report.html"

    @property
    def report_json(self) -> Path:
        return self.folder / "report.json"

    @property
    def junit(self) -> Path:
        return self.folder / "junit.xml"

    @property
    def pid(self) -> Path:
        return self.folder / "pid"

    @property
    def sealed(self) -> bool:
        return (self.history / "meta.json").exists()

    @property
    def running(self) -> int | None:
        """The process that is at work in this folder."""
        try:
            pid, began = self.pid.read_text().split()
            process = psutil.Process(int(pid))
            # A dead process whose parent has not looked yet still has its number.
            alive = abs(process.create_time() - float(began)) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except (OSError, ValueError, psutil.NoSuchProcess):
            return None
        return int(pid) if alive else None

    @property
    def state(self) -> State:
        if self.report_json.exists():
            return State.JUDGED
        if self.running is not None:
            return State.RUNNING
        return State.SEALED if self.sealed else State.UNSEALED

    def claim(self) -> None:
        """Say that this process is at work in the folder, until ``release``."""
        process = psutil.Process()
        unfinished = self.folder / "pid.tmp"
        unfinished.write_text(f"{process.pid} {process.create_time()}\n")
        unfinished.rename(self.pid)

    def release(self) -> None:
        self.pid.unlink(missing_ok=True)

    def drop_journal(self) -> None:
        """Delete the journal, whose records are in the sealed history."""
        if not self.sealed:
            raise HistoryError(f"{self.folder}: not sealed; its journal is all there is of it")
        shutil.rmtree(self.journal, ignore_errors=True)

    def summary(self) -> RunSummary:
        named = _parsed(self.id)
        assert named is not None, "only folders with such names are listed"
        started, plan = named
        return RunSummary(self.id, plan, self._seed(), started, self.state, self._verdict())

    def _seed(self) -> int | None:
        try:
            return Meta.read(self.meta).seed
        except HistoryError:
            return None

    def _verdict(self) -> str | None:
        try:
            report = json.loads(self.report_json.read_text())
        except (OSError, ValueError):
            return None
        verdict = report.get("verdict") if isinstance(report, dict) else None
        return verdict if isinstance(verdict, str) else None


class RunStore:
    def __init__(self, root: Path) -> None:
        self.root = root

    @staticmethod
    def locate(explicit: str | None) -> RunStore:
        """The store that was asked for, else ``TIDEMARK_STORE``, else ``./runs``."""
        return RunStore(Path(explicit or os.environ.get("TIDEMARK_STORE") or "runs"))

    def create(self, plan_name: str, seed: int, now: datetime | None = None) -> Run:
        """A new run, claimed by this process, with a first meta.json that the runner completes."""
        now = (now or datetime.now(UTC)).astimezone(UTC)
        plan = re.sub(r"[^a-z0-9_.]+", "-", Path(plan_name).name.removesuffix(".toml").lower()).strip("-.") or "plan"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            run = self._new(f"{now:%Y%m%d-%H%M%S}-{plan}")
            run.claim()
            run.journal.mkdir()
            run.logs.mkdir()
            started_at = now.isoformat(timespec="seconds")
            Meta(run.id, "run", keys=(), topics={}, producers=(), seed=seed, started_at=started_at).write(run.meta)
            self._point_latest(run.id)
        except OSError as error:
            raise HistoryError(
                f"{self.root}: no run can be stored there: {error.strerror or error}; name a folder that can be "
                "written, by --store DIR or TIDEMARK_STORE"
            ) from None
        return run

    def _new(self, stem: str) -> Run:
        while True:
            run_id = f"{stem}-{secrets.token_hex(2)}"
            run = Run(run_id, self.root / run_id)
            with suppress(FileExistsError):
                run.folder.mkdir()
                return run

    def get(self, name: str) -> Run:
        """By id, by ``latest``, or by the beginning of an id that no other run shares."""
        ids = self._ids()
        if name == LATEST:
            if not ids:
                raise HistoryError(f"{self.root}: no runs yet; make one with: tidemark run")
            target = Path(os.readlink(self.root / LATEST)).name if (self.root / LATEST).is_symlink() else ""
            return self._run(target if target in ids else ids[-1])
        if name in ids:
            return self._run(name)
        matching = [run_id for run_id in ids if name and run_id.startswith(name)]
        if len(matching) == 1:
            return self._run(matching[0])
        if matching:
            raise HistoryError(f"{name!r} is the beginning of {len(matching)} runs: {', '.join(matching[:5])}")
        nearest = difflib.get_close_matches(name, ids, n=3, cutoff=0.3) or ids[-3:]
        hint = f"the nearest are {', '.join(nearest)}" if nearest else "it is empty"
        raise HistoryError(f"no run {name!r} in {self.root}; {hint}")

    def delete(self, name: str) -> None:
        run = self.get(name)
        inside = run.folder.resolve().parent == self.root.resolve()
        if not inside or run.folder.is_symlink():
            raise HistoryError(f"{run.folder}: leads out of the store {self.root}; nothing was deleted")
        if run.running is not None:
            raise HistoryError(f"{run.id}: still running (process {run.running}); end it before deleting it")
        try:
            shutil.rmtree(run.folder)
        except OSError as error:
            raise HistoryError(f"{run.folder}: cannot be deleted: {error.filename}: {error.strerror}") from None
        remaining = self._ids()
        latest = self.root / LATEST
        if latest.is_symlink() and not latest.exists():
            if remaining:
                self._point_latest(remaining[-1])
            else:
                latest.unlink()

    def _run(self, run_id: str) -> Run:
        return Run(run_id, self.root / run_id)

    def _ids(self) -> list[str]:
        try:
            paths = list(self.root.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise HistoryError(
                f"{self.root}: no store of runs: {error.strerror or error}; name another by --store DIR or "
                "TIDEMARK_STORE"
            ) from None
        return sorted(path.name for path in paths if _parsed(path.name) and path.is_dir())

    def _point_latest(self, run_id: str) -> None:
        # A name of its own for each attempt: two runs that begin together must not meet in it.
        unfinished = self.root / f".latest-{secrets.token_hex(8)}"
        unfinished.symlink_to(run_id)
        unfinished.replace(self.root / LATEST)

    def list(self) -> list[RunSummary]:
        """All runs, the newest first. (The last member: below it, its name hides the type.)"""
        return [self._run(run_id).summary() for run_id in reversed(self._ids())]
