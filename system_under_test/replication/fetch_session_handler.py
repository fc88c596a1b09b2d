"""Fetch sessions, the follower's side (KIP-227): what to send so that the leader knows all it has to, and no more."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from system_under_test.protocol.errors import ErrorCode
from system_under_test.replication.fetch_session import INITIAL_EPOCH, LARGEST_EPOCH, SESSIONLESS_ID
from system_under_test.types import TopicPartition


class Wanted(NamedTuple):
    """What a follower asks of one partition."""

    topic_id: uuid.UUID
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    current_leader_epoch: int
    max_bytes: int


class SessionRequest(NamedTuple):
    session_id: int
    epoch: int
    send: Mapping[TopicPartition, Wanted]
    forget: tuple[tuple[uuid.UUID, int], ...]
    """Topic ids and partitions that the leader has in the session, and should not have any more."""


class FetchSessionHandler:
    def __init__(self) -> None:
        self._id = SESSIONLESS_ID
        self._epoch = INITIAL_EPOCH
        self._known: dict[TopicPartition, Wanted] = {}
        """What the leader has in this session."""

    def next_request(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionRequest:
        if self._epoch == INITIAL_EPOCH:
            self._known = dict(wanted)
            return SessionRequest(self._id, INITIAL_EPOCH, wanted, ())
        known = self._known
        # Identity first: what did not change is the very same object.
        send = {key: each for key, each in wanted.items() if (old := known.get(key)) is not each and old != each}
        forget: tuple[tuple[uuid.UUID, int], ...] = ()
        if len(known) != len(wanted) or any(not _same_topic(known.get(key), each) for key, each in send.items()):
            gone = [key for key, each in known.items() if not _same_topic(wanted.get(key), each)]
            forget = tuple((known.pop(key).topic_id, key.partition) for key in gone)
        known.update(send)
        return SessionRequest(self._id, self._epoch, send, forget)

    def answered(self, error: ErrorCode, session_id: int) -> bool:
        """Take note of the answer's session; whether its partitions are worth looking at."""
        if error is ErrorCode.none and session_id != SESSIONLESS_ID:
            self._id = session_id
            self._epoch = 1 if self._epoch == LARGEST_EPOCH else self._epoch + 1
        else:
            self.reset()
            if error in (ErrorCode.none, ErrorCode.fetch_session_id_not_found):
                self._id = SESSIONLESS_ID
        return error is ErrorCode.none

    def reset(self) -> None:
        """Nobody knows what the leader has: begin anew. The next request closes the old session, if it is there."""
        self._epoch = INITIAL_EPOCH
        self._known = {}


def _same_topic(known: Wanted | None, other: Wanted) -> bool:
    return known is not None and known.topic_id == other.topic_id
