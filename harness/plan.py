"""A plan: everything that decides a run, as one typed value.

Plans are TOML. Each field below is one line of a plan; the docstring under it is its documentation
(``docs/reference/plan.md`` is generated from them). :mod:`harness.planfile` reads and writes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class TargetPlan:
    kind: str = "shipped"
    """Which broker cluster is tested: ``shipped`` (Tidemark's own), ``kafka`` (a managed Apache Kafka) or ``existing``."""
    brokers: int = 3
    """Brokers to start (managed targets)."""
    bootstrap: str = ""
    """Bootstrap servers of an existing cluster, ``host:port,host:port``."""
    kafka_home: str = ""
    """Folder of an unpacked Apache Kafka; empty: fetched by Maven into the cache."""
    zookeeper: str = ""
    """An existing ZooKeeper for a managed cluster, ``host:port,host:port/chroot``; empty: one is started."""
    session_timeout_ms: int = 4000
    """ZooKeeper session time-out of the brokers. Kafka's default of 18 s would leave a short run idle."""
    replica_lag_time_max_ms: int = 4000
    """How long a follower may lag before it leaves the ISR."""
    settings: dict[str, str] = field(default_factory=dict)
    """Further broker settings, by Kafka's own names."""


@dataclass(frozen=True)
class FleetPlan:
    kind: str = "auto"
    """Where brokers, ZooKeeper and clients run: ``namespaces`` (each on a host of its own, whose links can be broken), ``loopback`` (all on this machine's loopback address), or ``auto``: the best that this machine and the target allow."""


@dataclass(frozen=True)
class TopicPlan:
    name: str = "tidemark"
    """Prefix of the topics' names."""
    partitions: int = 4
    """Partitions of each topic."""
    replication_factor: int = 3
    """Replicas of each partition."""
    min_insync_replicas: int = 2
    """``min.insync.replicas`` of each topic."""
    unclean_leader_election: bool = False
    """Whether a replica outside the ISR may lead."""
    writes_per_key: int = 0
    """Retire a topic after about this many sends to a partition and go on with a new one; 0: never."""


@dataclass(frozen=True)
class ClientPlan:
    library: str = "librdkafka"
    """Client of the workers: ``librdkafka``, ``aiokafka`` or ``mixed`` (both, by turns)."""
    workers: int = 2
    """Worker processes."""
    producers: int = 3
    """Logical producers in each worker."""
    consumers: int = 2
    """Logical consumers in each worker."""
    acks: str = "all"
    """``all``, ``1`` or ``0``."""
    idempotence: bool = True
    """``enable.idempotence``; needs acks=all."""
    retries: int = 1000
    """Retries of the producer inside its delivery time-out; 0 shows every first error."""
    max_in_flight: int = 5
    """Requests in flight per connection."""
    delivery_timeout_ms: int = 8000
    """How long a send may take before the client gives up."""
    request_timeout_ms: int = 3000
    """How long one request may take."""
    linger_ms: int = 1
    """How long the producer waits to fill a batch."""
    rate: int = 1500
    """Records per second that all producers together try to send; 0: as fast as they can."""
    burst: int = 20
    """Largest number of sends in one pipelined operation."""
    payload_bytes: int = 64
    """Size of a record's value; the smallest is 40."""
    on_error: str = "continue"
    """What the application does when a send fails for good: ``continue`` with the next record, or ``stop``."""
    crash_every_s: float = 15.0
    """Mean time between client crashes (close without notice) per logical client; 0: never."""


@dataclass(frozen=True)
class FaultPlan:
    kinds: tuple[str, ...] = (
        "kill",
        "pause",
        "stop",
        "restart",
        "isolate",
        "mute",
        "cut-brokers",
        "cut-zookeeper",
        "majority",
        "loss",
    )
    """Which [faults](faults.md) are drawn. Empty: none. Those that the fleet cannot do are left out, and the run says why."""
    roles: tuple[str, ...] = ("leader", "controller", "any")
    """Whom they hit: ``leader`` of a random key, ``controller``, ``any`` broker, or ``broker-N``."""
    interval_s: float = 4.0
    """Mean quiet time between two faults."""
    hold_s: float = 7.0
    """Mean time a fault stays in force; longer than the session time-out, so that leaders move."""
    at_once: int = 1
    """Faults in force at the same time. With min.insync 2 of 3 replicas, 2 stop all writes."""


@dataclass(frozen=True)
class ExercisePlan:
    min_acknowledged: int = 50000
    """Sends that must be acknowledged for the run to count."""
    subject: tuple[str, ...] = ()
    """Anomalies whose promise this plan is about."""
    expect: tuple[str, ...] = ()
    """Anomalies that must show; the run fails when one does not."""


@dataclass(frozen=True)
class Plan:
    name: str = "default"
    """Name of the plan, shown in reports."""
    seed: int = 0
    """Seed of everything random; 0: drawn and printed."""
    time_limit_s: float = 90.0
    """How long the load runs under faults."""
    recovery_s: float = 60.0
    """How long the cluster may take to be healthy again after the last fault is healed."""
    workload: str = "log"
    """What the clients do."""
    target: TargetPlan = TargetPlan()
    fleet: FleetPlan = FleetPlan()
    topic: TopicPlan = TopicPlan()
    clients: ClientPlan = ClientPlan()
    faults: FaultPlan = FaultPlan()
    exercise: ExercisePlan = ExercisePlan()
