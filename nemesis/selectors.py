"""Whom a fault hits: a role, looked up at the moment the fault fires.

``leader`` of a random key · ``controller`` · ``any`` node · ``broker-N``
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nemesis.view import ClusterView

Key = tuple[str, int, int]
"""Topic, partition, and the history's number for it."""

LEADER = "leader"
CONTROLLER = "controller"
ANY = "any"


@dataclass(frozen=True)
class Selection:
    node: str
    reason: str
    """The role as a phrase: ``the leader of tidemark-0-3``."""
    key: int | None = None


def check_role(role: str) -> None:
    if role not in (LEADER, CONTROLLER, ANY) and not re.fullmatch(r"broker-\d+", role):
        raise ValueError(f"unknown role {role!r}; there are {LEADER}, {CONTROLLER}, {ANY}, broker-N")


def select(
    role: str,
    view: ClusterView,
    nodes: Sequence[str],
    keys: Sequence[Key],
    rng: random.Random,
    busy: Collection[str] = (),
) -> Selection | str:
    """A node with this role that is not busy with another fault, or why there is none right now."""
    check_role(role)
    free = [node for node in nodes if node not in busy]
    if role == LEADER:
        return _leader(view, free, keys, rng)
    if role == CONTROLLER:
        controller = view.controller()
        if controller is None:
            return "there is no controller"
        return _if_free(f"broker-{controller}", free, "the controller")
    if role == ANY:
        return Selection(rng.choice(free), "any broker") if free else "every node is busy with another fault"
    return _if_free(role, free, "by name")


def _leader(view: ClusterView, free: list[str], keys: Sequence[Key], rng: random.Random) -> Selection | str:
    if not keys:
        return "there are no keys yet"
    # All in a random order: the first one's leader may be unknown, or busy with another fault.
    for topic, partition, key in rng.sample(list(keys), len(keys)):
        leader = view.leader(topic, partition)
        if leader is not None and f"broker-{leader}" in free:
            return Selection(f"broker-{leader}", f"the leader of {topic}-{partition}", key)
    return "no key has a leader that is not busy with another fault"


def _if_free(node: str, free: list[str], reason: str) -> Selection | str:
    return Selection(node, reason) if node in free else f"{node} ({reason}) is busy with another fault, or unknown"
