"""One broker: its parts, put together, started and stopped in the right order.

Start: a ZooKeeper session; the configuration in it; the logs (recovered where the last life did not end cleanly); the
listeners; then the registration, after which the controller sends LeaderAndIsr and clients are served.

A session that expires is replaced (:mod:`system_under_test.zookeeper.session`): the broker registers again under a new
broker epoch, and everything else goes on. Meanwhile it serves what it leads, as Kafka does: a zombie is fenced by
epochs, not by its own insight.

Stop: leadership is handed over first (ControlledShutdown), then everything is flushed and a clean shutdown noted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from system_under_test.bugs import Bugs
from system_under_test.config import BrokerConfig
from system_under_test.controller.controller import Controller
from system_under_test.dynamic_config import dynamic_settings
from system_under_test.failpoints import Failpoints
from system_under_test.metadata.cache import MetadataCache
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import maker
from system_under_test.replication.isr_store import ZooKeeperIsrStore
from system_under_test.replication.replica_manager import ReplicaManager
from system_under_test.server.connection import ClientConnection
from system_under_test.server.context import BrokerContext
from system_under_test.server.peer import Peers
from system_under_test.storage.log_manager import LogManager, generated_broker_id
from system_under_test.world import Connection, ConnectionLost, Coordination, CoordinationError, Listener, NoNode, World
from system_under_test.zookeeper import nodes, registration
from system_under_test.zookeeper.configs import BROKER_DEFAULT, Configs
from system_under_test.zookeeper.nodes import BrokerRegistration
from system_under_test.zookeeper.producer_ids import ProducerIds
from system_under_test.zookeeper.session import Sessions
from system_under_test.zookeeper.topics import TopicStore

log = logging.getLogger(__name__)
CONTROLLED_SHUTDOWN_VERSION = 3


class Broker:
    """``await start()``, then ``await wait()`` for what should never happen, then ``await shutdown()``."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        *,
        bugs: Bugs | None = None,
        failpoints: Failpoints | None = None,
    ) -> None:
        self.world = world
        self.config = config
        self.bugs: Bugs = config.bug_switches if bugs is None else bugs
        self.failpoints = failpoints or Failpoints()
        self.sessions = Sessions(world, config.zookeeper_session_timeout_ms)
        self.metadata = MetadataCache(config.inter_broker_listener_name, self.bugs)
        self.configs = Configs(lambda: self.sessions.current)
        self.peers = Peers(world.network, self.metadata.endpoint, "broker")
        self._listeners: list[Listener] = []
        self._connections: dict[ClientConnection, None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._context: BrokerContext | None = None
        self._stopping = False
        self._serving = asyncio.Event()
        """Requests are taken up."""

    @property
    def context(self) -> BrokerContext:
        assert self._context is not None, "not started"
        return self._context

    @property
    def broker_id(self) -> int:
        return self.context.broker_id

    @property
    def broker_epoch(self) -> int:
        return -1 if self._context is None else self._context.broker_epoch

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(listener.port for listener in self._listeners)

    async def start(self) -> None:
        config = self.config
        for bug in sorted(self.bugs, key=lambda each: each.value):
            log.critical("BUG SWITCH %s IS ON: this broker breaks its promises", bug.value)
        zookeeper = await self.sessions.start()
        await registration.make_persistent_paths(zookeeper)
        cluster_id = await registration.cluster_id(zookeeper, self.world.random)
        await self.configs.start()
        broker_id = await self._broker_id(zookeeper)
        self.config.set_dynamic(dynamic_settings(config, self.configs, broker_id))
        self._context = self._assemble(broker_id, cluster_id)
        self.context.logs.load(self.configs.topics())
        self.configs.on_topic_config(self.context.logs.update_config)
        self.configs.on_topic_config(self.context.controller.topic_config_changed)
        self.configs.on_broker_config(self._broker_config_changed)
        await self._listen()
        await self._register(zookeeper)
        # Not before: only the registration tells requests that were meant for an earlier life of this broker.
        self._serving.set()
        self.sessions.on_established(self._session_established)
        self._tasks = [
            self._task(self.context.logs.run(), "logs"),
            self._task(self.context.replicas.run(), "replicas"),
        ]
        await self.context.controller.start()
        self._tasks.append(self._task(self.context.controller.wait(), "controller"))
        log.info("broker %d serves %s", broker_id, ", ".join(config.listeners))

    def _assemble(self, broker_id: int, cluster_id: str) -> BrokerContext:
        world, config = self.world, self.config
        self.peers = Peers(world.network, self.metadata.endpoint, f"broker-{broker_id}")
        logs = LogManager(world, config.log_dirs, broker_id, config.effective, cluster_id=cluster_id)
        replicas = ReplicaManager(
            world,
            broker_id,
            config,
            logs,
            self.metadata,
            self.peers,
            ZooKeeperIsrStore(lambda: self.sessions.unretried),
            self.failpoints,
            self.bugs,
            self.configs.topic,
        )
        return BrokerContext(
            world=world,
            config=config,
            broker_id=broker_id,
            broker_epoch=-1,
            cluster_id=cluster_id,
            failpoints=self.failpoints,
            bugs=self.bugs,
            logs=logs,
            metadata=self.metadata,
            replicas=replicas,
            topics=TopicStore(lambda: self.sessions.current, world.random),
            configs=self.configs,
            controller=Controller(world, broker_id, config, self.sessions, self.failpoints),
            producer_ids=ProducerIds(lambda: self.sessions.current, broker_id),
        )

    def _broker_config_changed(self, name: str, _settings: Mapping[str, str]) -> None:
        if name not in (BROKER_DEFAULT, str(self.broker_id)):
            return
        unclean_before = self.config.unclean_leader_election_enable
        self.config.set_dynamic(dynamic_settings(self.config, self.configs, self.broker_id))
        self.context.logs.update_defaults(self.config.effective, self.configs.topic)
        if self.config.unclean_leader_election_enable and not unclean_before:
            self.context.controller.unclean_election_enabled()

    def _task(self, work: object, name: str) -> asyncio.Task[None]:
        assert asyncio.iscoroutine(work)
        return asyncio.get_running_loop().create_task(work, name=name)

    async def _broker_id(self, zookeeper: Coordination) -> int:
        if self.config.broker_id >= 0:
            return int(self.config.broker_id)
        kept = generated_broker_id(self.world, self.config.log_dirs)
        if kept is not None:
            return kept
        return await registration.generate_broker_id(zookeeper, self.config.reserved_broker_max_id)

    async def _listen(self) -> None:
        for address in self.config.listener_addresses:

            async def serve(connection: Connection, listener: str = address.name) -> None:
                client = ClientConnection(self.context, connection, listener)
                self._connections[client] = None
                try:
                    await self._serving.wait()
                    await client.serve()
                finally:
                    self._connections.pop(client, None)

            self._listeners.append(await self.world.network.listen(address.host, address.port, serve))

    async def _register(self, zookeeper: Coordination) -> None:
        advertised = []
        for position, each in enumerate(self.config.advertised):
            port = each.port or self._listeners[position].port
            advertised.append(nodes.Listener(each.name, each.host, port, "PLAINTEXT"))
        epoch = await registration.register(
            zookeeper,
            BrokerRegistration(
                self.broker_id, tuple(advertised), self.world.clock.time_ms(), self.config.broker_rack or None
            ),
            self.config.zookeeper_session_timeout_ms,
        )
        self.context.broker_epoch = epoch
        self.context.replicas.broker_epoch = epoch
        log.info("registered with broker epoch %d", epoch)

    async def _session_established(self, zookeeper: Coordination) -> None:
        await self._register(zookeeper)
        await self.configs.start()
        self.context.controller.session_established()

    async def wait(self) -> None:
        """Returns when it is stopped; raises what ended one of its parts."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        if not self._stopping:
            for each in done:
                each.result()

    async def shutdown(self, *, hand_over: bool = True) -> None:
        self._stopping = True
        if self._context is not None:
            if hand_over and self.config.controlled_shutdown_enable:
                await self._hand_over()
            await self._stop_parts(self._context)
        await self.sessions.close()

    async def _stop_parts(self, context: BrokerContext) -> None:
        context.replicas.begin_shutdown()
        for listener in self._listeners:
            listener.close()
        await context.controller.stop()
        await self.configs.stop()
        await context.replicas.shutdown()
        context.producer_ids.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._connections):
            connection.close()
        self._serving.set()
        self.peers.close()
        context.logs.shutdown()

    async def _hand_over(self) -> None:
        """Ask the controller to move leadership away; what cannot be moved in time is taken by its election later."""
        tries: int = self.config.controlled_shutdown_max_retries
        for attempt in range(tries + 1):
            try:
                left = await self._ask_for_hand_over()
            except (ConnectionLost, TimeoutError, CoordinationError, ApiError) as error:
                log.warning("controlled shutdown: %s", error)
            else:
                if not left:
                    return
                log.warning("controlled shutdown: %d partitions are still led from here", left)
            if attempt < tries:
                await asyncio.sleep(self.config.controlled_shutdown_retry_backoff_ms / 1000)
        log.warning("shutting down without having handed everything over")

    async def _ask_for_hand_over(self) -> int:
        """How many partitions are still led from here."""
        async with asyncio.timeout(self.config.controller_socket_timeout_ms / 1000):
            try:
                data, _ = await self.sessions.current.get(nodes.CONTROLLER)
            except NoNode:
                raise ApiError(ErrorCode.not_controller, "there is no controller right now") from None
            controller = nodes.ControllerNode.decode(data).broker_id
        if controller == self.broker_id:
            return len(await self.context.controller.controlled_shutdown(self.broker_id, self.broker_epoch))
        make = maker(ApiKey.CONTROLLED_SHUTDOWN, CONTROLLED_SHUTDOWN_VERSION, False)
        answer = await self.peers.get(controller).request(
            ApiKey.CONTROLLED_SHUTDOWN,
            CONTROLLED_SHUTDOWN_VERSION,
            make.root(broker_id=self.broker_id, broker_epoch=self.broker_epoch),
            self.config.controller_socket_timeout_ms / 1000,
        )
        if answer.error_code is not ErrorCode.none:
            raise ApiError(answer.error_code)
        return len(answer.remaining_partitions)
