"""What handlers of requests work with: the parts of one broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from system_under_test.bugs import Bugs
from system_under_test.config import BrokerConfig
from system_under_test.failpoints import Failpoints
from system_under_test.world import World

if TYPE_CHECKING:
    from system_under_test.controller.controller import Controller
    from system_under_test.metadata.cache import MetadataCache
    from system_under_test.replication.replica_manager import ReplicaManager
    from system_under_test.storage.log_manager import LogManager
    from system_under_test.zookeeper.configs import Configs
    from system_under_test.zookeeper.producer_ids import ProducerIds
    from system_under_test.zookeeper.topics import TopicStore


@dataclass(slots=True)
class BrokerContext:
    world: World
    config: BrokerConfig
    broker_id: int
    broker_epoch: int
    """Changes with each registration; -1 before the first."""
    cluster_id: str
    failpoints: Failpoints
    bugs: Bugs
    logs: LogManager
    metadata: MetadataCache
    replicas: ReplicaManager
    topics: TopicStore
    configs: Configs
    controller: Controller
    producer_ids: ProducerIds
