"""A partition's ``.snapshot`` files: its producers as of an offset, in Kafka's format, to be read instead of the log.

``<offset>.snapshot`` is made when a segment begins at this offset and at a clean shutdown. It is written and removed
as a whole, and durably: see "producers" in :mod:`system_under_test.storage.recovery`.

    version (int16, 1)  CRC32C of what follows (uint32)  count (int32)  then per producer:
    id (int64) epoch (int16) last sequence (int32) last offset (int64) offset delta (int32) timestamp (int64)
    coordinator epoch (int32) first offset of the current transaction (int64, -1: none)
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Collection, Iterable

from crc32c import crc32c

from system_under_test.storage.producer_state import SnapshotEntry
from system_under_test.world import Files

_log = logging.getLogger(__name__)

SNAPSHOT_SUFFIX = ".snapshot"
_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_NAME_DIGITS = 20


class CorruptSnapshot(ValueError):
    """A file that is not a whole, valid snapshot."""


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    packed = [_ENTRY.pack(*each) for each in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version}, only {_VERSION} is known")
    body = memoryview(data)[_HEAD.size :]
    if crc32c(body) != crc:
        raise CorruptSnapshot(f"CRC is {crc32c(body)}, the file says {crc}")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes, {count} entries should be there")
    return [SnapshotEntry._make(each) for each in _ENTRY.iter_unpack(body[_COUNT.size :])]


class ProducerSnapshots:
    """The files of one partition."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        stems = (each[: -len(SNAPSHOT_SUFFIX)] for each in files.list(folder) if each.endswith(SNAPSHOT_SUFFIX))
        self.offsets = sorted(int(each) for each in stems if len(each) == _NAME_DIGITS and each.isdigit())

    def path(self, offset: int) -> str:
        return f"{self._folder}/{offset:020d}{SNAPSHOT_SUFFIX}"

    def write(self, offset: int, entries: Iterable[SnapshotEntry]) -> None:
        """Of the producers as of ``offset``, unless it is there."""
        if self.offsets and self.offsets[-1] == offset:
            return
        assert not self.offsets or self.offsets[-1] < offset, f"{self.path(offset)}: there are later ones"
        self._files.write_atomically(self.path(offset), encode_snapshot(entries))
        self.offsets.append(offset)

    def latest(self) -> tuple[int, list[SnapshotEntry]] | None:
        """Offset and content of the last one that is valid; those that are not are removed."""
        while self.offsets:
            offset = self.offsets[-1]
            try:
                return offset, decode_snapshot(self._files.read(self.path(offset)))
            except CorruptSnapshot as problem:
                _log.warning("%s: %s; removed", self.path(offset), problem)
                self.remove_above(offset - 1)
        return None

    def remove_above(self, offset: int) -> None:
        self._remove(lambda each: each > offset)

    def remove_below(self, offset: int) -> None:
        self._remove(lambda each: each < offset)

    def remove_strays(self, bases: Collection[int]) -> None:
        """All but those where a segment begins, and the last one: a clean shutdown's, until the next roll."""
        last = self.offsets[-1] if self.offsets else -1
        self._remove(lambda each: each != last and each not in bases)

    def _remove(self, is_doomed: Callable[[int], bool]) -> None:
        doomed = [each for each in self.offsets if is_doomed(each)]
        if not doomed:
            return
        for each in doomed:
            self._files.remove(self.path(each))
            self.offsets.remove(each)
        # For good: other records may come to lie below the offset of one that comes back.
        self._files.sync_folder(self._folder)
