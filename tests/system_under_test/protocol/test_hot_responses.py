"""The hand-written Produce and Fetch responses, and the followers' Fetch request, are byte for byte what kio writes."""

from __future__ import annotations

import datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.fetch_request import (
    FETCH_VERSION,
    FetchRequestData,
    PartitionToFetch,
    encode_fetch_request,
)
from system_under_test.protocol.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchResponseData,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    TopicData,
    encode_fetch_response,
)
from system_under_test.protocol.messages import encode_request, encode_response, maker
from system_under_test.protocol.produce_response import (
    PartitionResult,
    ProduceResponseData,
    RecordError,
    encode_produce_response,
)

FETCH_VERSIONS = range(4, 18)
PRODUCE_VERSIONS = range(3, 12)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=200)
errors = st.sampled_from(ErrorCode)
leaders = st.builds(LeaderIdAndEpoch, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
endpoints = st.lists(st.builds(NodeEndpoint, int32, names, int32, st.none() | names), max_size=3).map(tuple)
fetched_partitions = st.builds(
    PartitionData,
    index=int32,
    error=errors,
    high_watermark=int64,
    last_stable_offset=int64,
    log_start_offset=int64,
    aborted=st.none() | st.lists(st.builds(AbortedTransaction, int64, int64), max_size=3).map(tuple),
    diverging_epoch=st.none() | st.builds(EpochEndOffset, st.integers(0, 2**31 - 1), st.integers(0, 2**62)),
    current_leader=st.none() | leaders,
    preferred_read_replica=int32,
    records=st.none() | st.binary(max_size=300),
)
fetched = st.builds(
    FetchResponseData,
    topics=st.lists(st.builds(TopicData, names, st.uuids(), st.lists(fetched_partitions, max_size=3)), max_size=3),
    throttle_ms=st.integers(0, 2**31 - 1),
    error=errors,
    session_id=int32,
    node_endpoints=endpoints,
)
produced_partitions = st.builds(
    PartitionResult,
    index=int32,
    error=errors,
    base_offset=int64,
    log_append_time_ms=st.just(-1) | st.integers(0, 2**41),
    log_start_offset=int64,
    record_errors=st.lists(st.builds(RecordError, int32, st.none() | names), max_size=3).map(tuple),
    error_message=st.none() | names,
    current_leader=st.none() | leaders,
)
produced = st.builds(
    ProduceResponseData,
    topics=st.lists(st.tuples(names, st.lists(produced_partitions, max_size=3)), max_size=3),
    throttle_ms=st.integers(0, 2**31 - 1),
    node_endpoints=endpoints,
)


@given(version=st.sampled_from(FETCH_VERSIONS), data=fetched)
@settings(max_examples=600, deadline=None)
def test_fetch(version: int, data: FetchResponseData) -> None:
    ours = encode_response(ApiKey.FETCH, version, 7, encode_fetch_response(version, data))
    assert b"".join(ours) == b"".join(encode_response(ApiKey.FETCH, version, 7, _kio_fetch(version, data)))


@given(version=st.sampled_from(PRODUCE_VERSIONS), data=produced)
@settings(max_examples=600, deadline=None)
def test_produce(version: int, data: ProduceResponseData) -> None:
    ours = encode_response(ApiKey.PRODUCE, version, 7, encode_produce_response(version, data))
    assert b"".join(ours) == b"".join(encode_response(ApiKey.PRODUCE, version, 7, _kio_produce(version, data)))


def _endpoints(make: Any, data: FetchResponseData | ProduceResponseData, since: int) -> Any:
    if make.version < since:
        return ()
    return tuple(
        make("NodeEndpoint", node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
        for each in data.node_endpoints
    )


_int32 = st.integers(-(2**31), 2**31 - 1)
_int64 = st.integers(-(2**63), 2**63 - 1)
_positive = st.integers(0, 2**31 - 1)
_ids = st.uuids().filter(lambda each: each.int != 0)
fetch_requests = st.builds(
    FetchRequestData,
    _positive,
    _int64,
    _positive,
    _int32,
    _int32,
    _int32,
    _int32,
    st.dictionaries(
        _ids, st.lists(st.builds(PartitionToFetch, _int32, _int32, _int64, _int32, _int64, _int32)), max_size=3
    ),
    st.dictionaries(_ids, st.lists(_int32), max_size=3),
)


@given(fetch_requests, st.text(max_size=20))
@settings(max_examples=300, deadline=None)
def test_fetch_request(data: FetchRequestData, client_id: str) -> None:
    ours = encode_request(ApiKey.FETCH, FETCH_VERSION, 7, client_id, encode_fetch_request(data))
    assert b"".join(ours) == b"".join(encode_request(ApiKey.FETCH, FETCH_VERSION, 7, client_id, _kio_request(data)))


def _kio_request(data: FetchRequestData) -> Any:
    make = maker(ApiKey.FETCH, FETCH_VERSION, False)
    topics = tuple(
        make(
            "FetchTopic",
            topic_id=topic_id,
            partitions=tuple(
                make(
                    "FetchPartition",
                    partition=each.partition,
                    current_leader_epoch=each.current_leader_epoch,
                    fetch_offset=each.fetch_offset,
                    last_fetched_epoch=each.last_fetched_epoch,
                    log_start_offset=each.log_start_offset,
                    partition_max_bytes=each.max_bytes,
                )
                for each in partitions
            ),
        )
        for topic_id, partitions in data.topics.items()
    )
    return make.root(
        replica_state=make("ReplicaState", replica_id=data.replica_id, replica_epoch=data.replica_epoch),
        max_wait=datetime.timedelta(milliseconds=data.max_wait_ms),
        min_bytes=data.min_bytes,
        max_bytes=data.max_bytes,
        session_id=data.session_id,
        session_epoch=data.session_epoch,
        topics=topics,
        forgotten_topics_data=tuple(
            make("ForgottenTopic", topic_id=topic_id, partitions=tuple(indexes))
            for topic_id, indexes in data.forgotten.items()
        ),
    )


def _kio_fetch(version: int, data: FetchResponseData) -> Any:
    make = maker(ApiKey.FETCH, version)
    topics = []
    for topic in data.topics:
        partitions = []
        for part in topic.partitions:
            tags: dict[str, Any] = {}
            if version >= 12 and part.diverging_epoch is not None:
                end = part.diverging_epoch
                tags["diverging_epoch"] = make("EpochEndOffset", epoch=end.epoch, end_offset=end.end_offset)
            if version >= 12 and part.current_leader is not None:
                at = part.current_leader
                tags["current_leader"] = make("LeaderIdAndEpoch", leader_id=at.leader_id, leader_epoch=at.leader_epoch)
            aborted = part.aborted
            partitions.append(
                make(
                    "PartitionData",
                    partition_index=part.index,
                    error_code=part.error,
                    high_watermark=part.high_watermark,
                    last_stable_offset=part.last_stable_offset,
                    log_start_offset=part.log_start_offset,
                    aborted_transactions=None
                    if aborted is None
                    else tuple(
                        make("AbortedTransaction", producer_id=each.producer_id, first_offset=each.first_offset)
                        for each in aborted
                    ),
                    preferred_read_replica=part.preferred_read_replica,
                    records=part.records,
                    **tags,
                )
            )
        name = {"topic_id": topic.topic_id, "topic": topic.name}
        topics.append(make("FetchableTopicResponse", partitions=tuple(partitions), **name))
    return make.root(
        throttle_time=datetime.timedelta(milliseconds=data.throttle_ms),
        error_code=data.error,
        session_id=data.session_id,
        responses=tuple(topics),
        node_endpoints=_endpoints(make, data, 16),
    )


def _kio_produce(version: int, data: ProduceResponseData) -> Any:
    make = maker(ApiKey.PRODUCE, version)
    topics = []
    for name, parts in data.topics:
        partitions = []
        for part in parts:
            fields: dict[str, Any] = {}
            if version >= 8:
                fields["record_errors"] = tuple(
                    make(
                        "BatchIndexAndErrorMessage",
                        batch_index=each.batch_index,
                        batch_index_error_message=each.message,
                    )
                    for each in part.record_errors
                )
            if version >= 10 and part.current_leader is not None:
                at = part.current_leader
                fields["current_leader"] = make(
                    "LeaderIdAndEpoch", leader_id=at.leader_id, leader_epoch=at.leader_epoch
                )
            appended = None
            if part.log_append_time_ms >= 0:
                appended = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(
                    milliseconds=part.log_append_time_ms
                )
            partitions.append(
                make(
                    "PartitionProduceResponse",
                    index=part.index,
                    error_code=part.error,
                    base_offset=part.base_offset,
                    log_append_time=appended,
                    log_start_offset=part.log_start_offset,
                    error_message=part.error_message,
                    **fields,
                )
            )
        topics.append(make("TopicProduceResponse", name=name, partition_responses=tuple(partitions)))
    return make.root(
        responses=tuple(topics),
        throttle_time=datetime.timedelta(milliseconds=data.throttle_ms),
        node_endpoints=_endpoints(make, data, 10),
    )
