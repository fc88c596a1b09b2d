"""Hosts of their own without root: the same tests once more, inside of a user namespace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness.fleet.choice
from harness.fleet import kernel
from harness.fleet.base import FleetError
from harness.fleet.choice import choose
from harness.fleet.probe import REMEDY, Probe

ROOT = Path(__file__).parents[2]

_INSIDE = """
import sys
from harness.fleet import kernel
kernel.become_root_of_a_user_namespace()
import pytest
sys.exit(pytest.main(["-p", "no:cacheprovider", "--basetemp", sys.argv[1], "tests/harness/test_namespaces.py"]))
"""


def test_everything_works_in_a_user_namespace(tmp_path: Path) -> None:
    tried = subprocess.run(["unshare", "--user", "--net", "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no user namespaces here: {tried.stderr.strip()}")
    done = subprocess.run(
        [sys.executable, "-c", _INSIDE, str(tmp_path / "inside")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def answer(monkeypatch: pytest.MonkeyPatch, found: Probe, *, allowed: bool = True) -> None:
    monkeypatch.setattr(harness.fleet.choice, "probe", lambda: found)
    monkeypatch.setattr(kernel, "may_make_networks", lambda: allowed)


def test_auto_takes_the_best_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, Probe(None))
    assert str(choose("auto")) == "namespaces: every host has a network of its own (as root)"
    assert choose("namespaces") == choose("auto")
    assert str(choose("loopback")) == "loopback: as asked for"
    assert choose("auto", "it is somebody else's").kind == "loopback"
    answer(monkeypatch, Probe("not allowed"))
    assert choose("auto").kind == "loopback"
    assert "not allowed" in choose("auto").why
    assert REMEDY in choose("auto").why


def test_what_is_asked_for_and_cannot_be_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, Probe("not allowed"))
    with pytest.raises(FleetError, match="cannot be namespaces: no hosts of their own here: not allowed"):
        choose("namespaces")
    with pytest.raises(FleetError, match="it is somebody else's"):
        choose("namespaces", "it is somebody else's")


def test_a_user_namespace_is_entered_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = []
    answer(monkeypatch, Probe(None, user_namespace=True), allowed=False)
    monkeypatch.setattr(kernel, "become_root_of_a_user_namespace", lambda: entered.append("it"))
    assert str(choose("auto")) == "namespaces: every host has a network of its own (in a user namespace)"
    assert entered == ["it"]

    def too_late() -> None:
        raise FleetError("one thread only")

    monkeypatch.setattr(kernel, "become_root_of_a_user_namespace", too_late)
    assert str(choose("auto")) == "loopback: one thread only"
