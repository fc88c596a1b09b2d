"""The controller of one broker: it stands for election, and while it holds the office it runs a :class:`Term`.

One task takes events from one queue and handles them one after the other; nobody else touches a term's context.
The term ends when ``/controller`` is no longer this session's, the session expires, a write finds a newer epoch, or
a step fails in a way that was not foreseen: then the office is given up, and whoever takes it next starts from
ZooKeeper, which is always right. Events of a term that is over are dropped.

Failpoint: ``controller.elected``, after an election and before anything is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from system_under_test.config import BrokerConfig
from system_under_test.controller import election
from system_under_test.controller.channels import PeersLike
from system_under_test.controller.context import ReplicaAssignment
from system_under_test.controller.core import InvalidTransition
from system_under_test.controller.election import Holder
from system_under_test.controller.elections import ElectionType
from system_under_test.controller.events import Call, ControllerChanged, TermEvent, UncleanElectionEnabled
from system_under_test.controller.store import ControllerMoved
from system_under_test.controller.term import Term
from system_under_test.failpoints import Dropped, FailpointError, Failpoints
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.server.peer import Peers, Resolve
from system_under_test.types import TopicPartition
from system_under_test.world import Coordination, CoordinationError, SessionExpired, Watcher, WatchEvent, World
from system_under_test.zookeeper.nodes import MalformedNode
from system_under_test.zookeeper.session import Sessions

log = logging.getLogger(__name__)
T = TypeVar("T")

AFTER_FAILURE_S = 1.0
"""A broker that failed in office waits this long before it stands again: another may do better."""

_FAILURES = (CoordinationError, InvalidTransition, MalformedNode, FailpointError, Dropped)
"""What a step may raise that nobody foresaw there. Programming errors are not among them: they end :meth:`wait`."""

Outcomes = dict[TopicPartition, ApiError | None]


class Controller:
    def __init__(
        self,
        world: World,
        broker_id: int,
        config: BrokerConfig,
        sessions: Sessions,
        failpoints: Failpoints,
        make_peers: Callable[[Resolve], PeersLike] | None = None,
    ) -> None:
        self._world = world
        self._broker_id = broker_id
        self._config = config
        self._sessions = sessions
        self._failpoints = failpoints
        self._make_peers = make_peers or (lambda resolve: Peers(world.network, resolve, f"controller-{broker_id}"))
        self._queue: asyncio.Queue[ControllerChanged | Call | tuple[Term, TermEvent]] = asyncio.Queue()
        self._term: Term | None = None
        self._task: asyncio.Task[None] | None = None
        self._watched: Coordination | None = None
        """The session that has a watch on ``/controller``."""
        self._stands_from = 0.0
        self._retry: asyncio.TimerHandle | None = None
        sessions.on_expired(partial(self._end_term, "the ZooKeeper session expired"))

    # -- lifecycle

    @property
    def is_active(self) -> bool:
        return self._term is not None

    @property
    def epoch(self) -> int:
        """Of the term in office; -1 out of it."""
        return -1 if self._term is None else self._term.epoch

    @property
    def term(self) -> Term | None:
        """The term in office, to be looked at."""
        return self._term

    async def start(self) -> None:
        """Begin to stand for election, once this broker has registered."""
        assert self._task is None
        self.session_established()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"controller-{self._broker_id}")

    def session_established(self) -> None:
        """A new session has registered this broker: stand (again)."""
        self._queue.put_nowait(ControllerChanged())

    async def wait(self) -> None:
        """Returns when it was stopped; raises the programming error that ended it otherwise."""
        assert self._task is not None
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    async def stop(self) -> None:
        """Send nothing more, handle nothing more. ``/controller`` goes with the session."""
        self._end_term("the broker stops")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._retry is not None:
            self._retry.cancel()
        while not self._queue.empty():
            event = self._queue.get_nowait()
            if isinstance(event, Call):
                _settle(event, error=_not_controller())

    def resign(self, reason: str = "it was told to") -> None:
        """Stop acting as controller at once; then the office is given up and stood for again."""
        self._end_term(reason)
        self._queue.put_nowait(ControllerChanged())

    def _end_term(self, reason: str) -> None:
        term, self._term = self._term, None
        if term is not None:
            log.warning("no longer controller of epoch %d: %s", term.epoch, reason)
            term.close()

    # -- what others tell and ask

    def topic_config_changed(self, topic: str, overrides: Mapping[str, str]) -> None:
        """A listener for topics' configuration: an offline partition may now have a leader from outside of the ISR."""
        if self._term is not None and overrides.get("unclean.leader.election.enable", "").strip().lower() == "true":
            self._enqueue(self._term, UncleanElectionEnabled(topic))

    def unclean_election_enabled(self) -> None:
        """By default, for topics that do not say."""
        if self._term is not None:
            self._enqueue(self._term, UncleanElectionEnabled(None))

    async def controlled_shutdown(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        """What the broker still leads: nobody else could take it."""
        return await self._ask(lambda term: term.membership.controlled_shutdown(broker, broker_epoch))

    async def alter_partition_reassignments(self, wanted: Mapping[TopicPartition, tuple[int, ...] | None]) -> Outcomes:
        return await self._ask(lambda term: term.reassignments.alter(wanted))

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, ReplicaAssignment]:
        async def under_way(term: Term) -> dict[TopicPartition, ReplicaAssignment]:
            return term.reassignments.under_way()

        found = await self._ask(under_way)
        wanted = set(found) if partitions is None else set(partitions)
        return {each: assignment for each, assignment in found.items() if each in wanted}

    async def elect_leaders(self, partitions: Iterable[TopicPartition] | None, kind: ElectionType) -> Outcomes:
        """None: all partitions, and only what had to be elected is told."""

        async def elect(term: Term) -> Outcomes:
            asked = term.context.partitions() if partitions is None else partitions
            outcomes = await term.elections.elect(asked, kind)
            return {
                each: error
                for each, error in outcomes.items()
                if partitions is not None or error is None or error.code is not ErrorCode.election_not_needed
            }

        return await self._ask(elect)

    async def is_doomed(self, topic: str) -> bool:
        """Whether the topic waits for its deletion."""

        async def look(term: Term) -> bool:
            return topic in term.context.doomed

        return await self._ask(look)

    async def _ask(self, run: Callable[[Term], Awaitable[T]]) -> T:
        """Through the queue. Raises NOT_CONTROLLER when there is no term, or it ends before the answer."""
        if self._term is None:
            raise _not_controller()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(Call(run, answer))
        return await answer

    # -- the queue

    def _enqueue(self, term: Term, event: TermEvent) -> None:
        if term is self._term:
            self._queue.put_nowait((term, event))

    async def _run(self) -> None:
        while True:
            event = await self._queue.get()
            if isinstance(event, ControllerChanged):
                await self._step(self._look_at_office)
            elif isinstance(event, Call):
                await self._serve(event)
            elif event[0] is self._term:
                await self._step(partial(event[0].handle, event[1]))

    async def _step(self, step: Callable[[], Awaitable[None]]) -> None:
        """One step in office; one that fails ends the term."""
        try:
            await step()
        except SessionExpired:
            self._end_term("the ZooKeeper session expired")  # its successor looks at the office
        except ControllerMoved as moved:
            self._end_term(str(moved))
            self._queue.put_nowait(ControllerChanged())
        except _FAILURES as error:
            log.error("a step of the controller failed; the office is given up", exc_info=error)
            self._end_term(f"{type(error).__name__}: {error}")
            self._stands_from = asyncio.get_running_loop().time() + AFTER_FAILURE_S
            self._queue.put_nowait(ControllerChanged())

    async def _serve(self, call: Call) -> None:
        term = self._term
        if term is None:
            _settle(call, error=_not_controller())
            return

        async def run() -> None:
            try:
                _settle(call, result=await call.run(term))
            except ApiError as error:
                _settle(call, error=error)

        await self._step(run)
        _settle(call, error=_not_controller())  # unless it is settled

    # -- the office

    async def _look_at_office(self) -> None:
        """Resign, give up or stand, as ``/controller`` demands."""
        zookeeper = self._sessions.current
        held = await election.look(zookeeper, self._broker_id, self._watch(zookeeper))
        if self._term is not None:
            if held.holder is Holder.THIS_SESSION:
                return
            self._end_term(f"/controller is held by {held.holder.value}")
        if held.holder is Holder.ANOTHER:
            return
        if held.holder is not Holder.NOBODY:
            # Garbage is replaced. What this session holds without a term is left of a term that failed, or of an
            # election whose answer was lost.
            await election.remove(zookeeper, self._broker_id, held.holder)
        loop = asyncio.get_running_loop()
        if loop.time() < self._stands_from:
            if self._retry is None or self._retry.cancelled() or self._retry.when() <= loop.time():
                self._retry = loop.call_at(self._stands_from, self._queue.put_nowait, ControllerChanged())
            return
        won = await election.stand(zookeeper, self._broker_id, self._world.clock.time_ms())
        if won is None:
            return  # the watch tells of the winner
        self._term = Term(
            self._broker_id, self._config, zookeeper, won, self._make_peers, self._failpoints, self._enqueue
        )
        log.warning("controller of epoch %d", won.epoch)
        if self._failpoints.on:
            await self._failpoints.reach("controller.elected")
        await self._term.recover()

    def _watch(self, zookeeper: Coordination) -> Watcher | None:
        """One watch is enough."""
        if self._watched is zookeeper:
            return None
        self._watched = zookeeper

        def fired(_path: str, event: WatchEvent) -> None:
            if self._watched is zookeeper:
                self._watched = None
            if event is not WatchEvent.LOST:
                self._queue.put_nowait(ControllerChanged())

        return fired


def _not_controller() -> ApiError:
    return ApiError(ErrorCode.not_controller, "This is not the correct controller for this cluster.")


def _settle(call: Call, result: object = None, error: ApiError | None = None) -> None:
    """Whoever asked may be gone."""
    if call.answer.done():
        return
    if error is not None:
        call.answer.set_exception(error)
    else:
        call.answer.set_result(result)
