"""Charts over time as inline SVG: throughput, errors, latency, availability, with the faults above them.

All rows share one time axis. The plots are stretched to the width of the page (strokes do not scale),
and every piece of text is HTML placed by per cent, so that it stays readable on a telephone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from checkers.result import Fault
from harness.report import figures
from harness.report.series import Points, Series
from nemesis.fault import Kind

WIDTH, HEIGHT = 1000.0, 100.0
PROCESS_FAULTS = (Kind.KILL, Kind.PAUSE, Kind.STOP, Kind.RESTART)
SLOW_FAULTS = (Kind.LOSS, Kind.BANDWIDTH, Kind.DELAY)


@dataclass(frozen=True)
class Line:
    """One line of a chart and how it is called."""

    name: str
    label: str
    area: bool = False


SENDS = (Line("sent_ok", "sends acknowledged", area=True),)
POLLS = (Line("polled", "records polled"),)
ERRORS = (Line("sent_info", "outcome unknown", area=True), Line("sent_fail", "refused"))
LATENCY = (Line("send_p99_ms", "p99"), Line("send_p95_ms", "p95"), Line("send_p50_ms", "p50"))


@dataclass(frozen=True)
class Band:
    """A fault on the time axis, in per cent of it."""

    fault: Fault
    left: float
    width: float
    track: int


def charts(series: Series, faults: Sequence[Fault]) -> str:
    """The whole panel."""
    bands = bands_of(series, faults)
    rows = [
        _fault_lane(bands),
        _row("Written", "per second", SENDS, _Linear.over(series, SENDS), series, bands),
        _row("Read", "per second", POLLS, _Linear.over(series, POLLS), series, bands),
        _row("Errors", "sends per second", ERRORS, _Linear.over(series, ERRORS), series, bands),
        _row("Send latency", "log scale", LATENCY, _Log.over(series, LATENCY), series, bands),
        _availability(series),
        _time_axis(series),
    ]
    step = "" if series.step_s == 1 else f'<p class="note">Each point covers {series.step_s:g} s.</p>'
    cursor = '<div class="cursor" hidden></div>'
    return f'<div class="charts" data-charts>{"".join(rows)}{cursor}</div>{step}{_data(series)}'


def bands_of(series: Series, faults: Sequence[Fault]) -> list[Band]:
    """Where faults lie on the axis; those in force at the same time get tracks of their own."""
    free_from: list[float] = []
    bands = []
    end_s = series.start_s + series.span_s
    for fault in sorted(faults, key=lambda each: (each.start_ns, each.fault_id)):
        start = fault.start_ns / 1e9
        end = end_s if fault.end_ns is None else fault.end_ns / 1e9
        if end < series.start_s or start > end_s:
            continue
        left = _percent(max(start, series.start_s), series)
        width = max(_percent(min(end, end_s), series) - left, 0.3)
        track = next((i for i, free in enumerate(free_from) if free <= left), len(free_from))
        free_from[track : track + 1] = [left + width]
        bands.append(Band(fault, left, width, track))
    return bands


def _percent(time_s: float, series: Series) -> float:
    return 100 * (time_s - series.start_s) / series.span_s


class _Linear:
    """From zero to a round number above the largest value."""

    def __init__(self, top: float, ticks: Sequence[float]) -> None:
        self._top = top
        self.ticks = [(each, figures.number(each)) for each in ticks]

    @staticmethod
    def over(series: Series, lines: Iterable[Line]) -> _Linear:
        largest = _largest(series, lines)
        step = nice_step(largest / 3 if largest > 0 else 1 / 3)
        amount = max(1, math.ceil(largest / step - 1e-9))
        return _Linear(step * amount, [step * i for i in range(amount + 1)])

    def share(self, value: float) -> float:
        return value / self._top


class _Log:
    """Whole decades around the values, which are milliseconds."""

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high
        self.ticks = [(10.0**each, _decade(each)) for each in range(low, high + 1)]

    @staticmethod
    def over(series: Series, lines: Iterable[Line]) -> _Log:
        values = [v for each in lines for v in series.line(each.name) if v is not None and v > 0]
        if not values:
            return _Log(0, 1)
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) - 1e-9)
        return _Log(low, max(high, low + 1))

    def share(self, value: float) -> float:
        return (math.log10(max(value, 10.0**self._low)) - self._low) / (self._high - self._low)


Scale = _Linear | _Log


def nice_step(rough: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, … at or above."""
    decade = 10.0 ** math.floor(math.log10(rough))
    return next(step * decade for step in (1, 2, 5, 10) if step * decade >= rough * (1 - 1e-9))


def _decade(power: int) -> str:
    return f"{10.0 ** (power - 3):g} s" if power >= 3 else f"{10.0**power:g} ms"


def _largest(series: Series, lines: Iterable[Line]) -> float:
    return max((v for each in lines for v in series.line(each.name) if v is not None), default=0.0)


def _row(title: str, unit: str, lines: Sequence[Line], scale: Scale, series: Series, bands: Sequence[Band]) -> str:
    drawn = "".join(_line(each, series.line(each.name), scale) for each in lines)
    grid = "".join(_grid_line(scale.share(value)) for value, _ in scale.ticks)
    labels = "".join(
        f'<span style="bottom:{100 * scale.share(value):.2f}%">{escape(text)}</span>' for value, text in scale.ticks
    )
    legend = "".join(
        f'<span class="key k-{each.name}"><i></i>{escape(each.label)} <b data-value="{each.name}"></b></span>'
        for each in lines
    )
    return (
        f'<div class="row"><div class="row-head"><h3>{escape(title)} <small>{escape(unit)}</small></h3>'
        f'<div class="legend">{legend}</div></div><div class="plot"><div class="y-axis">{labels}</div>'
        f"{_svg(_shades(bands) + grid + drawn, f'{title} over time')}</div></div>"
    )


def _svg(inside: str, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{inside}</svg>'
    )


def _grid_line(share: float) -> str:
    y = HEIGHT * (1 - share)
    return f'<line class="grid" x1="0" x2="{WIDTH:g}" y1="{y:.2f}" y2="{y:.2f}"/>'


def _shades(bands: Sequence[Band]) -> str:
    return "".join(
        f'<rect class="shade{"" if each.fault.landed else " missed"}" x="{each.left * 10:.2f}" y="0" '
        f'width="{each.width * 10:.2f}" height="{HEIGHT:g}"/>'
        for each in bands
    )


def _line(line: Line, points: Points, scale: Scale) -> str:
    paths = []
    for run in _runs(points):
        xy = [(WIDTH * (i + 0.5) / len(points), HEIGHT * (1 - scale.share(v))) for i, v in run]
        if len(xy) == 1:  # a single point would be invisible
            half = WIDTH / len(points) / 2
            xy = [(xy[0][0] - half, xy[0][1]), (xy[0][0] + half, xy[0][1])]
        path = "M" + "L".join(f"{x:.1f} {y:.2f}" for x, y in xy)
        if line.area:
            paths.append(f'<path class="area a-{line.name}" d="{path}V{HEIGHT:g}H{xy[0][0]:.1f}Z"/>')
        paths.append(f'<path class="line l-{line.name}" d="{path}"/>')
    return "".join(paths)


def _runs(points: Points) -> Iterable[list[tuple[int, float]]]:
    """Unbroken stretches: a line never bridges a second in which nothing was measured."""
    run: list[tuple[int, float]] = []
    for i, value in enumerate(points):
        if value is None:
            if run:
                yield run
            run = []
        else:
            run.append((i, value))
    if run:
        yield run


def _fault_lane(bands: Sequence[Band]) -> str:
    if not bands:
        return '<div class="row"><div class="row-head"><h3>Faults <small>none</small></h3></div></div>'
    tracks = 1 + max(each.track for each in bands)
    marks = "".join(_mark(each) for each in bands)
    kinds = sorted({each.fault.fault for each in bands})
    legend = "".join(f'<span class="key {colour(each)}"><i></i>{escape(each)}</span>' for each in kinds)
    if not all(each.fault.landed for each in bands):
        legend += '<span class="key missed"><i></i>did not land</span>'
    return (
        f'<div class="row"><div class="row-head"><h3>Faults <small>in force</small></h3>'
        f'<div class="legend">{legend}</div></div>'
        f'<div class="lane" style="--tracks:{tracks}">{marks}</div></div>'
    )


def colour(fault: str) -> str:
    """The class of a fault's colour: process faults have one each, network faults one for what is cut and one for
    what is slow."""
    if fault in PROCESS_FAULTS:
        return f"f-{fault}"
    if fault in SLOW_FAULTS:
        return "f-slow"
    return "f-cut" if fault in tuple(Kind) else "f-other"


def _mark(band: Band) -> str:
    fault = band.fault
    name = f"{fault.fault} {fault.node}" if fault.node else fault.fault
    until = "the end" if fault.end_ns is None else figures.seconds(fault.end_ns)
    tip = f"{fault.fault_id}: {name}, {figures.seconds(fault.start_ns)} to {until}"
    missed = "" if fault.landed else " missed"
    label = f"<span>{escape(name)}</span>" if band.width >= 2 else ""
    return (
        f'<div class="mark {colour(fault.fault)}{missed}" title="{escape(tip)}" '
        f'style="left:{band.left:.2f}%;width:{band.width:.2f}%;top:calc({band.track} * var(--track))">'
        f"{label}</div>"
    )


def _level(value: float | None) -> str:
    if value is None:
        return "idle"
    if value >= 0.999:
        return "full"
    return "part" if value > 0.001 else "none"


def _availability(series: Series) -> str:
    points = series.line("available")
    levels = [_level(each) for each in points]
    cells = []
    start = 0
    for i in range(1, len(levels) + 1):
        if i == len(levels) or levels[i] != levels[start]:
            x, width = WIDTH * start / len(levels), WIDTH * (i - start) / len(levels)
            cells.append(f'<rect class="v-{levels[start]}" x="{x:.2f}" y="0" width="{width:.2f}" height="{HEIGHT:g}"/>')
            start = i
    words = {"full": "all sends succeed", "part": "some", "none": "none", "idle": "nothing asked"}
    legend = "".join(f'<span class="key v-{each}"><i></i>{words[each]}</span>' for each in words if each in levels)
    return (
        '<div class="row strip"><div class="row-head"><h3>Availability <small>per second</small></h3>'
        f'<div class="legend">{legend}</div></div>'
        f'<div class="plot">{_svg("".join(cells), "Availability over time")}</div></div>'
    )


def _time_axis(series: Series) -> str:
    step = _time_step(series.span_s / 8)
    first = math.ceil(series.start_s / step) * step
    labels = []
    time_s = float(first)
    while time_s <= series.start_s + series.span_s:
        text = figures.clock(time_s, series.span_s)
        labels.append(f'<span style="left:{_percent(time_s, series):.2f}%">{text}</span>')
        time_s += step
    return f'<div class="x-axis">{"".join(labels)}</div>'


def _time_step(rough: float) -> float:
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)
    return next((each for each in steps if each >= rough), 86400)


def _data(series: Series) -> str:
    """The numbers for the cursor. ``<`` is escaped so that no text can end the element."""
    document = {
        "start": series.start_s,
        "step": series.step_s,
        "lines": {name: [_short(v) for v in points] for name, points in series.lines.items()},
    }
    text = json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="series">{text}</script>'


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
