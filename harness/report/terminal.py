"""The terminal: a live view while a run goes on, and the summary at its end.

On a terminal the live view is one panel that is redrawn; anywhere else (a CI log) it is one plain line
every five seconds, and one for each phase and fault. Handlers of the event stream must be quick, so
nothing here waits.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from checkers.result import Finding, Judgement, Verdict
from harness.events import Event, Progress
from harness.report import figures
from harness.report.words import TITLES, meaning, summary, violated
from histories.recorded import RecordedEvent

PLAIN_EVERY_S = 5.0
BAR_WIDTH = 28

_STYLES = {
    Verdict.VALID: "bold green",
    Verdict.INVALID: "bold red",
    Verdict.UNKNOWN: "bold yellow",
    Verdict.NOT_EXERCISED: "bold yellow",
}
_MARKS = {Verdict.VALID: "✓", Verdict.INVALID: "✗", Verdict.UNKNOWN: "?", Verdict.NOT_EXERCISED: "–"}
_SHOWN_METRICS = 9


def print_summary(
    judgement: Judgement, *, report: Path | None = None, replay: str = "", stream: IO[str] | None = None
) -> None:
    """The end of ``run`` and ``check``: verdict, anomalies, numbers, where the report is, how to see it again."""
    console = _console(stream or sys.stdout)
    console.print()
    title = Text(f"{_MARKS[judgement.verdict]} {TITLES[judgement.verdict].upper()}", _STYLES[judgement.verdict])
    console.print(title.append(f"  {judgement.path}", "default"))
    console.print(Text(f"  {summary(judgement)}"))
    console.print(Text(f"  {meaning(judgement)}", "dim"))
    _print_list(console, "why", judgement.reasons)
    shown = [each for each in judgement.findings if each.count]
    if shown:
        console.print()
        console.print(_anomalies(violated(judgement) + [each for each in shown if not each.fatal]))
    if judgement.models is not None and judgement.models.weakest:
        console.print()
        console.print(Text(f"  not {', '.join(judgement.models.weakest)}", "bold"))
        if judgement.models.others:
            console.print(Text(f"  and so neither {', '.join(judgement.models.others)}", "dim"))
    _print_examples(console, violated(judgement))
    _print_list(console, "not put to the test", judgement.not_exercised)
    _print_numbers(console, judgement)
    if report is not None or replay:
        console.print()
    if report is not None:
        console.print(Text(f"  report  {report}"), soft_wrap=True)
    if replay:
        console.print(Text(f"  again   {replay}"), soft_wrap=True)
    console.print()


def _console(stream: IO[str]) -> Console:
    # Lines of a log are as long as they are; only a terminal has a width to wrap at.
    width = None if stream.isatty() else 200
    return Console(file=stream, width=width, highlight=False, emoji=False)


def _print_list(console: Console, title: str, items: tuple[str, ...]) -> None:
    for i, each in enumerate(items):
        if i == 0:
            console.print()
            console.print(Text(f"  {title}", "bold"))
        console.print(Text(f"  · {each}"))


def _anomalies(findings: list[Finding]) -> Table:
    table = Table(box=None, padding=(0, 2), pad_edge=True, header_style="dim")
    table.add_column("anomaly")
    table.add_column("cases", justify="right")
    table.add_column("violated", justify="right")
    table.add_column("")
    for each in findings:
        words = Text("violated", "bold red") if each.fatal else Text("observed", "dim")
        table.add_row(each.anomaly, figures.count(each.count), figures.count(each.fatal_count), words)
    return table


def _print_examples(console: Console, findings: list[Finding]) -> None:
    for each in findings:
        for example in each.examples[:1]:
            console.print()
            console.print(Text(f"  {each.anomaly}: {example.sentence}"))


def _print_numbers(console: Console, judgement: Judgement) -> None:
    numbers = []
    for name, value in list(figures.headline(judgement.metrics).items())[:_SHOWN_METRICS]:
        label, unit = figures.named(name)
        numbers.append(f"{label} {figures.metric(name, value)}{f' {unit}' if unit else ''}")
    if judgement.faults:
        landed = sum(each.landed for each in judgement.faults)
        numbers.append(f"{landed} of {figures.plural(len(judgement.faults), 'fault')} landed")
    if judgement.seconds:
        numbers.append(f"judged in {figures.duration(judgement.seconds)}")
    if numbers:
        console.print()
        console.print(Text(f"  {' · '.join(numbers)}", "dim"))


@dataclass
class _State:
    phase: str = "starting"
    fleet: str = ""
    faults: dict[int, str] = field(default_factory=dict)
    """In force, by id."""
    landed: int = 0
    missed: int = 0
    progress: Progress | None = None
    rate: float = 0.0

    def apply(self, event: Event) -> None:
        if isinstance(event, Progress):
            before = self.progress
            gone = event.elapsed_s - before.elapsed_s if before else event.elapsed_s
            done = event.acknowledged - (before.acknowledged if before else 0)
            if gone > 0:
                self.rate = done / gone
            self.progress = event
            return
        fault = event.fault_id
        if event.kind == "phase":
            self.phase = event.detail or self.phase
        elif event.kind == "fleet":
            self.fleet = event.detail or ""
        elif event.kind == "fault-injected" and fault is not None:
            self.faults[fault] = _fault(event)
        elif event.kind == "fault-evidence":
            self.landed += 1
        elif event.kind == "fault-not-landed":
            self.missed += 1
        elif event.kind == "fault-healed" and fault is not None:
            self.faults.pop(fault, None)


def _fault(event: RecordedEvent) -> str:
    return " ".join(filter(None, (event.fault, event.node))) or "fault"


_TOLD = (
    "phase",
    "fleet",
    "faults-unavailable",
    "fault-injected",
    "fault-evidence",
    "fault-not-landed",
    "fault-healed",
    "node-died",
    "unavailable",
)


class TerminalView:
    """A handler of the event stream; a context manager, so that the terminal is always given back."""

    def __init__(self, plan: str, seed: int, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._title = f"tidemark run {plan} · seed {seed}"
        self._state = _State()
        self._live: Live | None = None
        self._said_at_s = 0.0

    def __enter__(self) -> TerminalView:
        if self._stream.isatty():
            console = _console(self._stream)
            self._live = Live(self._panel(), console=console, refresh_per_second=8, transient=True)
            self._live.start()
        else:
            self._say(self._title)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, event: Event) -> None:
        self._state.apply(event)
        if self._live is not None:
            self._live.update(self._panel())
        elif isinstance(event, Progress):
            if event.elapsed_s - self._said_at_s >= PLAIN_EVERY_S or event.elapsed_s < self._said_at_s:
                self._said_at_s = event.elapsed_s
                self._say(self._line(event))
        elif event.kind in _TOLD:
            self._say(_told(event))

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)

    def _line(self, progress: Progress) -> str:
        parts = [
            f"{progress.elapsed_s:.0f}/{progress.limit_s:.0f} s",
            self._state.phase,
            f"{progress.acknowledged} acknowledged ({self._state.rate:.0f}/s)",
            f"{progress.polled} polled",
            f"{progress.unknown} unknown",
            f"{progress.failed} failed",
        ]
        if self._state.faults:
            parts.append("faults: " + ", ".join(self._state.faults.values()))
        return " · ".join(parts)

    def _panel(self) -> RenderableType:
        state = self._state
        head = Text(self._title, "bold")
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim")
        rows.add_column()
        progress = state.progress
        if progress is not None:
            rows.add_row(state.phase, _bar(progress.elapsed_s, progress.limit_s))
            rows.add_row("sent", f"{figures.count(progress.acknowledged)} acknowledged, {state.rate:,.0f}/s")
            rows.add_row("read", f"{figures.count(progress.polled)} records")
            errors = f"{figures.count(progress.unknown)} unknown, {figures.count(progress.failed)} refused"
            rows.add_row("errors", errors)
        else:
            rows.add_row("phase", state.phase)
        in_force = Text(", ".join(state.faults.values()), "bold yellow") if state.faults else Text("none", "dim")
        rows.add_row("faults", in_force)
        missed = f", {state.missed} did not land" if state.missed else ""
        rows.add_row("", Text(f"{state.landed} landed{missed}", "dim"))
        if state.fleet:
            rows.add_row("fleet", Text(state.fleet, "dim"))
        return Group(head, rows)


def _bar(elapsed_s: float, limit_s: float) -> Text:
    share = min(1.0, elapsed_s / limit_s) if limit_s > 0 else 1.0
    full = round(share * BAR_WIDTH)
    return (
        Text("━" * full, "cyan")
        .append("─" * (BAR_WIDTH - full), "dim")
        .append(f" {elapsed_s:.0f} of {limit_s:.0f} s", "default")
    )


def _told(event: RecordedEvent) -> str:
    at = f"{(event.time_ns or 0) / 1e9:.1f} s"
    words: list[Any] = [event.kind.replace("-", " "), event.fault, event.node, event.detail]
    return f"{at} · " + " ".join(str(each) for each in words if each)
