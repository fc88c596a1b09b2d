"""The terminal: a summary that says everything in plain text, a view that is quiet in a log."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from checkers.result import Judgement, Verdict
from harness.events import EventStream, Progress
from harness.report import figures
from harness.report.terminal import TerminalView, print_summary
from harness.report.words import replay_command
from histories.recorded import RecordedEvent
from tests.harness import report_sample as sample


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def summary_of(judgement: Judgement, stream: io.StringIO | None = None) -> str:
    stream = stream or io.StringIO()
    print_summary(judgement, report=Path("runs/x/report.html"), replay="tidemark run smoke", stream=stream)
    return stream.getvalue()


def test_the_summary_is_plain_text_in_a_log() -> None:
    text = summary_of(sample.invalid())
    assert "\x1b" not in text
    for part in ("✗ INVALID", "lost-write", "violated", "observed", "report  runs/x/report.html", "tidemark run smoke"):
        assert part in text
    assert text.index("INVALID") < text.index("lost-write") < text.index("int-send-skip")


def test_text_from_a_history_is_not_markup() -> None:
    judgement = Judgement("[red]x[/red] :smile:", Verdict.UNKNOWN, (), ("[bold]why[/bold]",), {})
    text = summary_of(judgement)
    assert "[red]x[/red] :smile:" in text
    assert "[bold]why[/bold]" in text


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_a_summary(verdict: Verdict) -> None:
    text = summary_of(Judgement("x", verdict, (), (), {}))
    assert verdict.value.replace("-", " ").upper() in text


def progress(elapsed: float, acknowledged: int = 0) -> Progress:
    return Progress(elapsed, 90, acknowledged, polled=5, failed=1, unknown=2)


def test_a_log_gets_one_line_every_five_seconds_and_each_fault() -> None:
    stream = io.StringIO()
    events = EventStream(0)
    with TerminalView("smoke", 42, stream) as view:
        events.subscribe(view)
        events.emit(RecordedEvent("phase", time_ns=0, detail="load"))
        for tenth in range(1, 120):
            events.emit(progress(tenth / 10, tenth * 150))
            if tenth == 70:
                events.emit(
                    RecordedEvent("fault-injected", time_ns=7 * 10**9, fault_id=1, fault="kill", node="broker-2")
                )
    lines = stream.getvalue().splitlines()
    assert lines[0] == "tidemark run smoke · seed 42"
    assert lines[1] == "0.0 s · phase load"
    assert [line for line in lines if "acknowledged" in line] == [
        "5/90 s · load · 7500 acknowledged (1500/s) · 5 polled · 2 unknown · 1 failed",
        "10/90 s · load · 15000 acknowledged (1500/s) · 5 polled · 2 unknown · 1 failed · faults: kill broker-2",
    ]
    assert "7.0 s · fault injected kill broker-2" in lines
    assert len(lines) == 5


def test_a_terminal_shows_what_is_in_force() -> None:
    stream = Terminal()
    with TerminalView("smoke", 42, stream) as view:
        view(progress(1.0, 1500))
        view(RecordedEvent("fault-injected", time_ns=1, fault_id=1, fault="pause", node="broker-1"))
        view(RecordedEvent("fault-evidence", time_ns=1, fault_id=1))
    text = stream.getvalue()
    assert "seed 42" in text
    assert "pause broker-1" in text
    assert "1 landed" in text


def test_healed_faults_leave_the_view() -> None:
    stream = io.StringIO()
    with TerminalView("smoke", 42, stream) as view:
        view(RecordedEvent("fault-injected", time_ns=1, fault_id=1, fault="pause", node="broker-1"))
        view(RecordedEvent("fault-healed", time_ns=2, fault_id=1))
        view(progress(9.0))
    assert "faults:" not in stream.getvalue()


def test_replay_command() -> None:
    judgement = sample.invalid()
    assert replay_command(judgement, Path("runs/a b")) == "tidemark run 'runs/a b/plan.toml' --seed 5402117733901"
    assert replay_command(judgement, None) == f"tidemark check {judgement.path}"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("send-latency-ms p99", 184.61, "send latency p99 184.6 ms"),
        ("availability", 0.9375, "availability 93.75 %"),
        ("losses-per-million", 1757.6, "losses 1\u202f758 per million"),
        ("longest-unavailability-s", 4, "longest unavailability 4 s"),
        ("sent", 1234567, "sent 1\u202f234\u202f567"),
        ("polls", 12, "polls 12"),
    ],
)
def test_metrics_in_words(name: str, value: float, expected: str) -> None:
    label, unit = figures.named(name)
    assert f"{label} {figures.metric(name, value)} {unit}".strip() == expected
