"""Configuration that is kept in ZooKeeper: overrides of topics, dynamic settings of brokers.

``/config/topics/T`` and ``/config/brokers/N`` hold the overrides. Whoever changes one writes it first and then leaves a
notification in ``/config/changes``, which every broker watches; a broker reads the named configuration again
and tells those who subscribed. Notifications stay for a quarter of an hour, so that a broker that was cut off finds them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from system_under_test.world import (
    BadVersion,
    Coordination,
    Create,
    NodeExists,
    NoNode,
    SessionExpired,
    SetData,
    WatchEvent,
)
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.nodes import MalformedNode

log = logging.getLogger(__name__)

NOTIFICATION_LIFE_MS = 15 * 60 * 1000
"""Counted by ZooKeeper's own times of creation: no broker's clock decides what the others may still need."""
BROKER_DEFAULT = "<default>"
"""Name of the dynamic settings that hold for every broker."""

NONE: Mapping[str, str] = MappingProxyType({})
TopicConfigListener = Callable[[str, Mapping[str, str]], None]
BrokerConfigListener = Callable[[str, Mapping[str, str]], None]


async def read_config(zookeeper: Coordination, entity_path: str) -> tuple[dict[str, str], int]:
    """Overrides and the version of their node; nothing and -1 where there is none."""
    try:
        data, stat = await zookeeper.get(nodes.config_path(entity_path))
    except NoNode:
        return {}, -1
    try:
        return nodes.decode_config(data), stat.version
    except MalformedNode as error:
        log.error("%s is taken for empty: %s", nodes.config_path(entity_path), error)
        return {}, stat.version


class Configs:
    """This broker's copy of the configuration in ZooKeeper, kept up to date."""

    def __init__(self, coordination: Callable[[], Coordination]) -> None:
        self._coordination = coordination
        self._known: dict[str, Mapping[str, str]] = {}
        self._topic_listeners: list[TopicConfigListener] = []
        self._broker_listeners: list[BrokerConfigListener] = []
        self._last_seen = -1
        self._reading: asyncio.Task[None] | None = None
        self._changed = False
        self._one_reads = asyncio.Lock()

    def on_topic_config(self, listener: TopicConfigListener) -> None:
        """Told the topic and all of its overrides, after each change."""
        self._topic_listeners.append(listener)

    def on_broker_config(self, listener: BrokerConfigListener) -> None:
        """Told the broker (an id, or ``<default>``) and its dynamic settings, after each change."""
        self._broker_listeners.append(listener)

    def topic(self, topic: str) -> Mapping[str, str]:
        """A topic's overrides as last read. Before a replica is made, :meth:`refresh` its topic."""
        return self._known.get(f"topics/{topic}", NONE)

    def topics(self) -> dict[str, Mapping[str, str]]:
        """Overrides of every topic that has some."""
        start = "topics/"
        return {path[len(start) :]: self._known[path] for path in sorted(self._known) if path.startswith(start)}

    def broker(self, broker: str) -> Mapping[str, str]:
        return self._known.get(f"brokers/{broker}", NONE)

    async def start(self) -> None:
        """Read everything and watch; again for each new session."""
        zookeeper = self._coordination()
        names = await zookeeper.children(nodes.CONFIG_CHANGES, self._notified)
        self._last_seen = max((nodes.sequence_number(name) for name in names), default=self._last_seen)
        for kind in ("topics", "brokers"):
            await self._read([f"{kind}/{name}" for name in await zookeeper.children(nodes.config_path(kind))])

    async def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def refresh_brokers(self, brokers: Iterable[str]) -> None:
        """Read the dynamic settings of these brokers now."""
        await self._read([f"brokers/{broker}" for broker in brokers])

    async def refresh(self, topics: Iterable[str]) -> None:
        """Read these topics' overrides now: a topic that was just made may have come and gone before."""
        await self._read([f"topics/{topic}" for topic in sorted(set(topics))])

    async def change(
        self, entity_path: str, update: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> Mapping[str, str]:
        """Replace overrides by what ``update`` makes of them, and notify every broker."""
        zookeeper = self._coordination()
        path = nodes.config_path(entity_path)
        while True:
            before, version = await read_config(zookeeper, entity_path)
            after = update(before)
            data = nodes.encode_config(after)
            try:
                await zookeeper.multi([Create(path, data) if version < 0 else SetData(path, data, version)])
            except (BadVersion, NodeExists, NoNode):
                continue
            await zookeeper.create(*nodes.config_change(entity_path), sequential=True)
            return after

    async def _read(self, entity_paths: list[str]) -> None:
        # One after the other: a reading that took long would put back what a later one has replaced.
        async with self._one_reads:
            zookeeper = self._coordination()
            found = await asyncio.gather(*(read_config(zookeeper, path) for path in entity_paths))
            for path, (overrides, _) in zip(entity_paths, found, strict=True):
                if overrides == self._known.get(path, NONE):
                    continue
                if overrides:
                    self._known[path] = overrides
                else:
                    del self._known[path]
                self._tell(path, overrides)

    def _tell(self, entity_path: str, overrides: Mapping[str, str]) -> None:
        kind, _, name = entity_path.partition("/")
        for listener in self._topic_listeners if kind == "topics" else self._broker_listeners:
            listener(name, overrides)

    def _notified(self, _path: str, event: WatchEvent) -> None:
        if event is WatchEvent.LOST:
            return
        self._changed = True
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().create_task(self._read_changes())

    async def _read_changes(self) -> None:
        try:
            while self._changed:
                self._changed = False
                await self._process(self._coordination())
        except SessionExpired:
            log.info("configuration changes are read again by the next session")

    async def _process(self, zookeeper: Coordination) -> None:
        names = await zookeeper.children(nodes.CONFIG_CHANGES, self._notified)
        numbers = {name: nodes.sequence_number(name) for name in names}
        for name in sorted(names, key=lambda each: numbers[each]):
            if numbers[name] <= self._last_seen:
                continue
            try:
                entity_path = nodes.decode_config_change((await zookeeper.get(f"{nodes.CONFIG_CHANGES}/{name}"))[0])
                await self._read([entity_path])
            except NoNode:
                log.info("%s was removed before it was read", name)
            except MalformedNode as error:
                log.error("%s is ignored: %s", name, error)
            self._last_seen = max(self._last_seen, numbers[name])
        await _purge(zookeeper, sorted(names, key=lambda each: numbers[each]))


async def _purge(zookeeper: Coordination, names: list[str]) -> None:
    """Remove notifications that are much older than the newest."""
    stats = await asyncio.gather(*(zookeeper.exists(f"{nodes.CONFIG_CHANGES}/{name}") for name in names))
    times = [stat.ctime_ms for stat in stats if stat is not None]
    if not times:
        return
    for name, stat in zip(names, stats, strict=True):
        if stat is not None and max(times) - stat.ctime_ms > NOTIFICATION_LIFE_MS:
            try:
                await zookeeper.delete(f"{nodes.CONFIG_CHANGES}/{name}")
            except NoNode:
                continue
