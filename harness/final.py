"""The final scans: after recovery, read everything, twice, up to a record that was written last.

1. A *sentinel*, a plain acks=all record, is written to each key. An attempt that did not succeed is recorded as
   what it was and repeated with a new value, until one is acknowledged or the time is up.
2. Each key is read from its log start to its sentinel by fresh consumers, raw and read_committed. Up to the
   sentinel, not to a watermark: a new leader's high watermark lags, and a position does not pass trailing
   transaction markers.

A scan is complete when one unbroken position ran from the log start to the sentinel. A failed poll ends all
positions of its consumer, so the keys that were not through begin again, under a new process.

What a scan could not finish has a reason. ``cluster``: the key took no sentinel, or no record came although
the scan waited for one. ``scanner``: records were still coming when the time ran out, or we were told to stop.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.clients.base import Batch, ClientError, Consumer, TopicPartition
from harness.clients.registry import SENTINEL, sentinel_producer
from harness.payload import SMALLEST, Decoder, encoder
from harness.workloads.base import Context, Key, Tally
from harness.workloads.log_consumer import decoded
from harness.workloads.log_producer import record_burst
from histories.recorded import Completion, CoverageRow, Invocation, Step
from histories.schema import F, Isolation, Kind, Outcome, Phase

MAX_RECORDS: Final = 1000
POLL_TIMEOUT_S: Final = 0.5
WATERMARK_TIMEOUT_S: Final = 3.0
PAUSE_S: Final = 0.5
SILENCE_S: Final = 5.0
"""A scan that ends incomplete after so long without a record was not served."""
SCANNING_SHARE: Final = 0.5
"""The part of the time that sentinels must leave to the scans."""


class FinalScans:
    """Looks like a logical client of one step, so that a worker can run it."""

    def __init__(self, context: Context, keys: Sequence[Key], deadline_s: float) -> None:
        self.tally = Tally()
        self._context = context
        self._keys = {key.address: key for key in keys}
        self._left_s = context.patience.until(deadline_s)
        self._sentinels_left_s = context.patience.until(deadline_s * (1 - SCANNING_SHARE))

    def step(self) -> bool:
        sentinels = self._write_sentinels()
        scans = [_Scan(self, isolation, sentinels) for isolation in Isolation]
        threads = [threading.Thread(target=scan.run, daemon=True) for scan in scans]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._write_coverage(scans)
        return False

    def close(self) -> None:
        """Everything was closed on the way."""

    def _write_sentinels(self) -> dict[TopicPartition, int]:
        """The acknowledged offset of each key's sentinel."""
        values = self._context.values(0)
        offsets: dict[TopicPartition, int] = {}
        while (missing := [each for each in self._keys if each not in offsets]) and self._sentinels_left_s() > 0:
            offsets.update(self._send(missing, [next(values) for _ in missing]))
            if len(offsets) < len(self._keys):
                self._context.patience.wait(PAUSE_S)
        return offsets

    def _send(self, partitions: list[TopicPartition], values: list[int]) -> dict[TopicPartition, int]:
        """One attempt at the sentinels of these keys, by a process of its own."""
        context = self._context
        process, keys = context.new_process(), [self._keys[each].key for each in partitions]
        producer = context.libraries[0].producer(SENTINEL, f"tidemark-{process}")
        payloads = [
            encoder(context.run_id, process, key, SMALLEST)(value) for key, value in zip(keys, values, strict=True)
        ]
        number = sentinel_producer(context.plan.clients)
        op = context.journal.invoke_sends(
            process, 0, number, SENTINEL.acks, Phase.FINAL, context.now_ns(), keys, values
        )
        burst = producer.send_burst(
            partitions, payloads, context.patience.until(SENTINEL.delivery_timeout_ms / 1000 + 1)
        )
        record_burst(context, op, burst, "abandoned")
        producer.abandon()
        self.tally.operations += 1
        acknowledged = {
            each: offset
            for each, status, offset in zip(partitions, burst.statuses, burst.offsets, strict=True)
            if status is Outcome.OK and offset is not None
        }
        self.tally.acknowledged += len(acknowledged)
        return acknowledged

    def _write_coverage(self, scans: Sequence[_Scan]) -> None:
        raw, committed = (scan.ends for scan in scans)
        for scan in scans:
            for partition, key in self._keys.items():
                self._context.journal.coverage(
                    CoverageRow(
                        key=key.key,
                        isolation=scan.isolation,
                        complete=partition in scan.complete,
                        log_start=scan.log_starts.get(partition),
                        high_watermark=raw.get(partition),
                        last_stable_offset=committed.get(partition),
                        position=scan.positions.get(partition),
                        reason=scan.reason(partition),
                    )
                )


@dataclass
class _Scan:
    """All keys under one isolation, in a thread of its own."""

    scans: FinalScans
    isolation: Isolation
    sentinels: dict[TopicPartition, int]
    complete: set[TopicPartition] = field(default_factory=set)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """The high watermarks or, read committed, the last stable offsets."""
    served_ns: dict[TopicPartition, int] = field(default_factory=dict)
    """When a record of the key came last."""

    def __post_init__(self) -> None:
        self._context = self.scans._context
        self._decoder = Decoder(self._context.run_id)
        self._began_ns = self._context.clock()

    def run(self) -> None:
        # Keys without a sentinel are read along with the others: what they show may be evidence.
        while len(self.complete) < len(self.sentinels) and self.scans._left_s() > 0:
            self._attempt()
            if len(self.complete) < len(self.sentinels):
                self._context.patience.wait(PAUSE_S)

    def reason(self, partition: TopicPartition) -> str | None:
        if partition in self.complete:
            return None
        context = self._context
        silent_ns = context.clock() - self.served_ns.get(partition, self._began_ns)
        if context.patience.stopped or (partition in self.sentinels and silent_ns < SILENCE_S * 1e9):
            return "scanner"
        return "cluster"

    def _attempt(self) -> None:
        """Read the keys that are not through, each from its log start in one position."""
        process = self._context.new_process()
        consumer = self._context.libraries[0].consumer(self.isolation, f"tidemark-{process}")
        try:
            starts = self._starts(consumer)
            if starts:
                self._assign(consumer, process, starts)
                while self._wanted(starts) and self.scans._left_s() > 0 and self._poll(consumer, process):
                    pass
            self._ends(consumer)
        finally:
            consumer.abandon()

    def _wanted(self, starts: dict[TopicPartition, int]) -> bool:
        return any(each in self.sentinels and each not in self.complete for each in starts)

    def _starts(self, consumer: Consumer) -> dict[TopicPartition, int]:
        starts = {}
        for partition in self.scans._keys:
            if partition in self.complete or self.scans._left_s() <= 0:
                continue
            try:
                starts[partition], _ = consumer.watermarks(partition, WATERMARK_TIMEOUT_S)
            except ClientError:
                continue  # not served now: this key's turn comes with the next attempt
        self.log_starts.update(starts)
        self.positions.update(starts)
        return starts

    def _assign(self, consumer: Consumer, process: int, starts: dict[TopicPartition, int]) -> None:
        context = self._context
        steps = tuple(Step(Kind.SEEK, self.scans._keys[each].key, offset=offset) for each, offset in starts.items())
        invocation = Invocation(process, 0, F.ASSIGN, context.now_ns(), Phase.FINAL, self.isolation, steps=steps)
        op = context.journal.invoke(invocation)
        consumer.assign(starts)
        context.journal.complete(op, Completion(Outcome.OK, context.now_ns()))

    def _poll(self, consumer: Consumer, process: int) -> bool:
        """One recorded poll. False: it failed, and with it all positions of this consumer."""
        context = self._context
        op = context.journal.invoke_poll(process, 0, self.isolation, Phase.FINAL, context.now_ns())
        batch = consumer.poll(MAX_RECORDS, POLL_TIMEOUT_S)
        keys, values, defects = decoded(batch, self.scans._keys, self._decoder)
        type_ = Outcome.OK if batch.error is None else Outcome.FAIL
        context.journal.complete_poll(op, type_, context.now_ns(), batch.error, keys, batch.offsets, values, defects)
        self.scans.tally.polled += len(keys)
        self.scans.tally.operations += 1
        if batch.error is not None:
            return False
        self._advance(batch)
        return True

    def _advance(self, batch: Batch) -> None:
        now = self._context.clock()
        reached = dict(zip(batch.sources, batch.offsets, strict=True))
        for partition, offset in reached.items():
            self.positions[partition] = offset + 1
            self.served_ns[partition] = now
            sentinel = self.sentinels.get(partition)
            if sentinel is not None and offset >= sentinel:
                self.complete.add(partition)

    def _ends(self, consumer: Consumer) -> None:
        for partition in self.scans._keys:
            if self.scans._left_s() <= 0:
                return
            try:
                _, self.ends[partition] = consumer.watermarks(partition, WATERMARK_TIMEOUT_S)
            except ClientError:
                continue  # stays unknown
