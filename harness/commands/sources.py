"""What ``check`` and ``explain`` may be given: a run's id, its folder, a sealed history, a Jepsen file."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.commands.synth import JEPSEN_SUFFIXES
from histories.errors import HistoryError
from histories.store import Run, RunStore


@dataclass(frozen=True)
class Source:
    label: str
    """What the person typed."""
    history: Path
    """The folder of the sealed history."""
    run: Run | None = None
    """The run it belongs to, if it belongs to one."""

    def plan_name(self) -> str | None:
        """The name of the run's plan, as stored with it."""
        if self.run is None or not self.run.plan.is_file():
            return None
        try:
            name = tomllib.loads(self.run.plan.read_text(encoding="utf-8")).get("name")
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
            return None
        return None if name is None else str(name)


@contextmanager
def opened(given: str, store: RunStore) -> Iterator[Source]:
    """Find the history that is meant. An imported one is gone afterwards; a run that died is sealed first."""
    kind = _kind(given)
    if kind == stat.S_IFREG:
        with _imported(Path(given)) as folder:
            yield Source(given, folder)
    elif kind == stat.S_IFDIR:
        yield _folder(given, Path(given))
    else:
        yield _folder(given, store.get(given).folder)


def _kind(given: str) -> int | None:
    """A file, a folder, or None: then it may be the id of a run."""
    if not given:
        raise HistoryError("an empty path: expected a run's id or folder, a sealed history or a Jepsen file")
    try:
        kind = stat.S_IFMT(os.stat(given).st_mode)
    except FileNotFoundError:
        if "/" in given:
            raise HistoryError(f"{given}: no such file or folder") from None
        return None
    except OSError as error:
        raise HistoryError(f"{_short(given)}: cannot be read: {error.strerror}") from None
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise HistoryError(f"{given}: neither a file nor a folder")
    return kind


def _short(path: str) -> str:
    return path if len(path) <= 100 else f"{path[:100]}…"


def _folder(label: str, folder: Path) -> Source:
    if not ((folder / "history").is_dir() or (folder / "journal").is_dir()):
        return Source(label, folder)
    run = Run(folder.resolve().name, folder)
    if not run.sealed:
        from histories.seal import seal_leftover

        seal_leftover(folder)
    return Source(label, run.history, run)


@contextmanager
def _imported(path: Path) -> Iterator[Path]:
    if not path.name.endswith(JEPSEN_SUFFIXES):
        raise HistoryError(f"{path}: expected a folder, or a Jepsen history ({', '.join(JEPSEN_SUFFIXES)})")
    from histories.jepsen import import_jepsen  # type: ignore[import-not-found, unused-ignore]

    folder = Path(tempfile.mkdtemp(prefix="tidemark-import-"))
    try:
        try:
            import_jepsen(path, folder / "history")
        except OSError as error:
            raise HistoryError(f"{path}: cannot be imported: {error}") from None
        yield folder / "history"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
