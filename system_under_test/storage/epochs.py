"""Leader epochs of a log: which epoch wrote from which offset on (KIP-101, KIP-279).

Entries rise strictly in epoch and in start offset. An epoch ends where the next one starts, the last one at the log's
end. Followers find by it where their log and the leader's part ways.

Every change is on disk (``leader-epoch-checkpoint``, replaced atomically) before it is used. It may be ahead of the
log after a crash: loading a log therefore drops entries at and above its end, and recovery writes those of the
segments it has scanned anew from the batches themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochCache:
    """``store`` is called with all entries after each change; it returns when they would survive a loss of power."""

    def __init__(self, entries: list[EpochEntry], store: Callable[[list[EpochEntry]], None]) -> None:
        self._entries: list[EpochEntry] = []
        for entry in entries:
            _push(self._entries, entry)
        self._store = store

    def assign(self, epoch: int, start_offset: int) -> None:
        """``epoch`` writes from ``start_offset`` on. What is known of later epochs or offsets is thereby wrong."""
        assert epoch >= 0, f"epoch {epoch}"
        assert start_offset >= 0, f"start offset {start_offset} of epoch {epoch}"
        if self._entries:
            last = self._entries[-1]
            if epoch == last.epoch and start_offset >= last.start_offset:
                return
        kept = list(self._entries)
        _push(kept, EpochEntry(epoch, start_offset))
        self._keep(kept)

    def entries(self) -> list[EpochEntry]:
        return list(self._entries)

    def latest_epoch(self) -> int | None:
        return self._entries[-1].epoch if self._entries else None

    def latest_entry(self) -> EpochEntry | None:
        return self._entries[-1] if self._entries else None

    def earliest_entry(self) -> EpochEntry | None:
        return self._entries[0] if self._entries else None

    def previous_epoch(self, epoch: int) -> int | None:
        """The largest known epoch below ``epoch``."""
        return max((each.epoch for each in self._entries if each.epoch < epoch), default=None)

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch that wrote ``offset``, or would write it if it is the log's end."""
        return max((each.epoch for each in self._entries if each.start_offset <= offset), default=None)

    def end_offset_for(
        self, requested_epoch: int, log_end: int, *, claim_requested_epoch: bool = False
    ) -> tuple[int, int]:
        """The largest known epoch that is not above ``requested_epoch``, and the offset where it ends (KIP-279).

        Undefined (-1, -1) when the request is newer than anything known here. A request older than everything known
        is answered with itself and the start of the oldest epoch.

        ``claim_requested_epoch`` answers as brokers did before KIP-279: an epoch that is not known is answered as if
        it were, with the start of the next larger one.
        """
        if requested_epoch == UNDEFINED_EPOCH or not self._entries:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if requested_epoch == self._entries[-1].epoch:
            return requested_epoch, log_end
        floor: EpochEntry | None = None
        for entry in self._entries:
            if entry.epoch > requested_epoch:
                answered = requested_epoch if floor is None or claim_requested_epoch else floor.epoch
                return answered, entry.start_offset
            floor = entry
        return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that start at or above ``end_offset``: the log ends there now."""
        kept = [each for each in self._entries if each.start_offset < end_offset]
        self._keep(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """The log starts at ``start_offset`` now: the epoch that wrote it begins there, older ones are forgotten."""
        below = [each for each in self._entries if each.start_offset <= start_offset]
        if not below:
            return
        above = self._entries[len(below) :]
        self._keep([EpochEntry(below[-1].epoch, start_offset), *above])

    def clear(self) -> None:
        self._keep([])

    def replace_all(self, entries: list[EpochEntry]) -> None:
        """In one write: half of them on disk would look like all."""
        self._keep(entries)

    def _keep(self, kept: list[EpochEntry]) -> None:
        """On disk first: what cannot be written is not known, so that it is written by the next try."""
        if kept != self._entries:
            self._store(list(kept))
            self._entries = kept


def _push(entries: list[EpochEntry], entry: EpochEntry) -> None:
    while entries and (entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset):
        entries.pop()
    entries.append(entry)
