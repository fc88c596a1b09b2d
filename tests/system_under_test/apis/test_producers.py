"""InitProducerId and DescribeProducers on whole brokers: every id is given once, whatever happens to brokers and ZooKeeper."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from system_under_test.apis import init_producer_id
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.batch import encode
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, Maker
from system_under_test.simulation.client import CLIENT_ERRORS
from system_under_test.simulation.world import until
from system_under_test.types import TopicPartition
from system_under_test.world import SetData
from system_under_test.zookeeper.nodes import LATEST_PRODUCER_ID_BLOCK, ProducerIdBlock
from tests.system_under_test.apis.cluster import TIMEOUT, Brokers, play


def init(transactional_id: str | None = None, producer_id: int = -1, producer_epoch: int = -1) -> Any:
    def build(make: Maker) -> Body:
        return make.root(
            transactional_id=transactional_id,
            transaction_timeout=TIMEOUT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )

    return build


async def new_id(brokers: Brokers, broker_id: int, version: int = 4) -> int:
    answer = await brokers.ask(ApiKey.INIT_PRODUCER_ID, version, init(), broker_id)
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.none, 0)
    return int(answer.producer_id)


def block(brokers: Brokers) -> bytes:
    return brokers.cluster.simulation.zookeeper.tree.nodes[LATEST_PRODUCER_ID_BLOCK].data


def test_blocks_of_a_thousand_in_kafkas_json() -> None:
    async def scenario(brokers: Brokers) -> None:
        assert block(brokers) == b""
        assert [await new_id(brokers, 2, version) for version in init_producer_id.VERSIONS] == list(range(6))
        assert block(brokers) == b'{"version":1,"broker":2,"block_start":"0","block_end":"999"}'
        assert await new_id(brokers, 1) == 1000
        assert await new_id(brokers, 2) == 6
        assert block(brokers) == b'{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}'

    play(scenario)


@pytest.mark.parametrize("version", init_producer_id.VERSIONS)
def test_what_is_refused(version: int) -> None:
    async def scenario(brokers: Brokers) -> None:
        async def code(build: Any) -> ErrorCode:
            answer = await brokers.ask(ApiKey.INIT_PRODUCER_ID, version, build, 1)
            assert (answer.producer_id, answer.producer_epoch) == (-1, -1) or answer.error_code is ErrorCode.none
            return ErrorCode(answer.error_code)

        assert await code(init("mine")) is ErrorCode.not_coordinator
        assert await code(init("")) is ErrorCode.invalid_request
        if version >= 3:
            assert await code(init(None, 5, -1)) is ErrorCode.invalid_request
            assert await code(init(None, -1, 5)) is ErrorCode.invalid_request
            assert await code(init(None, 5, 0)) is ErrorCode.none

    play(scenario)


def test_a_node_without_meaning_gives_no_ids() -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper = brokers.cluster.simulation.zookeeper
        full = ProducerIdBlock(1, 2**63 - 1500, 2**63 - 501)
        for content in (b"garbage", b'{"version":1,"broker":1,"block_start":0,"block_end":999}', full.encode()):
            zookeeper.administer([SetData(LATEST_PRODUCER_ID_BLOCK, content)])
            answer = await brokers.ask(ApiKey.INIT_PRODUCER_ID, 4, init(), 3)
            assert (answer.error_code, answer.producer_id) == (ErrorCode.unknown_server_error, -1)
            assert block(brokers) == content

    play(scenario)


def test_no_id_is_given_twice_by_brokers_that_race_die_and_lose_zookeeper() -> None:
    async def scenario(brokers: Brokers) -> None:
        given: list[int] = []
        random = brokers.cluster.simulation.fork("disturbance")

        async def ask(broker_id: int) -> None:
            for _ in range(900):
                try:
                    answer = await brokers.ask(ApiKey.INIT_PRODUCER_ID, 4, init(), broker_id)
                except CLIENT_ERRORS:
                    await asyncio.sleep(0.3)
                    continue
                if answer.error_code is ErrorCode.none:
                    given.append(answer.producer_id)
                else:
                    assert answer.error_code is ErrorCode.coordinator_load_in_progress

        asking = [asyncio.ensure_future(ask(broker_id)) for broker_id in (1, 1, 2, 2, 3, 3)]
        while not all(each.done() for each in asking):
            await asyncio.sleep(random.random() * 0.5)
            struck = random.choice(brokers.cluster.ids)
            name = f"broker-{struck}"
            match random.randrange(4):
                case 0 if brokers.cluster.is_running(struck):
                    brokers.cluster.host(struck).kill()
                    brokers.cluster.start(struck)
                case 1:
                    for session in brokers.cluster.simulation.zookeeper.sessions_of(name):
                        brokers.cluster.simulation.zookeeper.expire(session)
                case 2:
                    brokers.cluster.simulation.board.drop_connections(name, "zookeeper")
        await asyncio.gather(*asking)
        assert len(given) > 2000
        assert len(set(given)) == len(given)
        assert max(given) >= 3000, "no block was lost: nobody died with one"

    play(scenario)


def test_describe_producers() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t")
        key = TopicPartition("t", 0)
        await until(lambda: brokers.cluster.replica(1, key) is not None, 20, "a replica")
        await until(lambda: any(_leads(brokers, each, key) for each in (1, 2, 3)), 20, "a leader")
        leader = next(each for each in (1, 2, 3) if _leads(brokers, each, key))
        await _produce(brokers, leader, encode([(b"k", b"v")] * 3, producer_id=70, producer_epoch=2, base_sequence=0))

        def ask(make: Maker) -> Body:
            return make.root(
                topics=(
                    make("TopicRequest", name="t", partition_indexes=(0, 1)),
                    make("TopicRequest", name="nothing", partition_indexes=(0,)),
                )
            )

        for broker_id in (1, 2, 3):
            answer = await brokers.ask(ApiKey.DESCRIBE_PRODUCERS, 0, ask, broker_id)
            (found, missing), (unknown,) = (each.partitions for each in answer.topics)
            assert {missing.error_code, unknown.error_code} == {ErrorCode.unknown_topic_or_partition}
            (state,) = found.active_producers
            assert (state.producer_id, state.producer_epoch, state.last_sequence) == (70, 2, 2)
            assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, -1)

    play(scenario)


def _leads(brokers: Brokers, broker_id: int, key: TopicPartition) -> bool:
    replica = brokers.cluster.replica(broker_id, key)
    return replica is not None and replica.is_leader


async def _produce(brokers: Brokers, leader: int, records: bytes) -> None:
    def build(make: Maker) -> Body:
        part = make("PartitionProduceData", index=0, records=records)
        data = make("TopicProduceData", name="t", partition_data=(part,))
        return make.root(transactional_id=None, acks=-1, timeout=timedelta(seconds=5), topic_data=(data,))

    offsets = []
    for _ in range(2):  # the second time it is a duplicate, whose answer waits for the high watermark in the same way
        answer = await brokers.ask(ApiKey.PRODUCE, 9, build, leader)
        result = answer.responses[0].partition_responses[0]
        assert result.error_code is ErrorCode.none
        offsets.append(result.base_offset)
    assert offsets == [0, 0]
