"""The states of a partition.

::

    NonExistent -> New -> Online <-> Offline -> NonExistent
                    |                   ^
                    +-------------------+

*New*: it has replicas and no leader yet. *Online*: a leader was elected and is not known to be dead. *Offline*: its
leader died, or nobody may lead it. Two rules: becoming Online is the only step that writes to ZooKeeper, and it is the
only one that can fail; a partition that fails it stays where it was, and is tried again whenever a broker comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from enum import Enum

from system_under_test.controller import selectors
from system_under_test.controller.context import Leadership, PartitionPhase
from system_under_test.controller.core import Core, check_transition
from system_under_test.controller.requests import RequestBatch
from system_under_test.controller.selectors import Elected
from system_under_test.types import TopicPartition
from system_under_test.zookeeper.nodes import PartitionState

log = logging.getLogger(__name__)

_P = PartitionPhase
VALID_SOURCES: dict[PartitionPhase, frozenset[PartitionPhase]] = {
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
}
"""From where a state may be reached."""


class Strategy(Enum):
    """Occasion of an election; each is one function of :mod:`~system_under_test.controller.selectors`."""

    OFFLINE = "offline"
    OFFLINE_UNCLEAN = "offline, unclean allowed for this once"
    REASSIGNED = "reassigned"
    PREFERRED = "preferred"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    NONE = "none"


Failures = dict[TopicPartition, str]
"""Why a partition could not become Online."""


class PartitionStateMachine:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._context = core.context

    def start(self) -> None:
        """States of a controller that has just read everything."""
        for each in self._context.partitions():
            leadership = self._context.leadership.get(each)
            if leadership is None:
                phase = _P.NEW
            elif self._context.is_online(leadership.state.leader, each):
                phase = _P.ONLINE
            else:
                phase = _P.OFFLINE
            self._context.partition_phases[each] = phase

    async def bring_online(self, topic: str | None = None) -> Failures:
        """Try again to find a leader for every partition, or every one of a topic, that has none."""
        waiting = [
            each
            for each in (self._context.partitions() if topic is None else self._context.partitions_of(topic))
            if self._context.partition_phase(each) in (_P.NEW, _P.OFFLINE) and not self._context.is_doomed(each)
        ]
        return await self.handle(waiting, _P.ONLINE, Strategy.OFFLINE)

    async def handle(
        self, partitions: Iterable[TopicPartition], target: PartitionPhase, strategy: Strategy | None = None
    ) -> Failures:
        moving = list(partitions)
        for each in moving:
            check_transition(VALID_SOURCES, self._context.partition_phase(each), target, each)
        if target is not _P.ONLINE:
            for each in moving:
                self._enter(each, target)
            return {}
        assert strategy is not None, "an election needs its occasion"
        batch = self._core.batch()
        failures = await self._bring_online(moving, strategy, batch)
        self._core.send(batch)
        for each, reason in failures.items():
            log.warning("%s has no new leader (%s election): %s", each, strategy.value, reason)
        return failures

    async def raise_leader_epoch(self, partition: TopicPartition) -> None:
        """Tell all replicas of a changed assignment: they obey a state whose leader epoch is new. No election."""
        batch = self._core.batch()
        await self._elect([partition], Strategy.NONE, batch)
        self._core.send(batch)

    def _enter(self, partition: TopicPartition, phase: PartitionPhase) -> None:
        if phase is _P.NON_EXISTENT:
            self._context.partition_phases.pop(partition, None)
        else:
            self._context.partition_phases[partition] = phase

    async def _bring_online(
        self, partitions: list[TopicPartition], strategy: Strategy, batch: RequestBatch
    ) -> Failures:
        new = [each for each in partitions if self._context.partition_phase(each) is _P.NEW]
        failures, exist_already = await self._initialize(new, batch)
        to_elect = [*(each for each in partitions if each not in set(new)), *exist_already]
        failures |= await self._elect(to_elect, strategy, batch)
        for each in partitions:
            if each not in failures:
                self._enter(each, _P.ONLINE)
        return failures

    async def _initialize(
        self, partitions: list[TopicPartition], batch: RequestBatch
    ) -> tuple[Failures, list[TopicPartition]]:
        """Give new partitions their first state: all live replicas in the ISR, the first of them leads."""
        failures: Failures = {}
        wanted: dict[TopicPartition, PartitionState] = {}
        for each in partitions:
            live = self._live(each)
            if live:
                wanted[each] = PartitionState(live[0], 0, live, self._context.epoch)
            else:
                failures[each] = f"none of its replicas {self._context.assignment(each).replicas} is alive"
        made = await asyncio.gather(*(self._core.store.create_state(each, wanted[each]) for each in wanted))
        exist_already: list[TopicPartition] = []
        for each, leadership in zip(wanted, made, strict=True):
            if leadership is None:
                # Written by this very request, whose answer was lost, or by an earlier controller.
                exist_already.append(each)
            else:
                self._context.leadership[each] = leadership
                batch.leader_and_isr(leadership.state.isr, each, leadership, is_new=True)
        return failures, exist_already

    async def _elect(self, partitions: list[TopicPartition], strategy: Strategy, batch: RequestBatch) -> Failures:
        """Write new states over those that are there. A leader may have changed its ISR meanwhile: then again."""
        failures: Failures = {}
        remaining = partitions
        while remaining:
            states = await self._core.store.states(remaining)
            self._context.leadership.update(states)
            unclean = await self._unclean(states) if strategy is Strategy.OFFLINE else frozenset()
            changes: dict[TopicPartition, tuple[PartitionState, int]] = {}
            for each in remaining:
                current = states.get(each)
                elected = (
                    None if current is None else self._select(each, current.state, strategy, each.topic in unclean)
                )
                if current is None:
                    failures[each] = "it has no state in ZooKeeper"
                elif elected is None:
                    failures[each] = (
                        f"no suitable replica; replicas {self._context.assignment(each).replicas}, "
                        f"isr {current.state.isr}, alive {self._context.live_ids()}"
                    )
                else:
                    if elected.unclean:
                        log.warning("%s: unclean election of %d; isr was %s", each, elected.leader, current.state.isr)
                    state = self._context.next_state(current.state, elected.leader, elected.isr)
                    changes[each] = (state, current.version)
            written = await self._core.store.update_states(changes)
            for each, leadership in written.items():
                self._context.leadership[each] = leadership
                batch.leader_and_isr(self._recipients(each, strategy), each, leadership, is_new=False)
            remaining = [each for each in changes if each not in written]
        return failures

    async def _unclean(self, states: dict[TopicPartition, Leadership]) -> frozenset[str]:
        """Topics that allow a leader from outside of the ISR; only those are asked that need one."""
        needy = sorted(
            {
                each.topic
                for each, leadership in states.items()
                if not any(self._context.is_online(member, each) for member in leadership.state.isr)
            }
        )
        configs = await asyncio.gather(*(self._core.store.topic_config(topic) for topic in needy))
        default = "true" if self._core.unclean_by_default() else "false"
        return frozenset(
            topic
            for topic, config in zip(needy, configs, strict=True)
            if config.get("unclean.leader.election.enable", default).strip().lower() == "true"
        )

    def _select(
        self, partition: TopicPartition, state: PartitionState, strategy: Strategy, unclean: bool
    ) -> Elected | None:
        assignment, live = self._context.assignment(partition), self._live(partition)
        match strategy:
            case Strategy.OFFLINE | Strategy.OFFLINE_UNCLEAN:
                allowed = unclean or strategy is Strategy.OFFLINE_UNCLEAN
                return selectors.offline(assignment.replicas, state.isr, live, allowed)
            case Strategy.REASSIGNED:
                return selectors.reassigned(assignment.target, state.isr, live)
            case Strategy.PREFERRED:
                return selectors.preferred(assignment.replicas, state.isr, live)
            case Strategy.CONTROLLED_SHUTDOWN:
                serving = self._live(partition, shutting_down_too=True)
                leaving = self._context.shutting_down
                return selectors.controlled_shutdown(assignment.replicas, state.isr, serving, leaving)
            case Strategy.NONE:
                return selectors.none(state.leader, state.isr)

    def _recipients(self, partition: TopicPartition, strategy: Strategy) -> tuple[int, ...]:
        match strategy:
            case Strategy.OFFLINE | Strategy.OFFLINE_UNCLEAN:
                return self._live(partition)
            case Strategy.CONTROLLED_SHUTDOWN:
                return self._live(partition, shutting_down_too=True)
            case _:
                return self._context.assignment(partition).replicas

    def _live(self, partition: TopicPartition, *, shutting_down_too: bool = False) -> tuple[int, ...]:
        return tuple(
            each
            for each in self._context.assignment(partition).replicas
            if self._context.is_online(each, partition, shutting_down_too=shutting_down_too)
        )
