"""The client libraries by name, and what a plan makes of them.

``meta.json`` lists the kinds of producers of a run; the tables name one by its place in that list. It is made
here, by :func:`producer_settings`: one kind per library of the plan, and last the one of the sentinels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.clients.aiokafka_client import Aiokafka
from harness.clients.base import ALL, Library, ProducerConfig
from harness.clients.librdkafka import Librdkafka
from harness.plan import ClientPlan
from histories.meta import ProducerSettings

LIBRARIES: Final[dict[str, Callable[[str], Library]]] = {"librdkafka": Librdkafka, "aiokafka": Aiokafka}
"""From bootstrap servers to a library."""

MIXED: Final = ("librdkafka", "aiokafka")

SENTINEL: Final = ProducerConfig(
    acks=ALL,
    idempotence=False,
    retries=0,
    max_in_flight=1,
    delivery_timeout_ms=5000,
    request_timeout_ms=4000,
    linger_ms=0,
)

_UNBOUNDED: Final = 2**31 - 1


def libraries_of(clients: ClientPlan) -> tuple[str, ...]:
    return MIXED if clients.library == "mixed" else (clients.library,)


def producer_config(clients: ClientPlan) -> ProducerConfig:
    return ProducerConfig(
        acks=ALL if clients.acks == "all" else int(clients.acks),
        idempotence=clients.idempotence,
        retries=clients.retries,
        max_in_flight=clients.max_in_flight,
        delivery_timeout_ms=clients.delivery_timeout_ms,
        request_timeout_ms=clients.request_timeout_ms,
        linger_ms=clients.linger_ms,
    )


def producer_settings(clients: ClientPlan) -> tuple[ProducerSettings, ...]:
    """The producers of a run as ``meta.json`` describes them."""
    config = producer_config(clients)
    kinds = [_settings(name, config) for name in libraries_of(clients)]
    return (*kinds, _settings("librdkafka", SENTINEL))


def retries_observable(clients: ClientPlan) -> bool:
    """Whether the retries that workers count are all that happened."""
    return "aiokafka" not in libraries_of(clients)


def sentinel_producer(clients: ClientPlan) -> int:
    """The place of the sentinels' producer in that list."""
    return len(libraries_of(clients))


def _settings(library: str, config: ProducerConfig) -> ProducerSettings:
    if library == "aiokafka":
        # It has no such setting: it retries until its time-out, with one request to a broker at a time.
        return ProducerSettings(config.acks, config.idempotence, _UNBOUNDED, 1, library)
    # With retries=0 librdkafka still sends again after NOT_LEADER_OR_FOLLOWER (see harness.clients.errors),
    # so a duplicate of such a producer proves nothing about the broker.
    return ProducerSettings(config.acks, config.idempotence, max(1, config.retries), config.max_in_flight, library)
