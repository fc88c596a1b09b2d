"""Three whole brokers in a simulation, and requests to them by any version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from system_under_test.broker import Broker
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.messages import Body, Maker, maker
from system_under_test.server.peer import Peers
from system_under_test.simulation.cluster import PORT, SETTINGS, SimulatedCluster, WholeBroker
from system_under_test.simulation.world import Simulation, until
from system_under_test.types import BrokerEndpoint

TIMEOUT = timedelta(seconds=10)


class Brokers:
    """Ids from 1."""

    def __init__(self, simulation: Simulation, settings: dict[str, str], count: int = 3) -> None:
        self.cluster = SimulatedCluster(simulation, count, (), settings={**SETTINGS, **settings})
        self.network = simulation.host("client").boot().network
        self.peers = Peers(self.network, lambda each: BrokerEndpoint(each, f"broker-{each}", PORT), "client")

    def broker(self, broker_id: int) -> Broker:
        found = self.cluster.brokers[broker_id]
        assert isinstance(found, WholeBroker)
        return found.broker

    async def started(self) -> None:
        self.cluster.start_all()
        await until(lambda: all(map(self._knows_all, self.cluster.ids)), 30, "brokers that know each other")

    def _knows_all(self, broker_id: int) -> bool:
        return len(self.broker(broker_id).metadata.brokers()) == len(self.cluster.ids)

    @property
    def controller(self) -> int:
        found = self.cluster.controller()
        assert found is not None
        return found

    @property
    def other(self) -> int:
        """A broker that is not the controller."""
        return next(each for each in (1, 2, 3) if each != self.controller)

    async def ask(
        self, api: ApiKey, version: int, build: Callable[[Maker], Body], broker_id: int | None = None
    ) -> Body:
        body = build(maker(api, version, False))
        return await self.peers.get(self.controller if broker_id is None else broker_id).request(api, version, body, 20)

    async def create(self, name: str, partitions: int = 1, factor: int = 3, **configs: str) -> Body:
        def build(make: Maker) -> Body:
            topic = make(
                "CreatableTopic",
                name=name,
                num_partitions=partitions,
                replication_factor=factor,
                assignments=(),
                configs=tuple(
                    make("CreatableTopicConfig", name=each.replace("_", "."), value=configs[each]) for each in configs
                ),
            )
            return make.root(topics=(topic,), timeout=TIMEOUT, validate_only=False)

        (result,) = (await self.ask(ApiKey.CREATE_TOPICS, 7, build)).topics
        return result


def play(scenario: Callable[[Brokers], Coroutine[Any, Any, None]], **settings: str) -> None:
    """Settings are Kafka's names with ``_`` for dots."""
    with Simulation(7) as simulation:
        brokers = Brokers(simulation, {name.replace("_", "."): value for name, value in settings.items()})

        async def run() -> None:
            await brokers.started()
            await asyncio.wait_for(scenario(brokers), 300)

        simulation.run(run(), 600)
        assert not simulation.loop.failures, simulation.loop.failures
