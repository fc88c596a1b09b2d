"""Looks at the machine: one small function per thing, each with what was found and how to mend it.

*Needed* things are those without which no history can be judged; the others cost a feature.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

import psutil

from checkers.java import JavaError, find_java
from harness.fleet.probe import REMEDY, probe

GIB = 1024**3


@dataclass(frozen=True)
class Finding:
    name: str
    ok: bool
    needed: bool
    found: str
    remedy: str = ""
    """What to do when it lacks, and what is lost without it."""


def examine() -> list[Finding]:
    """All findings, in the order in which a person would mend them."""
    return [look() for look in _LOOKS]


def _python() -> Finding:
    ok = sys.version_info >= (3, 11)
    return Finding(
        "python", ok, True, f"{platform.python_version()} ({sys.executable})", "install Python 3.11 or newer"
    )


def _java() -> Finding:
    try:
        java = find_java()
    except JavaError as error:
        return Finding("java", False, True, "none", str(error))
    skipped = f"; passed over: {'; '.join(java.skipped)}" if java.skipped else ""
    return Finding("java", True, True, f"{java.version} by {java.origin} ({java.home}){skipped}")


def _package(name: str, purpose: str, *, needed: bool) -> Callable[[], Finding]:
    def look() -> Finding:
        try:
            return Finding(name, True, needed, metadata.version(name))
        except metadata.PackageNotFoundError:
            return Finding(name, False, needed, "not installed", f"pip install {name}: {purpose}")

    return look


def _maven() -> Finding:
    path = shutil.which("mvn")
    remedy = "install Maven (Debian: apt-get install maven), or unpack an Apache Kafka 3.9 and set KAFKA_HOME"
    return Finding("maven", path is not None, False, path or "none", remedy)


def _kafka() -> Finding:
    from harness.targets.kafka_home import cached_kafka

    remedy = "the first `tidemark run --target kafka` fetches it by Maven; or set KAFKA_HOME"
    given = os.environ.get("KAFKA_HOME")
    if given:
        there = os.path.isdir(os.path.join(given, "libs"))
        return Finding("kafka", there, False, f"KAFKA_HOME={given}{'' if there else ', which has no libs/'}", remedy)
    cached = cached_kafka()
    if cached is None:
        return Finding("kafka", False, False, "not fetched yet", remedy)
    return Finding("kafka", True, False, f"{cached.version} ({cached.libs})")


def _memory() -> Finding:
    memory = psutil.virtual_memory()
    found = f"{memory.available / GIB:.1f} GiB free of {memory.total / GIB:.1f} GiB"
    remedy = "a run with three brokers and Spark wants about 4 GiB free; TIDEMARK_SPARK_MEMORY=1g makes Spark smaller"
    return Finding("memory", memory.available >= 4 * GIB, False, found, remedy)


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0))
    remedy = "with one core, brokers, clients and Spark share it: expect low load and long pauses"
    return Finding("cores", usable >= 2, False, str(usable), remedy)


def _disk() -> Finding:
    free = shutil.disk_usage(os.curdir).free
    remedy = "runs are kept in ./runs: free some space, or set TIDEMARK_STORE to another disk"
    return Finding("disk", free >= 2 * GIB, False, f"{free / GIB:.1f} GiB free here", remedy)


def _namespaces() -> Finding:
    """Tried, not looked up: several settings of several distributions can forbid it."""
    found = probe()
    if found.problem is not None:
        return Finding("namespaces", False, False, found.problem, REMEDY)
    return Finding("namespaces", True, False, f"every host can have a network of its own, {found.how}")


def _slow_links() -> Finding:
    found = probe()
    remedy = "modprobe sch_tbf sch_netem (Debian: linux-image-amd64, Fedora: kernel-modules-extra); bandwidth and delay need them"
    if found.problem is not None:
        return Finding("slow links", False, False, "only with namespaces", remedy)
    return Finding("slow links", not found.lacking, False, "; ".join(found.lacking) or "tbf and netem", remedy)


_LOOKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _java,
    _package("pyspark", "judges histories", needed=True),
    _package("pyarrow", "reads and writes histories", needed=True),
    _package("scipy", "judges histories of transactions", needed=False),
    _package("networkx", "judges histories of transactions", needed=False),
    _package("confluent-kafka", "the client librdkafka", needed=False),
    _package("aiokafka", "the client aiokafka", needed=False),
    _package("pyroute2", "hosts of their own, and faults of their links", needed=False),
    _maven,
    _kafka,
    _memory,
    _cores,
    _disk,
    _namespaces,
    _slow_links,
)
