"""Load by idempotent producers that send again what they have no answer for, as real ones do.

Up to five batches are under way to one partition at a time; what fails is sent again with the same sequences, in order,
until it is answered. Two habits of careful clients are kept: the first batch to a partition goes alone (a broker that
does not know a producer takes any sequence, so two of which only the second arrives would leave a gap), and a producer
whose oldest batch is refused for its sequence gives up its id and never sends these batches again: nobody can tell it
whether they are there (a restarted broker knows only the last batch of each producer).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.simulation.client import CLIENT_ERRORS, Numbering, SimpleClient
from system_under_test.simulation.invariants import Judge
from system_under_test.types import TopicPartition

_SEQUENCE_MASK = 0x7FFFFFFF
_BATCHES_AT_ONCE = (1, 1, 2, 5)
_RECORDS = (1, 1, 2, 5)
_RETRY_S = 0.3
_EPOCH = 0


@dataclass(frozen=True, slots=True)
class Sent:
    sequence: int
    values: list[bytes]


class IdempotentProducer:
    def __init__(
        self,
        client: SimpleClient,
        random: Random,
        judge: Judge,
        new_value: Callable[[], bytes],
        is_over: Callable[[], bool],
    ) -> None:
        self._client = client
        self._random = random
        self._judge = judge
        self._new_value = new_value
        self._is_over = is_over
        self._id: int | None = None
        self._next: dict[TopicPartition, int] = {}
        """The sequences that are next, where something was acknowledged."""

    async def send_burst(self, partition: TopicPartition) -> None:
        """Returns when all of it is acknowledged, given up, or the load is over."""
        if self._id is None and not await self._become_known():
            return
        waiting = self._numbered(partition)
        while waiting:
            answers = await asyncio.gather(*(self._send(partition, each) for each in waiting))
            if answers[0] is ErrorCode.out_of_order_sequence_number:
                self._id = None
                return
            waiting = [each for each, answer in zip(waiting, answers, strict=True) if answer is not ErrorCode.none]
            if waiting:
                if self._is_over():
                    self._id = None
                    return
                await self._pause()

    def _numbered(self, partition: TopicPartition) -> list[Sent]:
        """New batches with the next sequences."""
        count = self._random.choice(_BATCHES_AT_ONCE) if partition in self._next else 1
        batches = []
        for _ in range(count):
            values = [self._new_value() for _ in range(self._random.choice(_RECORDS))]
            sequence = self._next.get(partition, 0)
            batches.append(Sent(sequence, values))
            self._next[partition] = (sequence + len(values)) & _SEQUENCE_MASK
        return batches

    async def _send(self, partition: TopicPartition, batch: Sent) -> ErrorCode | None:
        assert self._id is not None
        numbering = Numbering(self._id, _EPOCH, batch.sequence)
        try:
            offset = await self._client.produce(partition, batch.values, acks=-1, numbering=numbering)
        except ApiError as error:
            return error.code
        except CLIENT_ERRORS:
            return None
        self._judge.acknowledged(partition, offset, batch.values)
        return ErrorCode.none

    async def _become_known(self) -> bool:
        while not self._is_over():
            try:
                self._id = await self._client.init_producer_id()
            except CLIENT_ERRORS:
                await self._pause()
                continue
            self._judge.numbered(self._id)
            self._next.clear()
            return True
        return False

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.random() * _RETRY_S)
        await self._client.try_refresh()
