"""The APIs of replication in every version that is served: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest

from system_under_test.apis import delete_records, fetch, list_offsets, offset_for_leader_epoch, produce
from system_under_test.failpoints import Action, Dropped
from system_under_test.protocol.batch import encode
from system_under_test.protocol.errors import ErrorCode, MalformedRequest
from system_under_test.protocol.messages import (
    Body,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    maker,
)
from system_under_test.simulation.world import Simulation
from tests.system_under_test.replication.bench import KEY, NOBODY, TOPIC_ID, Bench, values


def run(work: Coroutine[Any, Any, None], simulation: Simulation) -> None:
    with simulation:
        simulation.run(work, within_s=300)


async def ask(bench: Bench, broker_id: int, api: ModuleType, version: int, body: Body) -> Body:
    """Through kio's bytes both ways; None where nothing is answered."""
    frame = b"".join(bytes(each) for each in encode_request(api.API, version, 7, "test", body))[4:]

    async def handle() -> Body:
        reply = await api.handle(bench[broker_id].context, decode_request(frame, api.API, version, NOBODY))
        if isinstance(reply, asyncio.Future):
            reply = await reply
        if reply is None:
            return None
        answer = b"".join(bytes(each) for each in encode_response(api.API, version, 7, reply))
        assert int.from_bytes(answer[:4], "big") == len(answer) - 4
        return decode_response(api.API, version, answer[4:])

    return await bench.on(broker_id, handle())


def produce_body(version: int, acks: int = -1, records: bytes | None = None, topic: str = KEY.topic) -> Body:
    make = maker(produce.API, version, False)
    part = make("PartitionProduceData", index=0, records=encode([(b"k", b"v")]) if records is None else records)
    data = make("TopicProduceData", name=topic, partition_data=(part,))
    return make.root(transactional_id=None, acks=acks, timeout=timedelta(seconds=1), topic_data=(data,))


def fetch_body(version: int, offset: int = 0, *, max_wait_ms: int = 0, **root: Any) -> Body:
    make = maker(fetch.API, version, False)
    epoch = root.pop("current_leader_epoch", -1)
    topic_id = root.pop("topic_id", TOPIC_ID)
    part = make(
        "FetchPartition",
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    topic = make("FetchTopic", topic=KEY.topic, topic_id=topic_id, partitions=(part,))
    fields: dict[str, Any] = {
        "max_wait": timedelta(milliseconds=max_wait_ms),
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": (topic,),
        "forgotten_topics_data": (),
        **root,
    }
    return make.root(**fields)


@pytest.mark.parametrize("version", produce.VERSIONS)
def test_produce(version: int) -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        for acks, offset in ((-1, 0), (1, 1)):
            answer = await ask(bench, 1, produce, version, produce_body(version, acks))
            result = answer.responses[0].partition_responses[0]
            assert (result.error_code, result.base_offset) == (ErrorCode.none, offset)
        assert await ask(bench, 1, produce, version, produce_body(version, 0)) is None
        assert bench[1].log.end_offset == 3
        answer = await ask(bench, 1, produce, version, produce_body(version, 2))
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.invalid_required_acks
        elsewhere = await ask(bench, 2, produce, version, produce_body(version))
        result = elsewhere.responses[0].partition_responses[0]
        assert result.error_code is ErrorCode.not_leader_or_follower
        if version >= 10:
            assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (1, 0)
            assert [(each.node_id, each.host) for each in elsewhere.node_endpoints] == [(1, "broker-1")]
        with pytest.raises(MalformedRequest, match="not_leader_or_follower"):
            await ask(bench, 2, produce, version, produce_body(version, 0))
        unknown = await ask(bench, 1, produce, version, produce_body(version, topic="nothing"))
        assert unknown.responses[0].partition_responses[0].error_code is ErrorCode.unknown_topic_or_partition
        damaged = bytearray(encode([(b"k", b"v")]))
        damaged[-1] ^= 1
        answer = await ask(bench, 1, produce, version, produce_body(version, records=bytes(damaged)))
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.corrupt_message
        assert bench[1].log.end_offset == 3

    run(main(), simulation := Simulation(version))


@pytest.mark.parametrize("version", fetch.VERSIONS)
def test_fetch(version: int) -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.produce(1, b"a", b"b")
        answer = await ask(bench, 1, fetch, version, fetch_body(version))
        part = answer.responses[0].partitions[0]
        assert (part.error_code, part.high_watermark, values(part.records)) == (ErrorCode.none, 2, [b"a", b"b"])
        waiting = asyncio.ensure_future(ask(bench, 1, fetch, version, fetch_body(version, 2, max_wait_ms=9000)))
        await asyncio.sleep(0.1)
        await bench.produce(1, b"c")
        assert values((await waiting).responses[0].partitions[0].records) == [b"c"]
        beyond = await ask(bench, 1, fetch, version, fetch_body(version, 9))
        assert beyond.responses[0].partitions[0].error_code is ErrorCode.offset_out_of_range
        elsewhere = await ask(bench, 2, fetch, version, fetch_body(version))
        part = elsewhere.responses[0].partitions[0]
        assert part.error_code is ErrorCode.not_leader_or_follower
        if version >= 9:
            fenced = await ask(bench, 1, fetch, version, fetch_body(version, current_leader_epoch=9))
            assert fenced.responses[0].partitions[0].error_code is ErrorCode.unknown_leader_epoch
        if version >= 13:
            unknown = await ask(bench, 1, fetch, version, fetch_body(version, topic_id=uuid.UUID(int=99)))
            assert unknown.responses[0].topic_id == uuid.UUID(int=99)
            assert unknown.responses[0].partitions[0].error_code is ErrorCode.unknown_topic_id
        if version >= 16:
            assert part.current_leader.leader_id == 1
            assert [each.node_id for each in elsewhere.node_endpoints] == [1]

    run(main(), simulation := Simulation(version))


@pytest.mark.parametrize("version", [version for version in fetch.VERSIONS if version >= 7])
def test_fetch_sessions(version: int) -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.produce(1, b"a")
        first = await ask(bench, 1, fetch, version, fetch_body(version, session_epoch=0))
        assert first.session_id > 0
        assert values(first.responses[0].partitions[0].records) == [b"a"]
        session = {"session_id": first.session_id}
        second = await ask(bench, 1, fetch, version, fetch_body(version, 1, **session, session_epoch=1))
        assert (second.session_id, second.responses) == (first.session_id, ())
        await bench.produce(1, b"b")
        third = await ask(bench, 1, fetch, version, fetch_body(version, **session, session_epoch=2, topics=()))
        assert values(third.responses[0].partitions[0].records) == [b"b"], "from where the session stands"
        wrong = await ask(bench, 1, fetch, version, fetch_body(version, **session, session_epoch=9, topics=()))
        assert wrong.error_code is ErrorCode.invalid_fetch_session_epoch
        lost = await ask(bench, 1, fetch, version, fetch_body(version, session_id=5, session_epoch=1, topics=()))
        assert lost.error_code is ErrorCode.fetch_session_id_not_found

    run(main(), simulation := Simulation(version))


def test_a_small_limit_is_shared_by_turns_and_never_blocks() -> None:
    """At least one batch comes, however large; max_bytes of 1 still makes progress."""

    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        for value in (b"a" * 500, b"b" * 500):
            await bench.produce(1, value)
        answer = await ask(bench, 1, fetch, 12, fetch_body(12, max_bytes=1))
        assert values(answer.responses[0].partitions[0].records) == [b"a" * 500]

    run(main(), simulation := Simulation(1))


@pytest.mark.parametrize("version", list_offsets.VERSIONS)
def test_list_offsets(version: int) -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.produce(1, b"a")
        make = maker(list_offsets.API, version, False)

        async def find(timestamp: int, broker_id: int = 1) -> tuple[ErrorCode, int]:
            part = make("ListOffsetsPartition", partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
            topic = make("ListOffsetsTopic", name=KEY.topic, partitions=(part,))
            body = make.root(replica_id=-1, isolation_level=0, topics=(topic,))
            answer = await ask(bench, broker_id, list_offsets, version, body)
            found = answer.topics[0].partitions[0]
            return found.error_code, found.offset

        assert await find(-1) == (ErrorCode.none, 1)
        assert await find(-2) == (ErrorCode.none, 0)
        assert await find(0) == (ErrorCode.none, 0)
        assert await find(-3) == ((ErrorCode.none, 0) if version >= 7 else (ErrorCode.unsupported_version, -1))
        assert await find(-1, 2) == (ErrorCode.not_leader_or_follower, -1)
        simulation.cut("broker-1", "broker-2")
        await bench.produce(1, b"b", acks=1)
        await bench.elect(1, tell=(1,))
        lags = ErrorCode.offset_not_available if version >= 5 else ErrorCode.leader_not_available
        assert await find(-1) == (lags, -1)

    run(main(), simulation := Simulation(version))


@pytest.mark.parametrize("version", offset_for_leader_epoch.VERSIONS)
def test_offset_for_leader_epoch(version: int) -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.produce(1, b"a")
        await bench.elect(1)
        make = maker(offset_for_leader_epoch.API, version, False)

        async def find(epoch: int, current: int = -1) -> tuple[ErrorCode, int, int]:
            part = make("OffsetForLeaderPartition", partition=0, current_leader_epoch=current, leader_epoch=epoch)
            topic = make("OffsetForLeaderTopic", topic=KEY.topic, partitions=(part,))
            body = make.root(replica_id=-1, topics=(topic,))
            answer = await ask(bench, 1, offset_for_leader_epoch, version, body)
            found = answer.topics[0].partitions[0]
            return found.error_code, found.leader_epoch, found.end_offset

        assert await find(0) == (ErrorCode.none, 0, 1)
        assert await find(1) == (ErrorCode.none, 1, 1)
        assert await find(2) == (ErrorCode.none, -1, -1)
        assert await find(0, current=0) == (ErrorCode.fenced_leader_epoch, -1, -1)
        assert await find(0, current=2) == (ErrorCode.unknown_leader_epoch, -1, -1)

    run(main(), simulation := Simulation(version))


@pytest.mark.parametrize("version", delete_records.VERSIONS)
def test_delete_records(version: int) -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.produce(1, b"a")
        await bench.produce(1, b"b")
        make = maker(delete_records.API, version, False)
        part = make("DeleteRecordsPartition", partition_index=0, offset=1)
        topic = make("DeleteRecordsTopic", name=KEY.topic, partitions=(part,))
        body = make.root(topics=(topic,), timeout=timedelta(seconds=5))
        answer = await ask(bench, 1, delete_records, version, body)
        result = answer.topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (ErrorCode.none, 1)
        assert [bench[each].log.start_offset for each in (1, 2, 3)] == [1, 1, 1]

    run(main(), simulation := Simulation(version))


def test_an_acknowledgement_can_be_held_and_dropped() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        points = bench[1].failpoints
        held = points.arm("produce.before_ack", Action.HOLD, {"topic": KEY.topic})
        answer = asyncio.ensure_future(ask(bench, 1, produce, 9, produce_body(9)))
        await asyncio.sleep(1)
        assert not answer.done()
        assert bench[1].log.high_watermark == 1
        points.release(held)
        assert (await answer).responses[0].partition_responses[0].error_code is ErrorCode.none
        points.arm("produce.before_ack", Action.DROP, count=1)
        with pytest.raises(Dropped):
            await ask(bench, 1, produce, 9, produce_body(9))
        points.arm("fetch.response", Action.DROP, {"peer": -1}, count=1)
        with pytest.raises(Dropped):
            await ask(bench, 1, fetch, 9, fetch_body(9))
        assert bench[1].log.end_offset == 2

    run(main(), simulation := Simulation(1))
