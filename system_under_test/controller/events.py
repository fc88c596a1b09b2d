"""What the controller reacts to. An event says only where to look: its handler reads what is there now.

Events of one controllership carry no state of ZooKeeper, so one that comes late, twice, or for two changes at once does
no harm. Those that answer something (:class:`Answered`) carry the request, whose broker epoch tells whether it still counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from system_under_test.controller.requests import Outgoing
from system_under_test.protocol.messages import Body
from system_under_test.types import TopicPartition

if TYPE_CHECKING:
    from system_under_test.controller.term import Term


@dataclass(frozen=True, slots=True)
class ControllerChanged:
    """``/controller`` was made, changed or deleted, or it is time to look at it."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """``/brokers/ids``"""


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """``/brokers/topics``"""


@dataclass(frozen=True, slots=True)
class TopicModified:
    """``/brokers/topics/T``"""

    topic: str


@dataclass(frozen=True, slots=True)
class DeletionRequested:
    """``/admin/delete_topics``"""


@dataclass(frozen=True, slots=True)
class ReassignmentRequested:
    """``/admin/reassign_partitions``"""


@dataclass(frozen=True, slots=True)
class ReassignedIsrChanged:
    """The state of a partition under reassignment: its new replicas may have caught up."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class PreferredElectionRequested:
    """``/admin/preferred_replica_election``"""


@dataclass(frozen=True, slots=True)
class IsrsChanged:
    """``/isr_change_notification``: leaders have changed ISRs."""


@dataclass(frozen=True, slots=True)
class LogDirsFailed:
    """``/log_dir_event_notification``"""


@dataclass(frozen=True, slots=True)
class UncleanElectionEnabled:
    """A topic now allows leaders from outside of the ISR; None: the default changed."""

    topic: str | None


@dataclass(frozen=True, slots=True)
class RebalanceDue:
    """Time to look at who leads what."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A broker answered a request."""

    request: Outgoing
    body: Body


@dataclass(frozen=True, slots=True)
class Call:
    """An admin API asks for something; its answer is awaited."""

    run: Callable[[Term], Awaitable[Any]]
    answer: asyncio.Future[Any]


TermEvent = (
    BrokersChanged
    | TopicsChanged
    | TopicModified
    | DeletionRequested
    | ReassignmentRequested
    | ReassignedIsrChanged
    | PreferredElectionRequested
    | IsrsChanged
    | LogDirsFailed
    | UncleanElectionEnabled
    | RebalanceDue
    | Answered
)
"""Belongs to one controllership and ends with it."""
