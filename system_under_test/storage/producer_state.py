"""What a partition knows of each idempotent producer, and what follows for its next batch. Pure: no files, no clock.

Per producer id: the epoch, and the last five batches (by their sequences and offsets). A producer numbers its records from 0
in each epoch and sends at most five batches before the first is answered, so a batch that is sent again is one of those
five: it is answered with the offset that it got. The rules are those of Kafka 2.8 to 3.9:

============================================  =================================================================
the same first and last sequence as one of    a duplicate, whatever came after it
the five, in the same epoch
an older epoch                                INVALID_PRODUCER_EPOCH
a newer epoch                                 begins at sequence 0, else OUT_OF_ORDER_SEQUENCE_NUMBER
the next sequence (after 2**31 - 1 comes 0)   accepted
any other                                     OUT_OF_ORDER_SEQUENCE_NUMBER; also what is older than the five, since
                                              Kafka 1.1 (DUPLICATE_SEQUENCE_NUMBER is sent no more)
a producer id of which nothing is known       accepted with any sequence: what was known may have expired, or
                                              gone with its records (KIP-360; UNKNOWN_PRODUCER_ID is sent no more)
============================================  =================================================================

Followers, and a log that is opened, take the leader's batches as they are. A snapshot holds only the last batch of each
producer, as Kafka's do: after a restart an older one that is sent again is refused, not appended twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from system_under_test.protocol.batch import BatchHeader
from system_under_test.protocol.errors import ApiError, ErrorCode

BATCHES_KEPT = 5
NO_SEQUENCE = -1
NO_COORDINATOR_EPOCH = -1
NO_TRANSACTION = -1
_SEQUENCE_MASK = 0x7FFFFFFF


class BatchMetadata(NamedTuple):
    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class SnapshotEntry(NamedTuple):
    """One producer as a snapshot file has it, field by field."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


class ProducerState:
    """One producer in one partition."""

    __slots__ = ("batches", "coordinator_epoch", "current_txn_first_offset", "epoch", "last_timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_KEPT)
        """None between the marker that raised the epoch and the first batch in it."""
        self.last_timestamp = -1
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.current_txn_first_offset = NO_TRANSACTION

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStateManager:
    """All producers of one partition, as of the end of its log."""

    __slots__ = ("_expiration_ms", "_producers")

    def __init__(self, expiration_ms: int) -> None:
        self._expiration_ms = expiration_ms
        self._producers: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def producers(self) -> Mapping[int, ProducerState]:
        return self._producers

    # -- a leader's question -----------------------------------------------------------------------------------------

    def check(self, header: BatchHeader) -> BatchMetadata | None:
        """The batch that this one repeats, or None when it may be appended; an :class:`ApiError` when it may not."""
        state = self._producers.get(header.producer_id)
        if state is None:
            return None
        epoch, first_sequence = header.producer_epoch, header.base_sequence
        if epoch == state.epoch:
            batches = state.batches
            last_sequence = batches[-1].last_sequence if batches else NO_SEQUENCE
            if first_sequence == (last_sequence + 1) & _SEQUENCE_MASK:
                # Nearly always. It cannot be a duplicate too: that would be a window of 2**31 sequences.
                return None
            repeated = header.last_sequence
            for each in batches:
                if each.first_sequence == first_sequence and each.last_sequence == repeated:
                    return each
            raise _out_of_order(header, f"the last was {last_sequence}")
        if epoch < state.epoch:
            raise ApiError(
                ErrorCode.invalid_producer_epoch,
                f"producer {header.producer_id} in epoch {epoch}, its last was {state.epoch}",
            )
        if first_sequence != 0:
            raise _out_of_order(header, f"the first of a new epoch, the last one was {state.epoch}")
        return None

    # -- what was appended -------------------------------------------------------------------------------------------

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """This batch of a producer with an id lies in the log at ``base_offset``."""
        state = self._producers.get(header.producer_id)
        if state is None:
            state = self._producers[header.producer_id] = ProducerState(header.producer_epoch)
        elif state.epoch != header.producer_epoch:
            state.epoch = header.producer_epoch
            state.batches.clear()
        state.last_timestamp = header.max_timestamp
        if header.is_control:
            return  # a transaction's marker raises the epoch; its coordinator's epoch comes with transactions
        delta = header.last_offset_delta
        state.batches.append(
            BatchMetadata(header.base_sequence, header.last_sequence, base_offset + delta, delta, header.max_timestamp)
        )

    def update_all(self, headers: Iterable[BatchHeader]) -> None:
        """Batches as they lie in a log; those without a producer id tell nothing."""
        for header in headers:
            if header.producer_id >= 0:
                self.update(header, header.base_offset)

    def remove_expired(self, now_ms: int) -> list[int]:
        """Forget producers that have been silent for too long; their ids."""
        expired = [each for each, state in self._producers.items() if self._is_expired(_entry(each, state), now_ms)]
        for each in expired:
            del self._producers[each]
        return expired

    def clear(self) -> None:
        self._producers.clear()

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def entries(self) -> Iterator[SnapshotEntry]:
        for producer_id, state in self._producers.items():
            yield _entry(producer_id, state)

    def load(self, entries: Iterable[SnapshotEntry], now_ms: int) -> None:
        """In place of everything known; producers that have expired meanwhile are left out."""
        self._producers.clear()
        for entry in entries:
            if self._is_expired(entry, now_ms):
                continue
            state = self._producers[entry.producer_id] = ProducerState(entry.producer_epoch)
            state.last_timestamp = entry.timestamp
            state.coordinator_epoch = entry.coordinator_epoch
            state.current_txn_first_offset = entry.current_txn_first_offset
            if entry.last_sequence >= 0:
                first = (entry.last_sequence - entry.offset_delta) & _SEQUENCE_MASK
                state.batches.append(
                    BatchMetadata(first, entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
                )

    def _is_expired(self, entry: SnapshotEntry, now_ms: int) -> bool:
        return entry.current_txn_first_offset == NO_TRANSACTION and now_ms - entry.timestamp >= self._expiration_ms


def _entry(producer_id: int, state: ProducerState) -> SnapshotEntry:
    last = state.batches[-1] if state.batches else BatchMetadata(NO_SEQUENCE, NO_SEQUENCE, -1, 0, -1)
    return SnapshotEntry(
        producer_id,
        state.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        state.last_timestamp,
        state.coordinator_epoch,
        state.current_txn_first_offset,
    )


def _out_of_order(header: BatchHeader, why: str) -> ApiError:
    return ApiError(
        ErrorCode.out_of_order_sequence_number,
        f"sequence {header.base_sequence} of producer {header.producer_id} in epoch {header.producer_epoch}: {why}",
    )
