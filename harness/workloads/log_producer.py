"""A logical producer of the workload *log*; see :mod:`harness.workloads.log` for what it does."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.clients.base import Burst, ClientError, Producer, TopicPartition
from harness.clients.registry import producer_config
from harness.payload import BurstEncoder
from harness.workloads.base import Context, CrashClock, Key, Tally
from histories.recorded import Completion, Invocation
from histories.schema import F, Outcome, Phase

SLACK_S: Final = 2.0
"""How much longer than the delivery time-out an outcome is waited for: the client keeps that time itself."""
RETRY_PAUSE_S: Final = 0.2
CRASH_WINDOW_S: Final = 0.004
"""A crash in the middle of a burst comes at most so long after its last send."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A burst that is ready to be sent by one process; parallel sequences."""

    keys: array[int]
    values: array[int]
    targets: list[TopicPartition]
    payloads: list[bytes]


class LogProducer:
    def __init__(self, context: Context, slot: int, library: int) -> None:
        self.tally = Tally()
        self._context = context
        self._slot = slot
        self._library = library
        self._config = producer_config(context.plan.clients)
        self._rng = context.random(f"producer-{slot}")
        self._next_value = next(context.values(slot))
        self._crash = CrashClock(context.plan.clients.crash_every_s, self._rng, context.clock)
        self._patient_s = self._config.delivery_timeout_ms / 1000 + SLACK_S
        self._client: Producer | None = None
        self._process = -1
        self._encoder: BurstEncoder | None = None
        self._next: Prepared | None = None
        self._past_retries = 0

    def step(self) -> bool:
        if self._client is None and not self.renew():
            return True
        crash = self._crash.due()
        if crash and self._rng.random() < 0.5:
            self._crash_idle()
            return True
        prepared = self._next or self.prepare(self._targets())
        self._context.patience.wait(self._context.bucket.reserve(len(prepared.values)))
        if self._context.patience.stopped:
            return False
        burst = self.send(prepared, self._prepare_next, self._rng.random() * CRASH_WINDOW_S if crash else None)
        if self._context.plan.clients.on_error == "stop" and not crash and _has_gap(burst, self._config.acks):
            return False
        if crash or _in_doubt(burst, self._config.acks):
            self._drop()
        return True

    def close(self) -> None:
        self._drop()

    def renew(self) -> bool:
        """A new process with a new client object. False: not now."""
        process = self._context.new_process()
        library = self._context.libraries[self._library]
        try:
            self._client = library.producer(self._config, f"tidemark-{process}")
        except ClientError:
            self._context.patience.wait(RETRY_PAUSE_S)
            return False
        self._process = process
        self._encoder = BurstEncoder(self._context.run_id, process, self._context.plan.clients.payload_bytes)
        return True

    def _drop(self) -> None:
        self._next = None  # its payloads name the process that ends here
        client, self._client = self._client, None
        if client is not None:
            client.abandon()
            self._past_retries += client.retries() or 0
            self.tally.retries = self._past_retries

    def _targets(self) -> list[Key]:
        rng, keys = self._rng, self._context.keys.writable()
        largest = self._context.plan.clients.burst
        count = 1 if rng.random() < 0.5 else rng.randint(1, largest)
        if rng.random() < 0.5:
            return [rng.choice(keys)] * count
        return rng.choices(keys, k=count)

    def prepare(self, targets: list[Key]) -> Prepared:
        assert self._encoder is not None, "renewed at the begin of the step"
        first, self._next_value = self._next_value, self._next_value + len(targets)
        # Packed as the journal wants them: between two bursts there is nothing left to convert.
        keys = array("i", [target.key for target in targets])
        values = array("q", range(first, self._next_value))
        return Prepared(keys, values, [target.address for target in targets], self._encoder.encode(keys, values))

    def _prepare_next(self) -> None:
        """While a burst is under way there is time to make the payloads of the next one."""
        self._next = self.prepare(self._targets())

    def send(
        self,
        prepared: Prepared,
        meanwhile: Callable[[], None] | None = None,
        crash_after_s: float | None = None,
    ) -> Burst:
        """One recorded burst. With ``crash_after_s`` its outcomes are waited for so long only."""
        context, client = self._context, self._client
        assert client is not None, "renewed at the begin of the step"
        op = context.journal.invoke_sends(
            self._process,
            0,
            self._library,
            self._config.acks,
            Phase.MAIN,
            context.now_ns(),
            prepared.keys,
            prepared.values,
        )
        left_s = context.patience.until(self._patient_s if crash_after_s is None else crash_after_s)
        burst = client.send_burst(prepared.targets, prepared.payloads, left_s, meanwhile)
        record_burst(context, op, burst, "crash" if crash_after_s is not None else "abandoned")
        context.keys.sent(len(prepared.values))
        self._count(burst, client)
        return burst

    def _count(self, burst: Burst, client: Producer) -> None:
        tally, statuses = self.tally, burst.statuses
        acknowledged = statuses.count(Outcome.OK)
        unknown = statuses.count(Outcome.INFO) if acknowledged < len(statuses) else 0
        tally.operations += 1
        tally.unknown += unknown
        tally.failed += len(statuses) - acknowledged - unknown
        tally.acknowledged += acknowledged
        tally.retries = self._past_retries + (client.retries() or 0)

    def _crash_idle(self) -> None:
        context = self._context
        op = context.journal.invoke(Invocation(self._process, 0, F.CRASH, context.now_ns()))
        self._drop()
        context.journal.complete(op, Completion(Outcome.OK, context.now_ns()))


def record_burst(context: Context, op: int, burst: Burst, open_error: str) -> None:
    """Journal what became of a burst. Its type is ``info`` with one unknown outcome in it, ``fail`` when all
    failed; each send has a status of its own."""
    statuses = burst.statuses
    if burst.all_ok:
        type_ = Outcome.OK
    elif Outcome.INFO in statuses:
        type_ = Outcome.INFO
    elif Outcome.OK in statuses:
        type_ = Outcome.OK
    else:
        type_ = Outcome.FAIL
    error = burst.errors[min(burst.errors)] if burst.errors else None
    if not burst.all_reported:
        error = error or open_error
    context.journal.complete_sends(
        op,
        type_,
        context.now_ns(),
        error,
        statuses,
        burst.offsets,
        burst.invoke_ns,
        burst.complete_ns,
        steps_since_ns=context.started_ns,
    )


def _in_doubt(burst: Burst, acks: int) -> bool:
    """Whether the process must end."""
    if not burst.usable:
        return True
    if acks == 0:
        return bool(burst.errors) or not burst.all_reported
    return not burst.all_ok and Outcome.INFO in burst.statuses


def _has_gap(burst: Burst, acks: int) -> bool:
    return _in_doubt(burst, acks) or (not burst.all_ok and Outcome.FAIL in burst.statuses)
