"""Spark's virtual machine, started directly and from an archive of its classes.

PySpark starts it through shell scripts and a virtual machine of its own that only builds the command line. Here the
command is known, so that one start is saved, and what may be printed is decided in one place.

Most of the time that Spark takes to start goes into loading and verifying thousands of classes. The virtual machine
can keep them ready in a file (AppCDS). The first command that finds no such archive writes one as it ends, a few
seconds that are spent once for each Java and each Spark. An archive is written under a name of its own and renamed,
so two commands may do it at once; one that the virtual machine cannot use it ignores; and if it does not come up with
an archive, it is tried again without.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from checkers.java import Java, JavaError, cache_folder

LOGGING = Path(__file__).with_name("log4j2.properties")
_READY_TIMEOUT_S = 120.0
_ARCHIVING_TIMEOUT_S = 120.0
_STALE_S = 24 * 3600.0
_OPENED = (
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io",
    "java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch", "java.base/sun.nio.cs",
    "java.base/sun.security.action", "java.base/sun.util.calendar", "java.security.jgss/sun.security.krb5",
)  # fmt: skip
"""What Spark's launcher opens to Spark (its JavaModuleOptions)."""
OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={each}=ALL-UNNAMED" for each in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
"""What Spark's launcher gives to every virtual machine; but for jdk.incubator.vector, which warns and is for MLlib."""
QUIET = (
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    "-XX:-PrintWarnings",
    f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
)
LIGHT = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""The machine moves whole columns and touches no row: compiling thoroughly would cost more than it brings."""


def _jars() -> list[Path]:
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JavaError("PySpark is not installed: pip install pyspark")
    return sorted((Path(spec.submodule_search_locations[0]) / "jars").glob("*.jar"))


@dataclass(frozen=True)
class Archive:
    """Where the classes are kept."""

    path: Path

    @staticmethod
    def of(java: Java, jars: Sequence[Path]) -> Archive:
        """One for each Java and each set of jars: an upgrade of either makes a new one."""
        about = [f"{java.version} {os.path.realpath(java.executable)} {os.stat(java.executable).st_mtime_ns}"]
        about += [f"{each} {each.stat().st_size} {each.stat().st_mtime_ns}" for each in jars]
        digest = hashlib.sha256("\n".join(about).encode()).hexdigest()[:16]
        return Archive(cache_folder() / f"spark-{digest}.jsa")

    @property
    def kept(self) -> bool:
        return self.path.is_file()

    @property
    def unfinished(self) -> Path:
        """Of this process."""
        return self.path.with_name(f"{self.path.name}.{os.getpid()}")

    def options(self) -> tuple[str, ...]:
        """Use the archive; or make it; or neither, where there is no place for it."""
        if self.kept:
            return (f"-XX:SharedArchiveFile={self.path}",)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.unfinished.touch()
            self.unfinished.unlink()
        except OSError:
            return ()
        return (f"-XX:ArchiveClassesAtExit={self.unfinished}",)

    def keep(self) -> None:
        """Put what this process made into its place, and remove what others left half done long ago."""
        with suppress(OSError):
            if self.unfinished.is_file():
                self.unfinished.replace(self.path)
            for each in self.path.parent.glob("spark-*.jsa.*"):
                if time.time() - each.stat().st_mtime > _STALE_S:
                    each.unlink()


def start_gateway(java: Java, memory: str) -> Any:
    """The running virtual machine, as PySpark wants to be given it."""
    archive = Archive.of(java, _jars())
    process, port, secret = up(java, memory, archive)
    atexit.register(end, process, archive)
    return _connected(process, port, secret)


def up(java: Java, memory: str, archive: Archive) -> tuple[subprocess.Popen[bytes], int, str]:
    """The process, and the port and the secret by which it is spoken to."""
    with tempfile.TemporaryDirectory(prefix="tidemark-spark-") as folder:
        told = Path(folder) / "gateway"
        process = _started(java, memory, archive.options(), told)
        found = _connection(process, told)
        if found is None and archive.kept:
            with suppress(OSError):
                archive.path.unlink()
            process = _started(java, memory, (), told)
            found = _connection(process, told)
    if found is None:
        raise JavaError(f"Spark's virtual machine ({java.executable}) ended before it was ready: exit {process.poll()}")
    return process, *found


def _started(java: Java, memory: str, options: Sequence[str], told: Path) -> subprocess.Popen[bytes]:
    command = [
        str(java.executable), "-cp", os.pathsep.join(str(each) for each in _jars()), f"-Xmx{memory}", *OPTIONS, *QUIET,
        *LIGHT, *options, "org.apache.spark.api.python.PythonGatewayServer",
    ]  # fmt: skip
    environment = {**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told), "PYTHONHASHSEED": "0"}
    # Its stdin is a pipe: it ends when that does. Its stdout may hold nothing that a reader of ours takes for JSON.
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.__stderr__, env=environment, preexec_fn=_deaf)


def _deaf() -> None:
    """Ctrl-C is for the command, which then ends Spark in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _connection(process: subprocess.Popen[bytes], told: Path) -> tuple[int, str] | None:
    """Port and secret; None if the machine ended first."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while not told.is_file():
        if process.poll() is not None:
            return None
        if time.monotonic() > deadline:
            process.kill()
            raise JavaError(f"Spark's virtual machine was not ready within {_READY_TIMEOUT_S:.0f} s")
        time.sleep(0.01)
    # two numbers of four bytes in network order: the port, and the length of the secret that follows
    port, length = struct.unpack_from("!ii", written := told.read_bytes())
    return port, written[8 : 8 + length].decode()


def _connected(process: subprocess.Popen[bytes], port: int, secret: str) -> Any:
    from pyspark.java_gateway import launch_gateway

    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    gateway.proc = process
    return gateway


def end(process: subprocess.Popen[bytes], archive: Archive) -> None:
    """Let the machine end; where it leaves an archive, wait for that."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    if not archive.kept:
        with suppress(subprocess.TimeoutExpired):
            if process.wait(_ARCHIVING_TIMEOUT_S) == 0:
                archive.keep()
