"""One self-contained HTML page from a judgement: nothing is fetched, it can be mailed and archived.

The verdict comes first, then what was violated, what was observed, what was not put to the test, the
numbers, and the load over time with the faults. Everything that comes from a history is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

from checkers.names import DEFINITIONS
from checkers.result import Example, Fault, Finding, Judgement, Verdict
from harness.report import figures
from harness.report.charts import charts, colour
from harness.report.cycle import drawn
from harness.report.series import series_of
from harness.report.words import TITLES, meaning, summary, violated

TILES = 8
"""How many numbers are shown large; the others are in a table below."""

_FIGURES = ("#", "from", "held")

_GLYPHS = {
    Verdict.VALID: "M6 12.5l4 4 8-9",
    Verdict.INVALID: "M7 7l10 10M17 7L7 17",
    Verdict.UNKNOWN: "M9 9.2a3 3 0 1 1 4.2 2.7c-.8.4-1.2 1-1.2 1.9v.4M12 17.4v.1",
    Verdict.NOT_EXERCISED: "M7 12h10",
}


def write(judgement: Judgement, path: Path, *, replay: str = "") -> None:
    path.write_text(render(judgement, replay=replay), encoding="utf-8")


def render(judgement: Judgement, *, replay: str = "") -> str:
    """The page; ``replay`` is the command that repeats the run."""
    title = f"{TITLES[judgement.verdict]} · {judgement.meta.get('run_id') or judgement.path}"
    body = "".join(
        [
            _verdict(judgement),
            _facts(judgement, replay),
            _reasons(judgement),
            _models(judgement),
            _findings(judgement),
            _tiles(judgement.metrics),
            _over_time(judgement),
            _faults(judgement.faults),
            _not_exercised(judgement.not_exercised),
            _all_metrics(judgement.metrics),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{_asset('page.css')}</style></head>"
        f'<body class="is-{judgement.verdict.value}"><main>{body}</main>'
        f"<footer>{_footer(judgement)}</footer><script>{_asset('page.js')}</script></body></html>\n"
    )


def _asset(name: str) -> str:
    return (resources.files("harness.report") / name).read_text(encoding="utf-8")


def _section(title: str, inside: str, *, aside: str = "") -> str:
    small = f" <small>{escape(aside)}</small>" if aside else ""
    return f"<section><h2>{escape(title)}{small}</h2>{inside}</section>" if inside else ""


def _verdict(judgement: Judgement) -> str:
    verdict = judgement.verdict
    glyph = (
        f'<svg class="glyph" viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="11"/>'
        f'<path d="{_GLYPHS[verdict]}"/></svg>'
    )
    return (
        f'<header class="verdict"><div class="brand">Tidemark</div>{glyph}'
        f"<div><h1>{escape(TITLES[verdict])}</h1>"
        f'<p class="lead">{escape(summary(judgement))}</p><p class="meaning">{escape(meaning(judgement))}</p>'
        "</div></header>"
    )


def _facts(judgement: Judgement, replay: str) -> str:
    meta = judgement.meta
    versions = meta.get("versions") or {}
    facts = [
        ("Run", meta.get("run_id")),
        ("Plan", meta.get("plan")),
        ("Seed", meta.get("seed")),
        ("Started", meta.get("started_at")),
        ("Origin", meta.get("origin")),
        ("History", None if str(meta.get("run_id")) in judgement.path else judgement.path),
        ("Judged in", figures.duration(judgement.seconds) if judgement.seconds else None),
        *((name, versions[name]) for name in sorted(versions)),
    ]
    rows = "".join(
        f"<div><dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in facts
        if value not in (None, "")
    )
    again = f'<div class="replay"><span>Run it again</span><code>{escape(replay)}</code></div>' if replay else ""
    return f'<dl class="facts">{rows}</dl>{again}'


def _reasons(judgement: Judgement) -> str:
    items = "".join(f"<li>{escape(each)}</li>" for each in judgement.reasons)
    return _section("Why", f'<ul class="reasons">{items}</ul>' if items else "")


def _models(judgement: Judgement) -> str:
    if judgement.models is None or not judgement.models.weakest:
        return ""
    names = f"<p>{escape(', '.join(judgement.models.weakest))}</p>"
    also = f'<p class="note">and so neither {escape(", ".join(judgement.models.others))}</p>'
    return _section("Consistency models ruled out", names + (also if judgement.models.others else ""))


def _findings(judgement: Judgement) -> str:
    broken = violated(judgement)
    observed = [each for each in judgement.findings if not each.fatal and each.count]
    if not broken and not observed:
        return _section("Anomalies", '<p class="none">None was found.</p>')
    return _section("Violated", "".join(map(_finding, broken)), aside="promises that were made and broken") + _section(
        "Observed", "".join(map(_finding, observed)), aside="seen, but these settings promise nothing else"
    )


def _finding(finding: Finding) -> str:
    badge = "violated" if finding.fatal else "observed"
    counts = figures.plural(finding.count, "case")
    if finding.fatal and finding.fatal_count < finding.count:
        counts += f", {figures.count(finding.fatal_count)} of them break a promise"
    examples = "".join(_example(each, opened=i == 0 and finding.fatal) for i, each in enumerate(finding.examples))
    rest = finding.count - len(finding.examples)
    more = f'<p class="note">{figures.plural(rest, "further case")} not listed.</p>' if examples and rest > 0 else ""
    return (
        f'<article class="finding {badge}"><div class="finding-head"><h3>{escape(finding.anomaly)}</h3>'
        f'<span class="badge">{badge}</span><span class="counts">{counts}</span></div>'
        f'<p class="definition">{escape(DEFINITIONS.get(finding.anomaly, ""))}</p>{examples}{more}</article>'
    )


def _example(example: Example, *, opened: bool) -> str:
    if not example.evidence:
        return f'<p class="sentence">{escape(example.sentence)}</p>'
    rows = figures.plural(len(example.evidence), "row")
    return (
        f"<details{' open' if opened else ''}><summary><span>{escape(example.sentence)}</span>"
        f"<small>{rows}</small></summary>{drawn(example.cycle)}{_tables(example.evidence)}</details>"
    )


def _tables(rows: Sequence[dict[str, Any]]) -> str:
    """One table for each stretch of rows that come from the same table of the history."""
    return "".join(_table(list(group)) for _, group in groupby(rows, key=lambda row: row.get("table")))


def _table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as they came: the union of their columns, without those that are empty everywhere."""
    columns = [
        each
        for each in dict.fromkeys(name for row in rows for name in row)
        if any(row.get(each) is not None for row in rows)
    ]
    head = "".join(_heading(each, [row.get(each) for row in rows]) for each in columns)
    body = "".join("<tr>" + "".join(_cell(each, row.get(each)) for each in columns) + "</tr>" for row in rows)
    return _scroll(head, body)


def _scroll(head: str, body: str) -> str:
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{table}</div>'


def _heading(name: str, values: Iterable[Any]) -> str:
    figure = all(_is_figure(each) for each in values if each is not None)
    return f'<th class="figure">{escape(_column(name))}</th>' if figure else f"<th>{escape(_column(name))}</th>"


def _is_figure(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _column(name: str) -> str:
    return f"{name.removesuffix('_ns')} (s)" if name.endswith("_ns") else name


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "<td></td>"
    if name.endswith("_ns") and isinstance(value, int):
        return f'<td class="figure">{value / 1e9:.6f}</td>'
    kind = ' class="figure"' if _is_figure(value) else ""
    return f"<td{kind}>{escape(str(value))}</td>"


def _tiles(metrics: dict[str, Any]) -> str:
    shown = list(figures.headline(metrics).items())[:TILES]
    tiles = "".join(_tile(name, value) for name, value in shown)
    return _section("Numbers", f'<div class="tiles">{tiles}</div>' if tiles else "")


def _tile(name: str, value: Any) -> str:
    label, unit = figures.named(name)
    return (
        f'<div class="tile"><span>{escape(label)}</span><b>{escape(figures.metric(name, value))}'
        f"{f'<small>{escape(unit)}</small>' if unit else ''}</b></div>"
    )


def _over_time(judgement: Judgement) -> str:
    series = series_of(judgement.metrics)
    return _section("Over time", charts(series, judgement.faults) if series else "")


def _faults(faults: Sequence[Fault]) -> str:
    if not faults:
        return ""
    landed = sum(each.landed for each in faults)
    rows = "".join(_fault_row(each) for each in sorted(faults, key=lambda each: each.start_ns))
    names = ("#", "fault", "node", "from", "held", "landed", "what happened")
    head = "".join(f'<th class="{"figure" if each in _FIGURES else ""}">{each}</th>' for each in names)
    return _section("Faults", _scroll(head, rows), aside=f"{landed} of {len(faults)} landed")


def _fault_row(fault: Fault) -> str:
    held = "to the end" if fault.end_ns is None else figures.duration((fault.end_ns - fault.start_ns) / 1e9)
    cells = [
        f'<td class="figure">{fault.fault_id}</td>',
        f'<td><span class="key {colour(fault.fault)}"><i></i>{escape(fault.fault)}</span></td>',
        f"<td>{escape(fault.node or '')}</td>",
        f'<td class="figure">{figures.seconds(fault.start_ns)}</td>',
        f'<td class="figure">{held}</td>',
        f"<td>{'yes' if fault.landed else '<strong>no</strong>'}</td>",
        f'<td class="wide">{escape(fault.detail)}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _not_exercised(promises: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(each)}</li>" for each in promises)
    return _section("Not put to the test", f"<ul>{items}</ul>" if items else "", aside="silence here proves nothing")


def _all_metrics(metrics: dict[str, Any]) -> str:
    rows = []
    for name, value in figures.flat(metrics).items():
        label, unit = figures.named(name)
        rows.append(
            f'<tr><td>{escape(label)}</td><td class="figure">{escape(figures.metric(name, value))}</td>'
            f"<td>{escape(unit)}</td></tr>"
        )
    if not rows:
        return ""
    table = f'<div class="scroll"><table><tbody>{"".join(rows)}</tbody></table></div>'
    summary_line = "<summary><span>All numbers</span></summary>"
    return f'<section><details class="plain">{summary_line}{table}</details></section>'


def _footer(judgement: Judgement) -> str:
    return f"Tidemark · exit code {judgement.verdict.exit_code} · {escape(judgement.path)}"
