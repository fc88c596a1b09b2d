"""A logical consumer of the workload *log*; see :mod:`harness.workloads.log` for what it does."""

from __future__ import annotations

from enum import Enum
from typing import Final

from harness.clients.base import Batch, ClientError, Consumer, TopicPartition
from harness.payload import Decoder
from harness.workloads.base import Context, CrashClock, Key, Tally
from histories.recorded import Completion, Invocation, Step
from histories.schema import Defect, F, Isolation, Kind, Outcome, Phase

MAX_RECORDS: Final = 500
POLL_TIMEOUT_S: Final = 0.25
WATERMARK_TIMEOUT_S: Final = 2.0
RETRY_PAUSE_S: Final = 0.2
REASSIGN_EVERY_S: Final = 5.0
"""Mean time that an assignment lasts."""
FAILED_POLLS: Final = 5


class Start(Enum):
    LOG_START = "from the log start"
    END = "from the present end"
    LEFT = "where this logical consumer left the key; from the log start if it never had it"


class LogConsumer:
    def __init__(self, context: Context, slot: int, library: int, isolation: Isolation) -> None:
        self.tally = Tally()
        self._context = context
        self._library = library
        self._isolation = isolation
        self._rng = context.random(f"consumer-{slot}")
        self._decoder = Decoder(context.run_id)
        self._crash = CrashClock(context.plan.clients.crash_every_s, self._rng, context.clock)
        self._client: Consumer | None = None
        self._process = -1
        self._keys = context.keys.by_partition
        self._positions: dict[TopicPartition, int] = {}
        """Where the next record of each assigned key is expected."""
        self._left: dict[TopicPartition, int] = {}
        self._reassign_ns = 0.0
        self._failures = 0

    def step(self) -> bool:
        if self._client is None and not self._renew():
            return True
        if self._crash.due():
            self._record_crash()
        elif not self._positions or self._context.clock() >= self._reassign_ns:
            self._assign_anew()
        else:
            self._poll()
        return not self._context.patience.stopped

    def close(self) -> None:
        self._drop()

    def _renew(self) -> bool:
        process = self._context.new_process()
        library = self._context.libraries[self._library]
        try:
            self._client = library.consumer(self._isolation, f"tidemark-{process}")
        except ClientError:
            self._context.patience.wait(RETRY_PAUSE_S)
            return False
        self._process = process
        return True

    def _drop(self) -> None:
        """End the process: what follows is a new one with a new assignment."""
        self._left.update(self._positions)
        self._positions, self._failures = {}, 0
        client, self._client = self._client, None
        if client is not None:
            client.abandon()

    def _record_crash(self) -> None:
        op = self._invoke(F.CRASH, ())
        self._drop()
        self._context.journal.complete(op, Completion(Outcome.OK, self._context.now_ns()))

    def _assign_anew(self) -> None:
        rng = self._rng
        keys = self._context.keys.readable()
        chosen = rng.sample(keys, rng.randint(1, len(keys)))
        start = rng.choices(tuple(Start), (1, 1, 2))[0]
        self._left.update(self._positions)
        partitions = [key.address for key in chosen]
        self._move({each: self._start_of(each, start) for each in partitions}, ())
        self._reassign_ns = self._context.clock() + rng.expovariate(1 / REASSIGN_EVERY_S) * 1e9

    def _start_of(self, partition: TopicPartition, start: Start) -> int:
        if start is Start.LEFT and partition in self._left:
            return self._left[partition]
        log_start, end = self._watermarks(partition)
        return end if start is Start.END else log_start

    def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        """Where nobody answers, the first offset of any log: if it is gone, a reset will say so."""
        assert self._client is not None, "renewed at the begin of the step"
        if self._context.patience.stopped:
            return 0, 0
        try:
            return self._client.watermarks(partition, WATERMARK_TIMEOUT_S)
        except ClientError:
            known = self._left.get(partition, 0)
            return 0, known

    def _move(self, moved: dict[TopicPartition, int], resets: tuple[TopicPartition, ...]) -> None:
        """Assign explicit offsets, recorded before the client hears of them."""
        assert self._client is not None, "renewed at the begin of the step"
        steps = tuple(
            Step(Kind.RESET if each in resets else Kind.SEEK, self._keys[each].key, offset=offset)
            for each, offset in moved.items()
        )
        op = self._invoke(F.ASSIGN, steps)
        self._positions = dict(moved)
        try:
            self._client.assign(moved)
        except ClientError as error:
            completion = Completion(Outcome.INFO, self._context.now_ns(), error=str(error))
            self._context.journal.complete(op, completion)
            self._drop()
            return
        self._context.journal.complete(op, Completion(Outcome.OK, self._context.now_ns()))

    def _invoke(self, f: F, steps: tuple[Step, ...]) -> int:
        invocation = Invocation(self._process, 0, f, self._context.now_ns(), isolation=self._isolation, steps=steps)
        self.tally.operations += 1
        return self._context.journal.invoke(invocation)

    def _poll(self) -> None:
        assert self._client is not None, "renewed at the begin of the step"
        context, begin = self._context, dict(self._positions)
        op = context.journal.invoke_poll(self._process, 0, self._isolation, Phase.MAIN, context.now_ns())
        batch = self._client.poll(MAX_RECORDS, POLL_TIMEOUT_S)
        type_ = Outcome.OK if batch.error is None else Outcome.FAIL
        keys, values, defects = decoded(batch, self._keys, self._decoder)
        context.journal.complete_poll(op, type_, context.now_ns(), batch.error, keys, batch.offsets, values, defects)
        self.tally.operations += 1
        self.tally.polled += len(keys)
        if batch.error is None:
            self._failures = 0
            self._positions.update(
                (source, offset + 1)
                for source, offset in zip(batch.sources, batch.offsets, strict=True)
                if source in self._positions
            )
            return
        self._failures += 1
        self._go_back(begin, batch)

    def _go_back(self, begin: dict[TopicPartition, int], batch: Batch) -> None:
        if self._failures >= FAILED_POLLS:
            self._positions = begin
            self._drop()
            return
        resets = tuple(each for each in batch.out_of_range if each in begin)
        for each in resets:
            begin[each] = self._watermarks(each)[0]
        self._move(begin, resets)
        self._context.patience.wait(RETRY_PAUSE_S)


def decoded(
    batch: Batch, keys: dict[TopicPartition, Key], decoder: Decoder
) -> tuple[list[int], list[int | None], list[Defect | None] | None]:
    """Key, value and defect of each record of a batch; defects are None when there are none."""
    numbers = [keys[source].key for source in batch.sources]
    decode = decoder.decode
    values: list[int | None] = []
    defects: list[Defect | None] = []
    for payload, key in zip(batch.payloads, numbers, strict=True):
        value, defect = decode(payload, key)
        values.append(value)
        defects.append(defect)
    return numbers, values, defects if any(defects) else None
