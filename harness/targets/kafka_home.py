"""Where a managed Apache Kafka comes from: a folder that is given, or Maven.

The last version that runs with ZooKeeper is 3.9; from 4.0 on it is gone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from checkers.java import Java, cache_folder
from harness.targets.base import TargetError

VERSION = "3.9.1"
_SCALA = "2.13"
_FETCH_TIMEOUT_S = 900.0
_REMEDY = (
    f"Unpack the binary release of Apache Kafka {VERSION} (kafka_{_SCALA}-{VERSION}.tgz) and set KAFKA_HOME, "
    "or kafka_home in the plan's [target], to its folder; or install Maven (Debian: apt-get install maven), "
    "which fetches it once; or test a cluster that already runs: --target existing --bootstrap HOST:PORT"
)

# Kafka itself brings only the interface of its logging; slf4j-reload4j is what its binary release adds.
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidemark</groupId>
  <artifactId>kafka-runtime</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_{_SCALA}</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-reload4j</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


@dataclass(frozen=True)
class KafkaHome:
    libs: Path
    version: str
    origin: str


def find_kafka(given: str, java: Java, environ: Mapping[str, str] | None = None) -> KafkaHome:
    """The plan's folder, ``KAFKA_HOME``, what was fetched before, or fetch it now."""
    values = os.environ if environ is None else environ
    for folder, origin in ((given, "kafka_home"), (values.get("KAFKA_HOME", ""), "KAFKA_HOME")):
        if folder:
            return _unpacked(Path(folder), origin)
    cached = cached_kafka(values)
    if cached is None:
        cached = _fetch(values, java)
    return cached


def cached_kafka(environ: Mapping[str, str] | None = None) -> KafkaHome | None:
    """What an earlier run fetched."""
    libs = _cached(environ) / "libs"
    return KafkaHome(libs, VERSION, "Maven") if libs.is_dir() else None


def _cached(environ: Mapping[str, str] | None) -> Path:
    return cache_folder(environ) / f"kafka-{VERSION}"


def _unpacked(folder: Path, origin: str) -> KafkaHome:
    libs = (folder / "libs").absolute()
    jars = sorted(libs.glob("kafka_2.*.jar"))
    found = [match[1] for jar in jars if (match := re.fullmatch(r"kafka_2\.\d+-(\d[\w.]*)\.jar", jar.name))]
    if not found:
        raise TargetError(f"{origin}={folder}: no libs/kafka_2.*.jar there. {_REMEDY}")
    if int(found[0].split(".")[0]) != 3:
        raise TargetError(
            f"{origin}={folder} is Apache Kafka {found[0]}; managed brokers need 3.x, the last that runs "
            f"with ZooKeeper. {_REMEDY}"
        )
    return KafkaHome(libs, found[0], origin)


def _fetch(environ: Mapping[str, str], java: Java) -> KafkaHome:
    maven = shutil.which("mvn", path=environ.get("PATH", ""))
    if maven is None:
        raise TargetError(f"there is no Apache Kafka to manage, and no Maven to fetch one. {_REMEDY}")
    place = _cached(environ)
    place.parent.mkdir(parents=True, exist_ok=True)
    # Fetched beside and renamed, so that a folder that is there is always complete.
    with tempfile.TemporaryDirectory(prefix="kafka-", dir=place.parent) as work:
        (Path(work) / "pom.xml").write_text(_POM)
        command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        command.append(f"-DoutputDirectory={work}/libs")
        try:
            done = subprocess.run(
                command,
                cwd=work,
                env={**environ, "JAVA_HOME": str(java.home)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_FETCH_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TargetError(f"Maven did not fetch Apache Kafka in {_FETCH_TIMEOUT_S:.0f} s. {_REMEDY}") from None
        if done.returncode != 0 or not (Path(work) / "libs" / f"kafka_{_SCALA}-{VERSION}.jar").is_file():
            last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
            raise TargetError(f"Maven could not fetch Apache Kafka {VERSION}:\n{last}\n{_REMEDY}")
        try:
            Path(work).rename(place)
        except OSError:
            if not (place / "libs").is_dir():  # otherwise somebody else was faster
                raise
    return KafkaHome(place / "libs", VERSION, "Maven")
