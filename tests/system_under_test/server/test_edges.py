"""The shipped broker at the edge of the protocol, held to what Apache Kafka 3.9.1 answered to the very same bytes.

``python -m bench.oracle`` asked it. Where the two differ, ``ELSEWISE`` says why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.oracle import QUESTIONS, TOPIC
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.messages import decode_response
from system_under_test.server.dispatch import served
from tests.system_under_test.server.universe import Universe

ORACLE: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "kafka-3.9.1" / "edges.json").read_text()
)

CLOSED = "closed"
ELSEWISE = {
    "a client id of negative length": (CLOSED, "Kafka takes any negative length for null; -1 is what clients send"),
    "Metadata 1 with -2 topics": (CLOSED, "the same"),
    "Metadata 1 with a name that is not UTF-8": (CLOSED, "Kafka puts U+FFFD in its place and refuses that name"),
    "Metadata 12 without name and id": ("invalid_request", "Kafka: UNKNOWN_SERVER_ERROR, nobody there thought of it"),
    "IncrementalAlterConfigs 1 by an unknown operation": ("invalid_request", "the same"),
    "ElectLeaders 1 of an unknown type": ("invalid_request", "the same"),
    "DeleteTopics 4 of one topic twice": ("unknown_topic", "Kafka answers as often as asked, here once is enough"),
    "Produce 3 of records of a negative size": (CLOSED, "Kafka leaves the client without an answer for good"),
}
"""What is found in our answer, and why Kafka's is another."""


@pytest.fixture(scope="module")
def universe() -> Iterator[Universe]:
    with Universe(TOPIC, 1, brokers=1) as universe:
        yield universe


def _told(question: bytes, answers: list[bytes], goes_on: bool | None) -> object:
    """What has nothing to do with where it ran."""
    if not answers:
        return {True: "silent", None: "silent", False: CLOSED}[goes_on]
    (answer,) = answers
    api = ApiKey(int.from_bytes(question[4:6], "big"))
    version = int.from_bytes(question[6:8], "big", signed=True)
    if api is ApiKey.API_VERSIONS:
        body = decode_response(api, version if version in served()[api].versions else 0, answer)
        return body.error_code, bool(body.api_keys), goes_on
    body = decode_response(api, version, answer)
    if api is ApiKey.METADATA:
        return [(each.error_code, each.name, len(each.partitions)) for each in body.topics], goes_on
    # Null and empty say the same of a partition that cannot be read.
    told = str(body).replace("aborted_transactions=()", "aborted_transactions=None")
    return re.sub(r"error_message=(None|'[^']*'|\"[^\"]*\")", "", told), goes_on


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_edges_are_kafkas(universe: Universe, name: str) -> None:
    question = QUESTIONS[name]
    said = universe.say(question)
    ours = _told(question, said.answers, said.goes_on)
    kafka = ORACLE[name]
    theirs = _told(question, [bytes.fromhex(each) for each in kafka["answers"]], kafka["goes_on"])
    if name in ELSEWISE:
        found, why = ELSEWISE[name]
        assert found in str(ours)
        assert ours != theirs, f"no difference any more: {why}"
    else:
        assert ours == theirs


LEFT_OUT = {
    "groups are not there yet": (8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47),
    "transactions are not there yet": (24, 25, 26, 27, 28, 65, 66),
    "security is not there yet": (17, 29, 30, 31, 36, 50, 51),
    "quotas are not there yet": (48, 49),
    "replicas do not move between the log dirs of a broker": (34,),
    "delegation tokens are left out": (38, 39, 40, 41),
    "ISR changes go to ZooKeeper, not by AlterPartition through the controller": (56,),
    "producer ids come from ZooKeeper, not by AllocateProducerIds from the controller": (67,),
    "a feature (metadata.version) is of KRaft": (57,),
    "envelopes are for KRaft's controllers": (58,),
    "the next generation of groups is of KRaft, Kafka claims it and refuses it with ZooKeeper": (68, 69),
}
"""APIs of Kafka 3.9 with ZooKeeper that the shipped broker does not claim."""
KIP_896 = {0: 3, 1: 4, 2: 1, 19: 2, 20: 1, 23: 2, 32: 1, 35: 1}
"""The oldest version that Kafka 4.0 still accepts, where that is not 0."""
NARROWER = {6: (5, "controllers here send 5 and later only")}


def test_the_versions_are_kafkas() -> None:
    """ApiVersions claims what Kafka 3.9 claims, from KIP-896's floor on, but for what is left out on purpose."""
    answer = bytes.fromhex(ORACLE["ApiVersions 0"]["answers"][0])
    kafka = {
        each.api_key: (each.min_version, each.max_version)
        for each in decode_response(ApiKey.API_VERSIONS, 0, answer).api_keys
    }
    ours = {key: (api.versions.start, api.versions.stop - 1) for key, api in served().items()}
    left_out = [key for keys in LEFT_OUT.values() for key in keys]
    assert len(set(left_out)) == len(left_out)
    assert sorted([*ours, *left_out]) == sorted(kafka)
    floors = {**KIP_896, **{key: floor for key, (floor, _) in NARROWER.items()}}
    assert ours == {key: (floors.get(key, 0), kafka[key][1]) for key in ours}
