"""The files of one managed broker: ``server.properties`` and its logging."""

from __future__ import annotations

from pathlib import Path

from harness.plan import TargetPlan

_LOGGING = """\
log4j.rootLogger=INFO, server
{appenders}
log4j.logger.kafka.controller=INFO, controller
log4j.additivity.kafka.controller=false
log4j.logger.state.change.logger=INFO, state-change
log4j.additivity.state.change.logger=false
log4j.logger.kafka.request.logger=WARN
log4j.logger.org.apache.zookeeper=WARN
log4j.logger.org.apache.kafka.clients.NetworkClient=ERROR
"""

_APPENDER = """\
log4j.appender.{name}=org.apache.log4j.FileAppender
log4j.appender.{name}.File={file}
log4j.appender.{name}.layout=org.apache.log4j.PatternLayout
log4j.appender.{name}.layout.ConversionPattern=[%d] %p %m (%c)%n"""


def logging_properties(logs: Path) -> str:
    names = ("server", "controller", "state-change")
    appenders = "\n".join(_APPENDER.format(name=name, file=logs / f"{name}.log") for name in names)
    return _LOGGING.format(appenders=appenders)


def server_properties(plan: TargetPlan, broker_id: int, address: str, port: int, zookeeper: str, data: Path) -> str:
    """The plan's own settings come last and win."""
    replicas = min(3, plan.brokers)
    in_sync = min(2, replicas)
    # A request to a paused broker hangs until it times out. Until then a broker asks a paused former
    # controller to shrink the ISR although there is a new one, so this must not be much longer than the
    # session that decides about the controller.
    patience_ms = plan.session_timeout_ms + 1000
    values: dict[str, object] = {
        "broker.id": broker_id,
        "listeners": f"PLAINTEXT://{address}:{port}",
        "advertised.listeners": f"PLAINTEXT://{address}:{port}",
        "log.dirs": data,
        "zookeeper.connect": zookeeper,
        "zookeeper.session.timeout.ms": plan.session_timeout_ms,
        "zookeeper.connection.timeout.ms": 30_000,
        "replica.lag.time.max.ms": plan.replica_lag_time_max_ms,
        "replica.fetch.wait.max.ms": min(500, plan.replica_lag_time_max_ms // 2),
        "replica.socket.timeout.ms": patience_ms,
        "controller.socket.timeout.ms": patience_ms,
        "controlled.shutdown.enable": "true",
        "controlled.shutdown.retry.backoff.ms": 500,
        "auto.create.topics.enable": "false",
        "delete.topic.enable": "true",
        "unclean.leader.election.enable": "false",  # each topic says for itself
        "min.insync.replicas": in_sync,  # for the internal topics; others say for themselves
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 6,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 6,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 2000,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        # Leaders go home soon after a broker is back; by default a short run would never see it.
        "leader.imbalance.check.interval.seconds": 10,
        # Several brokers on few cores, with small heaps.
        "num.network.threads": 2,
        "num.io.threads": 4,
        "background.threads": 2,
        "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
        "log.index.size.max.bytes": 1024 * 1024,
        **plan.settings,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())
