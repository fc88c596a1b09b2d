"""The controller's lines to brokers: one queue, one connection and one task for each of them.

Requests to a broker arrive in the order in which they were made, one at a time, and each is repeated until it is
answered or the broker is gone: a broker that misses one would serve by an old state for ever. An idle line costs nothing.

Failpoint: ``controller.request.sent`` (peer, api) before each sending; dropped requests are sent again, as lost ones are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from system_under_test.controller.requests import Outgoing
from system_under_test.failpoints import Dropped, FailpointError, Failpoints
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.messages import Body
from system_under_test.world import ConnectionLost

log = logging.getLogger(__name__)
RETRY_PAUSE_S = 0.1


class PeerLike(Protocol):
    async def request(self, api: ApiKey, version: int, body: Body, timeout_s: float) -> Body: ...


class PeersLike(Protocol):
    def get(self, broker_id: int) -> PeerLike: ...

    def forget(self, broker_id: int) -> None: ...

    def close(self) -> None: ...


Answered = Callable[[Outgoing, Body], None]


class Channels:
    def __init__(self, peers: PeersLike, timeout_s: float, failpoints: Failpoints, answered: Answered) -> None:
        self._peers = peers
        self._timeout_s = timeout_s
        self._failpoints = failpoints
        self._answered = answered
        self._queues: dict[int, asyncio.Queue[Outgoing]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._closed = False

    def add(self, broker: int) -> None:
        assert broker not in self._queues, f"broker {broker} has a channel"
        if self._closed:
            return
        self._queues[broker] = asyncio.Queue()
        task = asyncio.get_running_loop().create_task(self._send(broker, self._queues[broker]))
        task.add_done_callback(_report)
        self._tasks[broker] = task

    def remove(self, broker: int) -> None:
        """What is still queued is for a broker that is no more."""
        self._queues.pop(broker, None)
        task = self._tasks.pop(broker, None)
        if task is not None:
            task.cancel()
        self._peers.forget(broker)

    def send(self, request: Outgoing) -> None:
        queue = self._queues.get(request.broker)
        if queue is not None:
            queue.put_nowait(request)

    def close(self) -> None:
        """Nothing more is sent, not even what is queued."""
        self._closed = True
        for broker in sorted(self._queues):
            self.remove(broker)
        self._peers.close()

    async def _send(self, broker: int, queue: asyncio.Queue[Outgoing]) -> None:
        while True:
            request = await queue.get()
            body = await self._until_answered(broker, request)
            self._answered(request, body)

    async def _until_answered(self, broker: int, request: Outgoing) -> Body:
        while True:
            try:
                if self._failpoints.on:
                    await self._failpoints.reach("controller.request.sent", peer=broker, api=request.api.name)
                return await self._peers.get(broker).request(
                    request.api, request.version, request.body, self._timeout_s
                )
            except (ConnectionLost, TimeoutError, Dropped, FailpointError) as error:
                log.info("%s to broker %d is repeated: %s", request.api.name, broker, error)
                await asyncio.sleep(RETRY_PAUSE_S)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.critical("a channel of the controller failed", exc_info=task.exception())
