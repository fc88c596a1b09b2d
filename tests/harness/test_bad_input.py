"""Bad input on the real command line: a message that names what is wrong, exit code 64, no traceback, never 0."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness.commands.runs
import histories.synth
from checkers.java import JavaError
from harness.cli import main
from harness.exits import Exit
from harness.fleet.base import FleetError
from harness.pool import WorkerError
from harness.run import SealError
from harness.targets import TargetError
from histories.store import RunStore
from tests.harness.test_cli import history

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("TIDEMARK_STORE", raising=False)
    return tmp_path


def refused(output: Output, *arguments: str) -> str:
    """Exit code 64, and what was said, which is no traceback."""
    assert main(arguments) == Exit.USAGE
    said = output.readouterr().err
    assert "Traceback" not in said
    assert "failed" not in said
    return said


PATHS: list[tuple[Callable[[Path], object], str, str]] = [
    (lambda _: None, "", "an empty path"),
    (lambda _: None, "absent", "no run 'absent' in runs; it is empty"),
    (lambda _: None, "./absent", "./absent: no such file or folder"),
    (lambda _: None, "x" * 300, "x…: cannot be read: File name too long"),
    (lambda at: (at / "loop").symlink_to("loop"), "loop", "loop: cannot be read: Too many levels"),
    (lambda at: (at / "file").touch(), "file/inside", "file/inside: cannot be read: Not a directory"),
    (lambda at: (at / "file").touch(), "file", "file: expected a folder, or a Jepsen history"),
    (lambda at: (at / "empty.edn").touch(), "empty.edn", "empty.edn: empty"),
    (lambda at: os.mkfifo(at / "pipe"), "pipe", "pipe: neither a file nor a folder"),
    (lambda at: (at / "empty").mkdir(), "empty", "empty: the folder is empty"),
    (lambda at: (at / "other" / "x").mkdir(parents=True), "other", "other: not a history"),
    (lambda at: (at / "dead" / "journal").mkdir(parents=True), "dead", "dead: no meta.json"),
    (lambda at: (at / "dead" / "history").mkdir(parents=True), "dead", "dead: no meta.json"),
]


@pytest.mark.parametrize(("prepare", "path", "message"), PATHS)
@pytest.mark.parametrize("command", ["check", "explain"])
def test_paths_that_are_no_history(
    prepare: Callable[[Path], object], path: str, message: str, command: str, here: Path, capsys: Output
) -> None:
    prepare(here)
    assert message in refused(capsys, command, path, *(["5"] if command == "explain" else []))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", ""], "--only: expected names"),
        (["--only", "lost-wrte"], "did you mean 'lost-write'"),
        (["--promises", "absent.toml"], "absent.toml: No such file"),
        (["--promises", "history"], "history: Is a directory"),
        (["--json", "history"], "--json history: cannot be written: Is a directory"),
        (["--json", "absent/x"], "--json absent/x: cannot be written: No such file"),
        (["--html", "history"], "--html history: cannot be written"),
        (["--html", "absent/x"], "--html absent/x: cannot be written"),
        (["--master", "bogus://x"], "--master bogus://x: expected local"),
        (["--master", "local[0]"], "--master local[0]: expected local"),
        (["--master", ""], "--master : expected local"),
    ],
)
def test_options_of_check_are_refused_before_spark_starts(
    arguments: list[str], message: str, here: Path, capsys: Output
) -> None:
    history(here / "history")
    assert message in refused(capsys, "check", "history", *arguments)


@pytest.mark.parametrize("value", ["x", "1.5", "", str(2**63), "9" * 5000])
def test_values_that_explain_cannot_look_for(value: str, here: Path, capsys: Output) -> None:
    history(here / "history")
    assert "invalid 64-bit whole number value" in refused(capsys, "explain", "history", value)


def test_explain_of_a_damaged_history(here: Path, capsys: Output) -> None:
    history(here / "history")
    part = here / "history" / "mops" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-9])
    assert "part-00000.parquet: not a whole Parquet file" in refused(capsys, "explain", "history", "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "file"], "--out file: is already there"),
        (["--out", "file/x"], "--out file/x: cannot be written: Not a directory"),
        (["--out", "absent/x.edn"], "--out absent/x.edn: cannot be written: No such file"),
        (["--out", "x" * 300], "cannot be written: File name too long"),
        (["--out", "out", "--ops", "0"], "--ops: invalid positive whole number"),
        (["--out", "out", "--ops", "1e5"], "--ops: invalid positive whole number"),
        (["--out", "out", "--seed", "-1"], "--seed: invalid whole number"),
        (["--out", "out", "--keys", "99999999999"], "too few for 99999999999 keys"),
        (["--out", "out", "--inject", "lost-wrte:1"], "did you mean 'lost-write'"),
        (["--out", "out", "--inject", "lost-write:0"], "expected NAME:COUNT"),
        (["--out", "out", "--inject", "lost-write:"], "expected NAME:COUNT"),
        (["--out", "out", "--inject", "lost-write:999999999999999999999"], "too many for 1000 operations"),
        (["--out", "out", "--inject", "unavailable-after-heal:1"], "cannot be injected into a history of a log"),
        (["--out", "out", "--inject", "G1c:1"], "what can: aborted-read, duplicate, early-read"),
        (["--out", "out", "--inject", "wrong:1"], "unknown anomaly 'wrong'; known are lost-write, vanished-read"),
    ],
)
def test_synth_refuses_and_leaves_nothing(arguments: list[str], message: str, here: Path, capsys: Output) -> None:
    (here / "file").touch()
    assert message in refused(capsys, "synth", "log", "--ops", "1000", *arguments)
    assert [each.name for each in here.iterdir()] == ["file"]


@pytest.mark.parametrize("out", ["made", "made.edn"])
def test_an_interrupted_synth_leaves_nothing(
    out: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def interrupted(folder: Path, *_: object) -> None:
        (folder / "ops").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(histories.synth, "synthesize", interrupted)
    assert main(["synth", "log", "--ops", "1000", "--out", out]) == Exit.INTERRUPTED
    assert capsys.readouterr().err == "tidemark: interrupted\n"
    assert list(here.iterdir()) == []


def test_what_a_killed_synth_left_is_written_over(here: Path) -> None:
    (here / "made" / "ops").mkdir(parents=True)
    (here / "made" / "ops" / "part-00000.parquet").write_text("half")
    assert main(["synth", "log", "--ops", "1000", "--out", "made"]) == 0


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("file", "file: no store of runs: Not a directory"),
        ("file/x", "file/x: no store of runs: Not a directory"),
        ("x" * 300, "no store of runs: File name too long"),
    ],
)
@pytest.mark.parametrize("action", [[], ["delete", "latest"]])
def test_stores_that_are_none(store: str, message: str, action: list[str], here: Path, capsys: Output) -> None:
    (here / "file").touch()
    assert message in refused(capsys, "runs", "--store", store, *action)


@pytest.mark.parametrize("store", ["file", "file/x", "x" * 300, "/proc/x"])
def test_a_run_that_cannot_be_stored(store: str, here: Path, capsys: Output) -> None:
    (here / "file").touch()
    said = refused(capsys, "run", "existing", "--bootstrap", "127.0.0.1:1", "--store", store)
    assert "no run can be stored there" in said
    assert "--store DIR or TIDEMARK_STORE" in said


def test_a_store_with_strange_things_in_it(here: Path, capsys: Output) -> None:
    store = RunStore(here / "runs")
    run = store.create("smoke", 3)
    run.pid.write_text("-1 nonsense")
    run.meta.write_text("{")
    run.report_json.write_text('{"verdict": ')
    (store.root / "99999999-999999-smoke-abcd").mkdir()
    (store.root / "notes.txt").write_text("hello")
    assert main(["runs", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["id"] == run.id
    assert main(["runs", "delete", run.id]) == 0


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (JavaError("no Java.\nInstall one."), ["failed: no Java.", "Install one."]),
        (TargetError("the brokers do not answer"), ["failed: the brokers do not answer"]),
        (FleetError("no free port"), ["failed: no free port"]),
        (WorkerError("worker 0 failed: x\nits log: y"), ["failed: worker 0 failed: x", "its log: y"]),
    ],
)
def test_what_is_wrong_outside_is_told_in_full_without_a_traceback(
    error: Exception, said: list[str], here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    assert failing(monkeypatch, error) == Exit.HARNESS
    assert capsys.readouterr().err.splitlines() == [f"tidemark: {line}" for line in said]
    assert list(here.iterdir()) == []


def test_the_first_cause_comes_first(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    def fails(_: Any) -> int:
        try:
            raise WorkerError("the journal cannot be written")
        finally:
            try:
                raise OSError(errno.ENOSPC, "No space left on device")
            except OSError as error:
                raise SealError("it cannot be sealed") from error

    monkeypatch.setattr(harness.commands.runs, "execute_list", fails)
    assert main(["runs"]) == Exit.HARNESS
    said = capsys.readouterr().err
    assert said.splitlines() == [
        "tidemark: failed: the journal cannot be written",
        "tidemark: failed: it cannot be sealed",
    ]


def test_a_full_disk_anywhere(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    assert failing(monkeypatch, OSError(errno.ENOSPC, "No space left on device", "/x/spec.json")) == Exit.HARNESS
    said = capsys.readouterr().err
    assert "failed: /x/spec.json: No space left on device" in said
    assert "make room" in said
    assert list(here.iterdir()) == []


def test_a_traceback_that_cannot_be_kept(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    assert failing(monkeypatch, ZeroDivisionError("a bug")) == Exit.HARNESS
    said = capsys.readouterr().err
    assert "failed: a bug" in said
    assert "cannot be kept" in said


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> int:
    def fails(_: Any) -> int:
        raise error

    monkeypatch.setattr(harness.commands.runs, "execute_list", fails)
    return main(["runs"])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_output_that_cannot_be_written_is_no_success(here: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "harness.cli", "runs", "--store", str(here)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=Path(harness.commands.runs.__file__).parents[2],
        )
    assert done.returncode == Exit.HARNESS
    assert done.stderr.startswith("tidemark: failed: No space left on device")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
