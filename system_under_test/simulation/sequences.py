"""What idempotence promises, judged on what was committed and on what replicas know.

The producers of these schedules number from 0 with each new id, and never leave a number out: so the committed batches
of each id have every number once, in order. And every value is made for one send: it is in a log once at most.
"""

from __future__ import annotations

from collections.abc import Iterable

from system_under_test.protocol.batch import BatchHeader, Record
from system_under_test.storage.log import Log
from system_under_test.storage.producer_state import BATCHES_KEPT

_SEQUENCE_MASK = 0x7FFFFFFF


class CommittedSequences:
    """Of one partition."""

    def __init__(self) -> None:
        self._next: dict[tuple[int, int], int] = {}
        self._places: dict[bytes, int] = {}

    def problem(self, header: BatchHeader, records: Iterable[Record]) -> tuple[str, str] | None:
        """The invariant that the next committed batch breaks, and how."""
        for record in records:
            if record.value is not None:
                first = self._places.setdefault(record.value, record.offset)
                if first != record.offset:
                    return "written-once", f"{record.value!r} at {first} and again at {record.offset}"
        if header.producer_id >= 0:
            key = header.producer_id, header.producer_epoch
            expected = self._next.get(key, 0)
            if header.base_sequence != expected:
                return (
                    "sequences-without-gaps",
                    f"producer {header.producer_id} has {header.base_sequence} at {header.base_offset}, not {expected}",
                )
            self._next[key] = (header.last_sequence + 1) & _SEQUENCE_MASK
        return None


def misknown(log: Log) -> str | None:
    """What a replica knows of a producer otherwise than its batches say; None: nothing. It knows the last batch at
    least, and no more than the last five; of its own log, from the first record on."""
    said: dict[int, list[BatchHeader]] = {}
    for header in log.headers():
        if header.producer_id >= 0:
            said.setdefault(header.producer_id, []).append(header)
    known = log.producers.producers
    if said.keys() != known.keys():
        return f"producers {sorted(known)} are known, {sorted(said)} have written"
    for producer_id, state in known.items():
        last = said[producer_id][-BATCHES_KEPT:]
        batches = [(each.base_sequence, each.last_sequence, each.base_offset) for each in last]
        found = [(each.first_sequence, each.last_sequence, each.first_offset) for each in state.batches]
        if not found or found != batches[-len(found) :] or state.epoch != last[-1].producer_epoch:
            return f"of producer {producer_id} it knows {found} in epoch {state.epoch}, it has {batches}"
    return None
