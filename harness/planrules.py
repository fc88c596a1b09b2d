"""What a plan's values may be: choices, bounds, and the rules that tie fields to each other.

Types come from the dataclasses in :mod:`harness.plan`; everything a type cannot say stands here, as
tables where a table can say it. A rule across fields yields the field to blame and a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches

from harness.plan import Plan
from nemesis.fault import Kind

FAULT_KINDS = tuple(map(str, Kind))
FAULT_ROLES = ("leader", "controller", "any")

CHOICES: dict[str, tuple[str, ...]] = {
    "workload": ("log",),
    "target.kind": ("shipped", "kafka", "existing"),
    "fleet.kind": ("auto", "namespaces", "loopback"),
    "clients.library": ("librdkafka", "aiokafka", "mixed"),
    "clients.acks": ("all", "1", "0"),
    "clients.on_error": ("continue", "stop"),
}
"""Text fields that are closed sets."""

MEMBERS: dict[str, tuple[str, ...]] = {"faults.kinds": FAULT_KINDS, "faults.roles": FAULT_ROLES}
"""List fields whose members are a closed set; ``faults.roles`` also takes ``broker-N``. The lists of
anomalies are checked against the names that the caller knows."""

ANOMALY_LISTS = ("exercise.subject", "exercise.expect")

WEEK_S = 604_800
LONG_MS = 2**31 - 1
"""What Kafka and its clients keep a time-out in."""

BOUNDS: dict[str, tuple[float, float | None]] = {
    "seed": (0, 2**63 - 1),
    "time_limit_s": (1, WEEK_S),
    "recovery_s": (1, WEEK_S),
    "target.brokers": (1, 100),
    "target.session_timeout_ms": (100, 60_000),
    "target.replica_lag_time_max_ms": (100, LONG_MS),
    "topic.partitions": (1, 10_000),
    "topic.replication_factor": (1, 100),
    "topic.min_insync_replicas": (1, 100),
    "topic.writes_per_key": (0, 2**31 - 1),
    "clients.workers": (1, 256),
    "clients.producers": (1, 1000),
    "clients.consumers": (1, 1000),
    "clients.retries": (0, 2**31 - 1),
    "clients.max_in_flight": (1, 1_000_000),
    "clients.delivery_timeout_ms": (1, LONG_MS),
    "clients.request_timeout_ms": (1, 900_000),
    "clients.linger_ms": (0, 900_000),
    "clients.rate": (0, 10_000_000),
    "clients.burst": (1, 10_000),
    "clients.payload_bytes": (40, 1_000_000),
    "clients.crash_every_s": (0, WEEK_S),
    "faults.interval_s": (0.1, WEEK_S),
    "faults.hold_s": (0.1, WEEK_S),
    "faults.at_once": (1, 100),
    "exercise.min_acknowledged": (0, 2**63 - 1),
}
"""Smallest and largest value of every number in a plan."""

OWN_SETTINGS = ("broker.id", "listeners", "advertised.listeners", "log.dirs", "log.dir", "zookeeper.connect", "port")
"""Broker settings without which the harness would not find its own brokers."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,200}")
"""Kafka's characters; of its 249 the run needs some to tell its topics apart."""
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]+):(\d{1,5})")
_BROKER = re.compile(r"broker-(\d+)")


def nearest(name: str, known: tuple[str, ...]) -> str:
    """``; did you mean 'x'?`` for the known name nearest to a mistyped one, or nothing."""
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def is_member(path: str, member: str, anomalies: tuple[str, ...]) -> bool:
    if path == "faults.roles" and _BROKER.fullmatch(member):
        return True
    return member in members(path, anomalies)


def members(path: str, anomalies: tuple[str, ...]) -> tuple[str, ...]:
    """What a list field may hold; empty: anything."""
    return anomalies if path in ANOMALY_LISTS else MEMBERS.get(path, ())


Problem = tuple[str, str]


def broken_rules(plan: Plan) -> Iterator[Problem]:
    """The rules across fields that a plan breaks: the field to blame, and why."""
    for rule in _RULES:
        yield from rule(plan)


def _replication(plan: Plan) -> Iterator[Problem]:
    topic = plan.topic
    if topic.min_insync_replicas > topic.replication_factor:
        yield (
            "topic.min_insync_replicas",
            f"{topic.min_insync_replicas} is more than topic.replication_factor = "
            f"{topic.replication_factor}: no acks=all send could ever succeed",
        )
    if plan.target.kind != "existing" and topic.replication_factor > plan.target.brokers:
        yield (
            "topic.replication_factor",
            f"{topic.replication_factor} replicas need as many brokers, not {plan.target.brokers}",
        )


def _idempotence(plan: Plan) -> Iterator[Problem]:
    clients = plan.clients
    if not clients.idempotence:
        return
    if clients.acks != "all":
        yield (
            "clients.idempotence",
            f"idempotence needs acks=all, not {clients.acks!r}; set clients.idempotence = false",
        )
    if clients.max_in_flight > 5:
        yield (
            "clients.max_in_flight",
            f"an idempotent producer may have at most 5 requests in flight, not {clients.max_in_flight}",
        )
    if clients.retries == 0:
        yield (
            "clients.retries",
            "an idempotent producer needs retries; set clients.idempotence = false for none",
        )


def _timeouts(plan: Plan) -> Iterator[Problem]:
    clients = plan.clients
    least = clients.linger_ms + clients.request_timeout_ms
    if clients.delivery_timeout_ms < least:
        yield (
            "clients.delivery_timeout_ms",
            f"{clients.delivery_timeout_ms} is less than linger_ms + request_timeout_ms = {least}",
        )


def _existing(plan: Plan) -> Iterator[Problem]:
    target = plan.target
    if target.kind != "existing":
        if target.bootstrap:
            yield (
                "target.bootstrap",
                "only an existing cluster has bootstrap servers; set target.kind = 'existing'",
            )
        return
    if not target.bootstrap:
        yield (
            "target.bootstrap",
            "an existing cluster needs its bootstrap servers (--bootstrap HOST:PORT,...)",
        )
    if plan.faults.kinds:
        yield (
            "faults.kinds",
            "an existing cluster is not ours to break; use --faults none, or the plan 'existing'",
        )


def no_hosts_of_their_own(plan: Plan) -> str | None:
    """Why this target cannot run on hosts of their own, whatever the machine allows; None: it can."""
    if plan.target.kind == "existing":
        return "an existing cluster is reached over this machine's network"
    if plan.target.zookeeper:
        return "an existing ZooKeeper is reached over this machine's network"
    return None


def _fleet(plan: Plan) -> Iterator[Problem]:
    reason = no_hosts_of_their_own(plan)
    if plan.fleet.kind == "namespaces" and reason is not None:
        yield "fleet.kind", f"not with this target: {reason}; set fleet.kind = 'loopback'"


def _names(plan: Plan) -> Iterator[Problem]:
    if not _TOPIC.fullmatch(plan.topic.name):
        yield "topic.name", f"{plan.topic.name!r} is no name of a topic: letters, digits, '.', '_' and '-', up to 200"
    for server in plan.target.bootstrap.split(",") if plan.target.bootstrap else ():
        match = _SERVER.fullmatch(server.strip())
        if not match or not 1 <= int(match[2]) <= 65535:
            yield "target.bootstrap", f"expected HOST:PORT,HOST:PORT, and {server!r} is no HOST:PORT"
    for name, value in plan.target.settings.items():
        if name in OWN_SETTINGS:
            yield f"target.settings.{name}", "the harness sets this itself, for each broker"
        elif not name or any(character in name for character in "=:#! ") or not (name + value).isprintable():
            yield f"target.settings.{name}", f"{name!r} = {value!r} is no line of a properties file"


def _faults(plan: Plan) -> Iterator[Problem]:
    if not plan.faults.kinds:
        return
    if not plan.faults.roles:
        yield "faults.roles", "faults need someone to hit; name at least one role, or set faults.kinds = []"
    if plan.target.kind == "existing":
        return
    if plan.faults.at_once > plan.target.brokers:
        yield (
            "faults.at_once",
            f"{plan.faults.at_once} faults at once need as many brokers, not {plan.target.brokers}",
        )
    first = 0 if plan.target.kind == "shipped" else 1
    for role in plan.faults.roles:
        broker = _BROKER.fullmatch(role)
        if broker and not first <= int(broker[1]) < first + plan.target.brokers:
            last = first + plan.target.brokers - 1
            yield "faults.roles", f"{role!r} does not exist; brokers are broker-{first} to broker-{last}"


_RULES: tuple[Callable[[Plan], Iterator[Problem]], ...] = (
    _replication,
    _idempotence,
    _timeouts,
    _existing,
    _fleet,
    _names,
    _faults,
)
