"""A broker takes up requests once it is registered: until then those meant for its earlier life cannot be told apart.

A deposed controller made a broker that had just come back a leader by an ISR which was no longer in ZooKeeper, and its
high watermark passed the end of an in-sync replica. Found by random schedules.
"""

from __future__ import annotations

import asyncio

from system_under_test.simulation.client import CLIENT_ERRORS, SimpleClient
from system_under_test.simulation.cluster import PORT, SimulatedCluster, Topic
from system_under_test.simulation.world import Simulation, until
from system_under_test.types import BrokerEndpoint, TopicPartition
from system_under_test.zookeeper.nodes import broker_path


def test_requests_wait_for_the_registration() -> None:
    with Simulation(1) as simulation:
        cluster = SimulatedCluster(simulation, 2, (Topic("t", ((1, 2),)),))
        tree = simulation.zookeeper.tree

        async def main() -> None:
            cluster.start_all()
            await until(lambda: cluster.is_whole(TopicPartition("t", 0)), 20, "the partition is whole")
            former = tree.nodes[broker_path(1)].czxid
            client = SimpleClient(simulation.host("client").boot(), {1: BrokerEndpoint(1, "broker-1", PORT)}, "client")
            cluster.host(1).kill()
            cluster.start(1)
            waited = 0
            while True:
                try:
                    await client.refresh()
                except CLIENT_ERRORS:
                    registration = tree.nodes.get(broker_path(1))
                    waited += registration is not None and registration.czxid == former
                    await asyncio.sleep(0.05)
                else:
                    break
            assert tree.nodes[broker_path(1)].czxid > former
            assert waited, "its former life was still registered when it was asked first"

        simulation.run(main())
