"""The command line: exit codes, messages, what is written where. No cluster, and no Spark: both are replaced."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

import checkers.session
import harness.commands.runs
from checkers.names import ANOMALIES
from checkers.result import Judgement, Verdict
from harness import interrupts
from harness.cli import main
from harness.commands.check import only_names
from harness.commands.synth import injections
from harness.exits import Exit, UsageError, worst
from harness.plan import Plan
from harness.planfile import dump
from histories.build import HistoryBuilder
from histories.errors import HistoryError
from histories.recorded import RecordedEvent
from histories.store import RunStore
from tests.harness import report_sample


class Session:
    stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Verdict]:
    """Judges by the name of the folder; what was judged with is recorded in the session."""
    found: dict[str, Verdict] = {}

    def judge(_spark: Any, folder: Path, *, path_label: str, **_: Any) -> Judgement:
        name = Path(path_label).name
        if name == "refused":
            raise HistoryError(f"{folder}: refused by the judge")
        return replace(report_sample.valid(), path=path_label, verdict=found.get(name, Verdict.VALID))

    monkeypatch.setitem(sys.modules, "checkers.judge", SimpleNamespace(judge=judge))
    monkeypatch.setattr(checkers.session, "start", lambda _master: Session())
    return found


def history(folder: Path) -> Path:
    builder = HistoryBuilder()
    builder.send(process=0, key=0, value=1, offset=0)
    builder.poll(process=1, records=[(0, 0, 1)])
    builder.scan(key=0, records=[(0, 1)])
    builder.write(folder)
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["bogus"],
        ["run", "--bogus"],
        ["check"],
        ["synth", "log", "--ops", "-3", "--out", "x"],
        ["explain", "x", "y"],
        ["run", "no-such-plan"],
        ["run", "--seed", "x"],
        ["run", "--set", "clients.ack=1"],
        ["check", "x", "--only", "lost-wrte"],
        ["check", "a", "b", "--html", "x.html"],
        ["synth", "log", "--ops", "1000", "--out", "x", "--inject", "lost-wrte:1"],
        ["runs", "delete", "x"],
    ],
)
def test_a_wrong_command_line_exits_with_64(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == Exit.USAGE
    assert "tidemark" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [[], ["run"], ["check"], ["explain"], ["runs"], ["synth"], ["synth", "log"], ["doctor"]]
)
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    assert "usage: tidemark" in capsys.readouterr().out


def test_help_and_runs_load_neither_spark_nor_clients() -> None:
    program = (
        "import sys; from harness.cli import main; main(['runs']); main(['--help']);"
        "print([m for m in ('pyspark', 'confluent_kafka', 'aiokafka', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_dry_run_shows_the_resolved_plan(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "run",
        "smoke",
        "--seed",
        "9",
        "--faults",
        "kill",
        "--time-limit",
        "12.5",
        "--set",
        "topic.partitions=7",
    ]
    assert main([*arguments, "--dry-run"]) == 0
    out = capsys.readouterr().out
    for line in ("seed = 9", 'kinds = ["kill"]', "time_limit_s = 12.5", "partitions = 7"):
        assert line in out


def test_bootstrap_means_an_existing_cluster_without_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--bootstrap", "h:1", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert 'kind = "existing"' in out
    assert "kinds = []" in out


def test_a_failure_of_our_own_is_short_and_names_its_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail(monkeypatch, ZeroDivisionError("what a pity\nsecond line"))
    assert main(["runs"]) == Exit.HARNESS
    err = capsys.readouterr().err
    assert "failed: what a pity" in err
    assert "Traceback" not in err
    log = Path(err.split("the traceback is in ")[1].split(";")[0])
    assert "ZeroDivisionError: what a pity" in log.read_text()
    log.unlink()


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fail(monkeypatch, ZeroDivisionError("what a pity"))
    assert main(["--debug", "runs"]) == Exit.HARNESS
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fail(monkeypatch, KeyboardInterrupt())
    assert main(["runs"]) == Exit.INTERRUPTED
    assert capsys.readouterr().err == "tidemark: interrupted\n"


def fail(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def raising(_: Any) -> int:
        raise error

    monkeypatch.setattr(harness.commands.runs, "execute_list", raising)


def test_check_judges_a_history(
    verdicts: dict[str, Verdict], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = history(tmp_path / "one")
    page = tmp_path / "page.html"
    assert main(["check", str(folder), "--html", str(page)]) == 0
    assert "VALID" in capsys.readouterr().out
    assert "<h1>Valid" in page.read_text()
    assert not (folder / "report.json").exists()
    verdicts["one"] = Verdict.INVALID
    assert main(["check", str(folder)]) == 1


def test_check_goes_on_after_bad_input_and_never_exits_with_0(
    verdicts: dict[str, Verdict], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = str(history(tmp_path / "good"))
    bad = str(tmp_path / "missing")
    refused = str(history(tmp_path / "refused"))
    assert main(["check", bad, refused, good, "--json", "-"]) == Exit.USAGE
    captured = capsys.readouterr()
    documents = [json.loads(line) for line in captured.out.splitlines()]
    assert [each["path"] for each in documents] == [bad, refused, good]
    assert ["error" in each for each in documents] == [True, True, False]
    assert captured.err.count("tidemark: ") == 2
    verdicts["good"] = Verdict.NOT_EXERCISED
    assert main(["check", bad, good]) == 3
    verdicts["good"] = Verdict.INVALID
    assert main(["check", bad, good]) == 1


@pytest.mark.usefixtures("verdicts")
def test_a_check_that_crashed_shows_a_sentence_and_keeps_the_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    trace = "Traceback (most recent call last):\nKeyError: 'x'\n"
    crashed = Judgement("", Verdict.UNKNOWN, (), ("a check crashed: KeyError: 'x'",), {}, crash=trace)
    monkeypatch.setitem(sys.modules, "checkers.judge", SimpleNamespace(judge=lambda *_, **__: crashed))
    folder = str(history(tmp_path / "one"))
    assert main(["check", folder]) == Exit.UNKNOWN
    captured = capsys.readouterr()
    assert "a check crashed: KeyError: 'x'" in captured.out
    assert "Traceback" not in captured.out + captured.err
    (log,) = tmp_path.glob("tidemark-failure-*.log")
    assert log.read_text() == trace
    log.unlink()
    assert main(["check", folder, "--json", "-"]) == Exit.UNKNOWN
    document = json.loads(capsys.readouterr().out)
    (log,) = tmp_path.glob("tidemark-failure-*.log")
    assert document["reasons"] == ["a check crashed: KeyError: 'x'", f"the traceback is in {log}"]
    assert document["crash"] == trace


def test_check_of_a_stored_run_keeps_its_reports(
    verdicts: dict[str, Verdict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_STORE", str(tmp_path))
    run = RunStore(tmp_path).create("smoke", 5)
    run.plan.write_text('name = "smoke"')
    history(run.history)
    verdicts["latest"] = Verdict.UNKNOWN
    assert main(["check", "latest", "--only", "lost-write"]) == 2
    assert not run.report_json.exists(), "a partial judgement is not the run's verdict"
    assert main(["check", "latest"]) == 2
    assert json.loads(run.report_json.read_text())["verdict"] == "unknown"
    assert "smoke" in run.report_html.read_text()


def test_check_refuses_files_that_are_no_histories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    assert main(["check", str(path)]) == Exit.USAGE
    assert "expected a folder, or a Jepsen history" in capsys.readouterr().err


def test_promises_are_checked_before_anything_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    promises = tmp_path / "promises.toml"
    promises.write_text("saf = true")
    assert main(["check", "whatever", "--promises", str(promises)]) == Exit.USAGE
    assert "did you mean 'safe'" in capsys.readouterr().err


def test_only_takes_known_names() -> None:
    assert only_names("lost-write, duplicate") == {"lost-write", "duplicate"}
    with pytest.raises(UsageError, match="unknown anomaly 'duplicates'; did you mean 'duplicate'"):
        only_names("duplicates")
    with pytest.raises(UsageError, match="expected names"):
        only_names(",")


def test_inject_may_be_given_more_than_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once, again = tmp_path / "once", tmp_path / "again"
    synth = ["synth", "log", "--ops", "2000", "--keys", "2", "--out"]
    assert main([*synth, str(once), "--inject", "phantom:1,lost-write:2"]) == 0
    assert main([*synth, str(again), "--inject", "phantom:1", "--inject", "lost-write:2"]) == 0
    assert pq.read_table(once / "mops").equals(pq.read_table(again / "mops"))
    assert main([*synth, str(tmp_path / "third"), "--inject", "phantom:1", "--inject", "phantom:2"]) == Exit.USAGE
    assert "phantom is given twice" in capsys.readouterr().err


def test_injections() -> None:
    assert injections("") == {}
    assert injections("lost-write:3, duplicate") == {"lost-write": 3, "duplicate": 1}
    for bad in ("lost-write:x", "lost-write:-1", "lost-write:1,lost-write:2", "lost:1"):
        with pytest.raises(UsageError, match="--inject"):
            injections(bad)


def test_synth_makes_a_history_and_refuses_to_overwrite_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "made"
    assert main(["synth", "log", "--ops", "2000", "--keys", "2", "--out", str(out), "--inject", "phantom:1"]) == 0
    assert (out / "meta.json").exists()
    assert main(["synth", "log", "--ops", "2000", "--out", str(out)]) == Exit.USAGE
    assert "already there" in capsys.readouterr().err
    assert main(["synth", "log", "--ops", "1", "--out", str(tmp_path / "few")]) == Exit.USAGE


def test_runs_lists_and_deletes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path)]
    assert main(["runs", *store]) == 0
    assert "no runs" in capsys.readouterr().out
    first, second = (RunStore(tmp_path).create(name, 7) for name in ("one", "two"))
    for each in (first, second):
        each.release()
    assert main(["runs", *store, "--json"]) == 0
    assert {json.loads(line)["plan"] for line in capsys.readouterr().out.splitlines()} == {"one", "two"}
    assert main(["runs", *store, "delete", first.id, "nonsense"]) == Exit.USAGE
    assert first.folder.exists(), "nothing is deleted when one name is wrong"
    assert main(["runs", "delete", first.id, *store]) == 0
    assert not first.folder.exists()
    capsys.readouterr()
    assert main(["runs", *store, "list"]) == 0
    assert second.id in capsys.readouterr().out


def a_runner(monkeypatch: pytest.MonkeyPatch, *, interrupted: bool) -> None:
    """A ``harness.run`` that records a small history at once."""

    def record(plan: Plan, store: RunStore, handlers: list[Any], _choice: object) -> Any:
        run = store.create(plan.name, plan.seed)
        run.plan.write_text(dump(plan))
        history(run.history)
        for each in handlers:
            each(RecordedEvent("phase", time_ns=0, detail="load"))
        return SimpleNamespace(run=run, interrupted=interrupted)

    monkeypatch.setitem(sys.modules, "harness.run", SimpleNamespace(record=record))


def test_run_records_judges_and_reports(
    verdicts: dict[str, Verdict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a_runner(monkeypatch, interrupted=False)
    assert main(["run", "smoke", "--fleet", "loopback", "--store", str(tmp_path), "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["verdict"] == "valid"
    run = RunStore(tmp_path).get("latest")
    assert run.report_html.exists()
    seed = tomllib.loads(run.plan.read_text())["seed"]
    assert seed > 0
    assert f"seed {seed}" in captured.err
    assert not verdicts


def test_an_interrupted_run_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a_runner(monkeypatch, interrupted=True)
    assert main(["run", "smoke", "--fleet", "loopback", "--store", str(tmp_path)]) == Exit.INTERRUPTED
    assert "sealed but not judged" in capsys.readouterr().err
    assert not RunStore(tmp_path).get("latest").report_json.exists()


@pytest.mark.parametrize(
    ("codes", "expected"),
    [([0, 0], 0), ([0, 64], 64), ([64, 3], 3), ([3, 2], 2), ([2, 64, 1, 70], 1), ([0, 4], 4), ([], 2)],
)
def test_the_worst_exit_code(codes: list[int], expected: int) -> None:
    assert worst(codes) == expected


def test_exit_codes_agree_with_the_verdicts() -> None:
    names: Callable[[Verdict], str] = lambda verdict: verdict.name  # noqa: E731
    assert {Exit[names(each)]: each.exit_code for each in Verdict} == {each: each for each in list(Exit)[:4]}


def test_anomalies_have_definitions() -> None:
    assert len(set(ANOMALIES)) == len(ANOMALIES) >= 18


def test_a_report_that_cannot_be_written_takes_nothing_from_the_verdict(
    verdicts: dict[str, Verdict], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = RunStore(tmp_path)
    first, second = (store.create(name, 5) for name in ("one", "two"))
    for run in (first, second):
        history(run.history)
    first.report_json.mkdir()
    assert main(["check", first.id, second.id, "--store", str(tmp_path)]) == Exit.HARNESS
    captured = capsys.readouterr()
    assert captured.out.count("VALID") == 2, "the second is judged all the same"
    assert f"{first.report_json}: cannot be written: Is a directory" in captured.err
    assert second.report_json.is_file()
    assert not list(second.folder.glob(".*")), "nothing unfinished is left"
    verdicts[first.id] = Verdict.INVALID
    assert main(["check", first.id, second.id, "--store", str(tmp_path)]) == 1


def test_the_log_of_a_library_shows_no_interruption(
    verdicts: dict[str, Verdict], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "filters", [])
    assert main(["check", str(history(tmp_path / "one"))]) == 0
    assert not verdicts
    for error, shown in ((KeyboardInterrupt(), False), (ZeroDivisionError(), True)):
        record = root.makeRecord("root", logging.ERROR, "x", 1, "said", (), (type(error), error, None))
        assert bool(root.filter(record)) is shown
    capsys.readouterr()


def test_an_interrupted_start_of_spark_leaves_no_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(_master: str | None) -> Session:
        started.append(subprocess.Popen(["sleep", "600"]))
        raise KeyboardInterrupt

    monkeypatch.setattr(checkers.session, "start", start)
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            assert main(["check", str(history(tmp_path / "one"))]) == Exit.INTERRUPTED
            assert started[0].wait(10) == -signal.SIGKILL
            assert stranger.poll() is None, "what ran before is not ours to end"
        finally:
            for each in (stranger, *started):
                each.kill()
    assert capsys.readouterr().err == "tidemark: interrupted\n"


def test_the_handler_that_spark_puts_in_our_place_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    during: list[object] = []

    def start(_master: str | None) -> Session:
        signal.signal(signal.SIGINT, lambda *_: None)
        return Session()

    def judge(_spark: Any, _folder: Path, **_: Any) -> Judgement:
        during.append(signal.getsignal(signal.SIGINT))
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the signal interrupts")

    monkeypatch.setattr(checkers.session, "start", start)
    monkeypatch.setitem(sys.modules, "checkers.judge", SimpleNamespace(judge=judge))
    assert main(["check", str(history(tmp_path / "one"))]) == Exit.INTERRUPTED
    assert during == [interrupts._raise]
