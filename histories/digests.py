"""Whether the files of a history are those that were sealed, byte by byte.

A flipped bit inside a page of Parquet decodes to another number without a complaint, and a wrong number may convict
a correct broker. So sealing notes the digest of every file in ``meta.json``, and ``meta.json`` holds one of itself.
Files are compared before anything looks into them. Histories sealed before there were digests have none, and are read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from histories.errors import HistoryError


@dataclass(frozen=True)
class SealedFile:
    """What is known of one file."""

    size: int
    """In bytes."""
    sha256: str


def digest_files(history: Path, parts: Iterable[Path]) -> dict[str, SealedFile]:
    """By the path inside the history."""
    paths = sorted(parts)
    return {str(path.relative_to(history)): each for path, each in zip(paths, _digests(paths), strict=True)}


def check_files(history: Path, sealed: Mapping[str, SealedFile]) -> None:
    """Raises HistoryError for the first file that is another one. One that is missing is for others to miss; one too many
    is for :func:`check_all_sealed`."""
    there = [name for name in sorted(sealed) if (history / name).is_file()]
    for name in there:
        size = (history / name).stat().st_size
        if size != sealed[name].size:
            raise HistoryError(
                f"{history / name}: not a whole Parquet file: it has {size} bytes, but {sealed[name].size} were sealed; "
                "copy it again, or seal or import the history again"
            )
    for name, found in zip(there, _digests([history / each for each in there]), strict=True):
        if found != sealed[name]:
            raise HistoryError(
                f"{history / name}: damaged: its bytes are not those that were sealed (another SHA-256); copy it again, "
                "or seal or import the history again"
            )


def check_all_sealed(history: Path, tables: Iterable[Path], sealed: Mapping[str, SealedFile]) -> None:
    """Raises HistoryError for a part of a table that nobody has a digest of, where the others have one."""
    parts = (part for table in tables for part in sorted(table.glob("*.parquet")))
    for part in parts:
        if sealed and str(part.relative_to(history)) not in sealed:
            raise HistoryError(
                f"{part}: it was not sealed with this history; remove it and copy what is missing again, or seal or import "
                "the history again"
            )


def of_document(document: Mapping[str, Any]) -> str:
    """Of a JSON document, however it is laid out."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _digests(paths: list[Path]) -> list[SealedFile]:
    if not paths:
        return []
    # hashing lets go of the interpreter, so as many files at once as there are cores
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(_digest, paths))


def _digest(path: Path) -> SealedFile:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            return SealedFile(file.tell(), found)
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}") from None
