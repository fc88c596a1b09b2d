"""A ZooKeeper-mode Kafka cluster as ZooKeeper has it: the one place that no paused broker can colour."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from harness.targets.base import PartitionState, Snapshot, TargetError, node_name

_PATIENCE_S = 3.0
_log = logging.getLogger("tidemark.zookeeper")
_log.addHandler(logging.NullHandler())

Answer = tuple[bytes, Any]


class ZooKeeperView:
    """See :class:`harness.targets.base.TargetView`."""

    def __init__(self, connect: str, brokers: Iterable[int]) -> None:
        self._brokers = tuple(brokers)
        self._client = KazooClient(hosts=connect, timeout=10.0, read_only=False, logger=_log)
        try:
            self._client.start(timeout=30.0)
        except KazooTimeoutError:
            self._client.close()
            raise TargetError(f"ZooKeeper at {connect} does not answer") from None
        self._closed = False

    def controller(self) -> int | None:
        document = self._document("/controller")
        return document["brokerid"] if document else None

    def controller_epoch(self) -> int | None:
        answer = self._read(["/controller_epoch"])
        return int(answer[0][0]) if answer and answer[0] else None

    def leader(self, topic: str, partition: int) -> int | None:
        state = self._state(topic, partition)
        return state.leader if state else None

    def in_sync_replicas(self, topic: str, partition: int) -> tuple[int, ...] | None:
        state = self._state(topic, partition)
        return state.isr if state else None

    def registered(self, broker: int) -> bool | None:
        answer = self._read([f"/brokers/ids/{broker}"])
        return None if answer is None else answer[0] is not None

    def snapshot(self, wanted: Callable[[str], bool]) -> Snapshot | None:
        picture = self._picture(wanted)
        return picture[0] if picture else None

    def unhealthy(self) -> list[str]:
        picture = self._picture(lambda _: True)
        if picture is None:
            return ["ZooKeeper does not answer"]
        snapshot, replicas = picture
        wrong = [f"{node_name(each)} is not registered" for each in self._brokers if each not in snapshot.brokers]
        if snapshot.controller is None:
            wrong.append("there is no controller")
        for (topic, partition), assigned in sorted(replicas.items()):
            state = snapshot.partitions.get((topic, partition))
            if state is None or state.leader is None:
                wrong.append(f"{topic}-{partition} has no leader")
            elif missing := sorted(set(assigned) - set(state.isr)):
                wrong.append(f"{topic}-{partition} has {', '.join(map(node_name, missing))} outside its ISR")
        return wrong

    def topics(self) -> list[str] | None:
        return self._children("/brokers/topics")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.stop()
            self._client.close()

    def _picture(self, wanted: Callable[[str], bool]) -> tuple[Snapshot, dict[tuple[str, int], list[int]]] | None:
        """The snapshot, and which replicas each partition should have."""
        ids, topics = self._children("/brokers/ids"), self._children("/brokers/topics")
        if ids is None or topics is None:
            return None
        topics = [topic for topic in topics if wanted(topic)]
        paths = ["/controller", "/controller_epoch"]
        paths += [f"/brokers/ids/{each}" for each in ids] + [f"/brokers/topics/{topic}" for topic in topics]
        answers = self._read(paths)
        if answers is None:
            return None
        controller, epoch = answers[:2]
        registrations = zip(ids, answers[2 : 2 + len(ids)], strict=True)
        replicas: dict[tuple[str, int], list[int]] = {}
        for topic, answer in zip(topics, answers[2 + len(ids) :], strict=True):
            if answer:
                for partition, assigned in json.loads(answer[0])["partitions"].items():
                    replicas[topic, int(partition)] = assigned
        states = self._read([_state_path(*each) for each in replicas])
        if states is None:
            return None
        snapshot = Snapshot(
            brokers={int(each): answer[1].czxid for each, answer in registrations if answer},
            controller=json.loads(controller[0])["brokerid"] if controller else None,
            controller_epoch=int(epoch[0]) if epoch else None,
            partitions={
                key: _partition_state(answer[0]) for key, answer in zip(replicas, states, strict=True) if answer
            },
        )
        return snapshot, replicas

    def _state(self, topic: str, partition: int) -> PartitionState | None:
        answer = self._read([_state_path(topic, partition)])
        return _partition_state(answer[0][0]) if answer and answer[0] else None

    def _document(self, path: str) -> dict[str, Any] | None:
        answer = self._read([path])
        return json.loads(answer[0][0]) if answer and answer[0] else None

    def _read(self, paths: list[str]) -> list[Answer | None] | None:
        """Content and stat of each node, all asked for at once; None for a missing node, or for no answer."""
        if self._closed:
            return None
        pending = [self._client.get_async(path) for path in paths]
        answers: list[Answer | None] = []
        for each in pending:
            try:
                answers.append(each.get(timeout=_PATIENCE_S))
            except NoNodeError:
                answers.append(None)
            except (KazooException, KazooTimeoutError):
                return None
        return answers

    def _children(self, path: str) -> list[str] | None:
        if self._closed:
            return None
        try:
            return sorted(self._client.get_children_async(path).get(timeout=_PATIENCE_S))
        except NoNodeError:
            return []
        except (KazooException, KazooTimeoutError):
            return None


def _state_path(topic: str, partition: int) -> str:
    return f"/brokers/topics/{topic}/partitions/{partition}/state"


def _partition_state(content: bytes) -> PartitionState:
    document = json.loads(content)
    leader = document["leader"]
    return PartitionState(
        leader=leader if leader >= 0 else None,  # Kafka writes -1 for "none"
        leader_epoch=document["leader_epoch"],
        isr=tuple(document["isr"]),
        controller_epoch=document["controller_epoch"],
    )
