"""What the parts of one controllership share, and the rule that its tables of transitions obey."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from system_under_test.controller.channels import Channels
from system_under_test.controller.context import ControllerContext, PartitionPhase, ReplicaPhase
from system_under_test.controller.requests import RequestBatch
from system_under_test.controller.store import ControllerStore

Phase = TypeVar("Phase", PartitionPhase, ReplicaPhase)


class InvalidTransition(Exception):
    """A state machine was asked for a step that its table does not have: what the controller knows is not what is."""


@dataclass(frozen=True, slots=True)
class Core:
    controller_id: int
    context: ControllerContext
    store: ControllerStore
    channels: Channels
    unclean_by_default: Callable[[], bool]
    """``unclean.leader.election.enable`` of the broker, for topics that do not say."""

    def batch(self) -> RequestBatch:
        return RequestBatch(self.controller_id, self.context)

    def send(self, batch: RequestBatch) -> None:
        for request in batch.requests():
            self.channels.send(request)


def check_transition(table: Mapping[Phase, frozenset[Phase]], source: Phase, target: Phase, subject: object) -> None:
    if source not in table[target]:
        raise InvalidTransition(f"{subject}: {source.value} cannot become {target.value}")
