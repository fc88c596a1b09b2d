"""The terms that the definitions of the anomalies are made of, in plain Python: sends and their outcome,
committed, reads, log, positions, scans, promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from checkers.promises import PromiseOverride
from histories.meta import ProducerSettings, TopicSettings
from tests.checkers.rows import Coverage, History, Mop

UNKNOWN_KEY = -1
BOUNDARIES = ("seek", "reset", "resume")


@dataclass
class Position:
    """An unbroken stretch of one process's reading of one key."""

    process: int
    key: int
    boundary: Mop | None
    after_failure: bool = False
    records: list[Mop] = field(default_factory=list)

    def start(self, from_beginning: bool) -> int:
        """Where it began to read. The place that a failed operation sought is not where the next one
        reads from: after a failure the client goes back. Where nobody said it, it began at its first record
        for all we know; a consumer of Jepsen's (``from_beginning``) at the beginning of the log."""
        first = self.records[0]
        assert first.offset is not None
        boundary = self.boundary
        if self.after_failure or (boundary is not None and boundary.type != "ok" and boundary.op != first.op):
            return first.offset
        if boundary is None or boundary.offset is None:
            return 0 if from_beginning else first.offset
        return boundary.offset


class Terms:
    def __init__(self, history: History, said: PromiseOverride) -> None:
        self.meta = history.meta
        self.said = said
        self.coverage = history.coverage
        self.mops = sorted(history.mops, key=lambda each: each.place)
        all_sends = [each for each in self.mops if each.kind == "send"]
        self.sends = [each for each in all_sends if each.key != UNKNOWN_KEY]
        self.sent = {(each.key, each.value): each for each in self.sends}
        self.sent_to_unknown = {each.value for each in all_sends if each.key == UNKNOWN_KEY}
        self.polls = [each for each in self.mops if each.kind == "poll" and each.key != UNKNOWN_KEY]
        self.records = [each for each in self.polls if each.defect is None]
        self._reads: dict[tuple[int, int | None], list[Mop]] = {}
        for record in self.records:
            self._reads.setdefault((record.key, record.value), []).append(record)
        self._proven = self._transactions_proven_by_reads()
        self.log = self._make_log()
        self.positions = self._make_positions()

    # Sends

    def outcome(self, send: Mop) -> str:
        """In a transaction the operation decides. Without acks nobody knows, whatever was recorded."""
        if self.has_no_acks(send):
            return "info"
        if send.f == "txn":
            return send.type
        return send.status or "info"

    def is_committed(self, send: Mop) -> bool:
        outcome = self.outcome(send)
        if outcome == "info":
            return send.op in self._proven if send.f == "txn" else bool(self.reads(send))
        return outcome == "ok"

    def _transactions_proven_by_reads(self) -> set[int]:
        return {send.op for send in self.sends if send.f == "txn" and self.committed_reads(send)}

    def acknowledged_offset(self, send: Mop) -> int | None:
        """Where the broker said it put it. An aborted transaction's acknowledgements are void."""
        if send.status != "ok" or self.has_no_acks(send):
            return None
        if send.f == "txn" and send.type == "fail":
            return None
        return send.offset

    def known_offset(self, send: Mop) -> int | None:
        acknowledged = self.acknowledged_offset(send)
        if acknowledged is not None:
            return acknowledged
        return min((each.offset for each in self.reads(send) if each.offset is not None), default=None)

    def was_sent(self, key: int, value: int | None) -> bool:
        return (key, value) in self.sent or (value is not None and value in self.sent_to_unknown)

    # Reads

    def reads(self, send: Mop) -> list[Mop]:
        return self._reads.get((send.key, send.value), [])

    def committed_reads(self, send: Mop) -> list[Mop]:
        return [each for each in self.reads(send) if each.isolation == "read_committed"]

    def send_of(self, record: Mop) -> Mop | None:
        return self.sent.get((record.key, record.value))

    # The log

    def _make_log(self) -> dict[int, dict[int, set[int | None]]]:
        log: dict[int, dict[int, set[int | None]]] = {}
        for send in self.sends:
            offset = self.acknowledged_offset(send)
            if offset is not None and self.is_committed(send):
                log.setdefault(send.key, {}).setdefault(offset, set()).add(send.value)
        for record in self.records:
            if record.offset is not None:
                log.setdefault(record.key, {}).setdefault(record.offset, set()).add(record.value)
        return log

    def committed_versions(self, key: int) -> set[int]:
        """Offsets that hold at least one committed value."""
        return {
            offset
            for offset, values in self.log[key].items()
            if any((key, each) in self.sent and self.is_committed(self.sent[key, each]) for each in values)
        }

    def firm_versions(self, key: int, committed_only: bool) -> set[int]:
        """Offsets with a value that was read there, or acknowledged there under a promise that it stays."""
        read = [each for each in self.records if each.key == key]
        acknowledged = [
            send
            for send in self.sends
            if send.key == key
            and self.acknowledged_offset(send) is not None
            and self.is_committed(send)
            and self.is_safe(send)
        ]
        if committed_only:
            sent = {each: self.send_of(each) for each in read}
            read = [each for each, send in sent.items() if send is not None and self.is_committed(send)]
        return {each.offset for each in (*read, *acknowledged) if each.offset is not None}

    def polled_at(self, key: int, offset: int) -> set[int | None]:
        return {each.value for each in self.records if (each.key, each.offset) == (key, offset)}

    def acknowledged_at(self, key: int, offset: int) -> list[Mop]:
        return [
            send
            for send in self.sends
            if send.key == key and self.acknowledged_offset(send) == offset and self.is_committed(send)
        ]

    # Positions

    def _make_positions(self) -> list[Position]:
        current: dict[tuple[int, int], Position] = {}
        positions: list[Position] = []
        for each in self.mops:
            stream = (each.process, each.key)
            if each.kind in BOUNDARIES:
                current[stream] = Position(each.process, each.key, each)
                positions.append(current[stream])
            elif each.kind == "poll" and each.defect is None and each.offset is not None:
                position = current.get(stream)
                last = position.records[-1] if position is not None and position.records else None
                after_failure = last is not None and last.op != each.op and last.type != "ok"
                if position is None or after_failure:
                    position = current[stream] = Position(each.process, each.key, None, after_failure)
                    positions.append(position)
                position.records.append(each)
        return [each for each in positions if each.records and each.key != UNKNOWN_KEY]

    # Final scans

    def complete_scans(self, key: int) -> list[Coverage]:
        return [each for each in self.coverage if each.key == key and each.complete]

    def complete_scan(self, key: int, isolation: str) -> Coverage | None:
        return next((each for each in self.complete_scans(key) if each.isolation == isolation), None)

    def scanned(self, key: int, isolation: str) -> set[int | None]:
        return {
            each.value
            for each in self.records
            if each.phase == "final" and each.key == key and (each.isolation or "read_uncommitted") == isolation
        }

    # Times

    def is_before(self, ns: int, worker: int, other_ns: int, other_worker: int) -> bool:
        """Certainly earlier, whatever the two clocks' errors are."""
        if worker == other_worker:
            return ns < other_ns
        errors = self.meta.clock_error_ns
        return other_ns - ns > errors.get(str(worker), 0) + errors.get(str(other_worker), 0)

    # Promises

    def promisers(self, send: Mop | None) -> Sequence[ProducerSettings]:
        """Its producer. Where nobody is known to have sent it, or by which producer: what all of them promise."""
        if send is None or send.producer is None:
            return self.meta.producers
        return [self.meta.producers[send.producer]]

    def has_no_acks(self, send: Mop) -> bool:
        return send.producer is not None and self.meta.producers[send.producer].acks == 0

    def topic(self, key: int) -> TopicSettings:
        return self.meta.topics[self.meta.keys[key].topic]

    def is_compacted(self, key: int) -> bool:
        return "compact" in self.topic(key).cleanup_policy

    def is_kept(self, key: int) -> bool:
        """Neither compacted nor deleted on purpose: what was committed must be there."""
        return not self.is_compacted(key) and not self.meta.keys[key].deleted

    def is_clean(self, key: int) -> bool:
        unclean = self.topic(key).unclean_leader_election if self.said.unclean is None else self.said.unclean
        return not unclean

    def is_safe(self, send: Mop) -> bool:
        acks_all = all(each.acks == -1 for each in self.promisers(send))
        return (acks_all if self.said.safe is None else self.said.safe) and self.is_clean(send.key)

    def is_never_repeated(self, send: Mop | None) -> bool:
        if self.said.idempotent is not None:
            return self.said.idempotent
        return all(each.idempotent or each.retries == 0 for each in self.promisers(send))

    def keeps_order(self, send: Mop) -> bool:
        settings = self.promisers(send)
        if self.said.idempotent or (self.said.idempotent is None and all(each.idempotent for each in settings)):
            return True
        return all(each.max_in_flight == 1 for each in settings)

    @staticmethod
    def offset(each: Mop) -> int:
        assert each.offset is not None
        return each.offset
