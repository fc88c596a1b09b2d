"""Producer ids: blocks of a thousand from ``/latest_producer_id_block``, handed out one by one.

A block is taken by a conditional write to the node, so no two brokers, and no two lives of one, ever have the same.
When nobody knows what became of a write (a lost connection), the next block is taken: ids are many, and one that was
taken but is not used does no harm. What a broker did not hand out before it ended is lost likewise, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.world import BadVersion, Coordination, NoNode, SessionExpired
from system_under_test.zookeeper.nodes import LATEST_PRODUCER_ID_BLOCK, MalformedNode, ProducerIdBlock

log = logging.getLogger(__name__)


class ProducerIds:
    """A broker's. ``zookeeper`` gives the session of the moment."""

    def __init__(self, zookeeper: Callable[[], Coordination], broker_id: int) -> None:
        self._zookeeper = zookeeper
        self._broker_id = broker_id
        self._next = self._end = 0
        self._refill: asyncio.Task[ApiError | None] | None = None

    def take(self) -> int | None:
        """An id that nobody else has, or ever gets; None when a new block is needed first."""
        if self._next == self._end:
            return None
        taken, self._next = self._next, self._next + 1
        return taken

    async def generate(self) -> int:
        """COORDINATOR_LOAD_IN_PROGRESS when there is no block to be had at the moment: clients ask again."""
        while (taken := self.take()) is None:
            if self._refill is None or self._refill.done():
                self._refill = asyncio.get_running_loop().create_task(self._take_block(), name="producer ids")
            # All who wait share one block, and one who goes away takes it from nobody.
            problem = await asyncio.shield(self._refill)
            if problem is not None:
                raise ApiError(problem.code, problem.message)
        return taken

    def stop(self) -> None:
        if self._refill is not None:
            self._refill.cancel()

    async def _take_block(self) -> ApiError | None:
        """Why there is none."""
        zookeeper = self._zookeeper()
        while True:
            try:
                data, stat = await zookeeper.get(LATEST_PRODUCER_ID_BLOCK)
                block = ProducerIdBlock.after(data, self._broker_id)
                await zookeeper.set(LATEST_PRODUCER_ID_BLOCK, block.encode(), stat.version)
            except BadVersion:
                continue  # another broker was faster, or this write was sent twice
            except SessionExpired as problem:
                return ApiError(ErrorCode.coordinator_load_in_progress, str(problem))
            except (NoNode, MalformedNode) as problem:
                # Never begun anew: ids would be given twice.
                log.error("no more producer ids: %s", problem)
                return ApiError(ErrorCode.unknown_server_error, str(problem))
            else:
                log.info("producer ids %d to %d are this broker's", block.start, block.end)
                assert self._next == self._end, "a block is asked for when the last one is used up"
                self._next, self._end = block.start, block.end + 1
                return None
