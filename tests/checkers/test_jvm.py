"""Spark's virtual machine: its options are those of Spark's launcher, and no archive can keep it from starting."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from checkers import jvm
from checkers.java import Java, JavaError, find_java
from checkers.jvm import Archive


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "cache" / "spark-0.jsa")


def java_that(tmp_path: Path, does: str) -> Java:
    """A script in the place of Java. ``does`` may call ``tell``, which says the port 7 and the secret ab."""
    executable = tmp_path / "java"
    tell = "tell() { printf '\\000\\000\\000\\007\\000\\000\\000\\002ab' > \"$_PYSPARK_DRIVER_CONN_INFO_PATH\"; }"
    executable.write_text(f"#!/bin/sh\n{tell}\n{does}\n")
    executable.chmod(0o755)
    return Java(tmp_path, executable, 17, "PATH")


def test_the_options_are_those_of_sparks_launcher() -> None:
    jars = os.pathsep.join(str(each) for each in jvm._jars())
    launcher = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    spark_home = str(jvm._jars()[0].parent.parent)
    done = subprocess.run(
        [str(find_java().executable), "-cp", jars, *launcher],
        env={**environment, "SPARK_HOME": spark_home, "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    words = done.stdout.split("\0")
    theirs = {each for each in words if each.startswith(("-XX", "--", "-D"))}
    assert theirs - {"--add-modules=jdk.incubator.vector"} == set(jvm.OPTIONS)


def test_an_archive_is_made_once_and_then_used(archive: Archive) -> None:
    assert archive.options() == (f"-XX:ArchiveClassesAtExit={archive.unfinished}",)
    archive.unfinished.write_text("classes")
    assert not archive.kept, "not before it is whole"
    archive.keep()
    assert archive.path.read_text() == "classes"
    assert archive.options() == (f"-XX:SharedArchiveFile={archive.path}",)
    assert os.listdir(archive.path.parent) == [archive.path.name]


def test_what_others_are_making_stays_unless_it_is_old(archive: Archive) -> None:
    archive.options()
    fresh, old = (archive.path.with_name(f"{archive.path.name}.{pid}") for pid in (1, 2))
    fresh.touch()
    old.touch()
    os.utime(old, (0, 0))
    archive.keep()
    assert sorted(archive.path.parent.iterdir()) == [fresh]


def test_without_a_place_for_an_archive_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert Archive(tmp_path / "cache" / "spark-0.jsa").options() == ()


def test_another_java_or_other_jars_have_another_archive(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_text("one")
    java = java_that(tmp_path, "")
    first = Archive.of(java, [jar])
    assert Archive.of(java, [jar]) == first
    assert Archive.of(Java(tmp_path, java.executable, 21, "PATH"), [jar]) != first
    jar.write_text("other")
    assert Archive.of(java, [jar]) != first


@pytest.mark.parametrize("content", [b"", b"not an archive" * 1000])
def test_a_damaged_archive_is_ignored_in_silence(tmp_path: Path, content: bytes) -> None:
    damaged = tmp_path / "spark-0.jsa"
    damaged.write_bytes(content)
    options = [*jvm.OPTIONS, *jvm.QUIET, *jvm.LIGHT, *Archive(damaged).options()]
    done = subprocess.run([str(find_java().executable), *options, "--version"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""


def test_a_machine_that_dies_of_its_archive_is_started_without(tmp_path: Path, archive: Archive) -> None:
    archive.path.parent.mkdir()
    archive.path.write_text("deadly")
    java = java_that(tmp_path, 'case "$*" in *SharedArchiveFile*) exit 1 ;; esac; tell; cat')
    process, port, secret = jvm.up(java, "1g", archive)
    assert (port, secret, process.poll(), archive.kept) == (7, "ab", None, False)
    jvm.end(process, archive)
    assert process.wait(10) == 0


def test_a_machine_that_dies_anyway_is_an_error(tmp_path: Path, archive: Archive) -> None:
    with pytest.raises(JavaError, match="ended before it was ready: exit 3"):
        jvm.up(java_that(tmp_path, "exit 3"), "1g", archive)


def test_ending_waits_for_the_archive(tmp_path: Path, archive: Archive) -> None:
    """Whoever ends early would find half of it."""
    makes = 'for each do case "$each" in -XX:ArchiveClassesAtExit=*) file=${each#*=} ;; esac; done'
    java = java_that(tmp_path, f'{makes}; tell; cat; sleep 0.2; echo classes > "$file"')
    process, _, _ = jvm.up(java, "1g", archive)
    jvm.end(process, archive)
    assert archive.path.read_text() == "classes\n"


def test_an_archive_of_a_machine_that_failed_is_not_kept(tmp_path: Path, archive: Archive) -> None:
    makes = 'for each do case "$each" in -XX:ArchiveClassesAtExit=*) file=${each#*=} ;; esac; done'
    java = java_that(tmp_path, f'{makes}; tell; cat; echo half > "$file"; exit 1')
    process, _, _ = jvm.up(java, "1g", archive)
    jvm.end(process, archive)
    assert not archive.kept
