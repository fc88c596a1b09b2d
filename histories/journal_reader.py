"""Reads the frames of a journal, in chunks, and tells a torn tail from a damaged file.

A worker that was killed leaves at most one unfinished frame, at the end: reading stops before it, and
``torn_bytes`` says how much was left. A broken frame with a whole one behind it cannot come from a kill, so
it is a HistoryError: to go on behind it, or to stop at it, would both judge a history that did not happen.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from histories import journal_format as layout
from histories.errors import HistoryError
from histories.journal_format import Frame

CHUNK_BYTES: Final = 8 * 1024 * 1024
_SYNC_BYTES: Final = layout.SYNC.to_bytes(4, "little")

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Chunk:
    """Some whole frames of a journal."""

    file_offset: int
    """Of the chunk's first byte."""
    data: Bytes
    places: Places
    """Where each frame begins in ``data``."""
    lengths: Places

    def of(self, frame: Frame) -> Places:
        """Which frames (numbers into ``places``) are of this type."""
        return np.flatnonzero(self.data[self.places + layout.BODY_AT] == frame)

    def document(self, number: int) -> dict[str, Any]:
        """The JSON of a rare frame."""
        start = int(self.places[number])
        stop = start + int(self.lengths[number])
        # The padding is part of the frame; blanks or zeros, it is not part of the document.
        text = self.data[start + layout.PAYLOAD_AT : stop].tobytes().rstrip(b" \0")
        document: dict[str, Any] = json.loads(text)
        return document


@dataclass(frozen=True)
class Header:
    run_id: str
    worker: int
    started_ns: int


class JournalReader:
    """One pass over a journal. ``header`` is None when the worker died before its first frame was whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn_bytes = 0
        self.header = self._read_header()

    def chunks(self) -> Iterator[Chunk]:
        if self.header is None:
            return
        with self.path.open("rb") as file:
            base, carried = 0, b""
            while True:
                fresh = file.read(max(CHUNK_BYTES, len(carried)))
                data = carried + fresh
                places, lengths, stop, broken = _frames_in(data)
                if places:
                    yield _chunk(base, data, places, lengths)
                if broken or (not fresh and stop < len(data)):
                    self._judge_tail(file, base + stop)
                    return
                if not fresh:
                    return
                base, carried = base + stop, data[stop:]

    def _judge_tail(self, file: BinaryIO, broken_at: int) -> None:
        """Accept a broken frame at the end of the file; refuse one that has a whole frame behind it."""
        behind = _next_whole_frame(file, broken_at + 1)
        if behind is not None:
            raise HistoryError(
                f"{self.path}: damaged at byte {broken_at}, with intact records from byte {behind} on; a "
                "kill damages only the end of a journal, so this is the disk or another program. Restore the "
                "file from a copy; without it, this run cannot be judged"
            )
        file.seek(0, 2)
        self.torn_bytes = file.tell() - broken_at

    def _read_header(self) -> Header | None:
        with self.path.open("rb") as file:
            start = file.read(layout.PAYLOAD_AT)
            if len(start) == layout.PAYLOAD_AT and start.startswith(_SYNC_BYTES):
                length = min(layout.HEAD.unpack_from(start)[1], layout.MAX_FRAME)
                start += file.read(max(0, length - len(start)))
            places, lengths, _, _ = _frames_in(start)
            if not places:
                if start and not start.startswith(_SYNC_BYTES[: len(start)]):
                    raise HistoryError(f"{self.path}: not a journal: it does not begin like one")
                self._judge_tail(file, 0)
                return None
        chunk = _chunk(0, start, places[:1], lengths[:1])
        if not len(chunk.of(Frame.HEADER)):
            raise HistoryError(f"{self.path}: not a journal: its first frame is no header")
        document = chunk.document(0)
        if document.get("magic") != layout.MAGIC or document.get("version") != layout.VERSION:
            raise HistoryError(
                f"{self.path}: a journal of version {document.get('version')}; this Tidemark reads version "
                f"{layout.VERSION}. Seal it with the Tidemark that recorded it"
            )
        return Header(str(document["run_id"]), int(document["worker"]), int(document["started_ns"]))


def _chunk(base: int, data: bytes, places: list[int], lengths: list[int]) -> Chunk:
    return Chunk(base, np.frombuffer(data, np.uint8), np.array(places, np.int64), np.array(lengths, np.int64))


def _frames_in(data: bytes) -> tuple[list[int], list[int], int, bool]:
    """Whole frames from the start on: places, lengths, where they stop, whether a broken one stopped them
    (as opposed to the end of the data)."""
    places: list[int] = []
    lengths: list[int] = []
    view = memoryview(data)
    unpack, crc32, sync, head = layout.HEAD.unpack_from, zlib.crc32, layout.SYNC, layout.BODY_AT
    at, end = 0, len(data)
    while at + layout.PAYLOAD_AT <= end:
        found, length, crc = unpack(data, at)
        if found != sync or length < layout.PAYLOAD_AT or length % 8 or length > layout.MAX_FRAME:
            return places, lengths, at, True
        after = at + length
        if after > end:
            break
        if crc32(view[at + head : after], length) != crc:
            return places, lengths, at, True
        places.append(at)
        lengths.append(length)
        at = after
    return places, lengths, at, False


def _next_whole_frame(file: BinaryIO, start: int) -> int | None:
    """The first intact frame at or after a byte of the file."""
    base, carried = start, b""
    file.seek(start)
    while True:
        fresh = file.read(CHUNK_BYTES)
        data = carried + fresh
        at = data.find(_SYNC_BYTES)
        while at >= 0:
            if at + layout.PAYLOAD_AT > len(data):
                break
            _, length, crc = layout.HEAD.unpack_from(data, at)
            if layout.PAYLOAD_AT <= length <= layout.MAX_FRAME:
                frame = data[at : at + length]
                if len(frame) < length:
                    here = file.tell()
                    frame += file.read(length - len(frame))
                    file.seek(here)
                if len(frame) == length and zlib.crc32(frame[layout.BODY_AT :], length) == crc:
                    return base + at
            at = data.find(_SYNC_BYTES, at + 1)
        if not fresh:
            return None
        # A frame's head may lie across the border of two reads.
        keep = len(data) - (at if at >= 0 else max(0, len(data) - len(_SYNC_BYTES) + 1))
        base, carried = base + len(data) - keep, data[len(data) - keep :]
