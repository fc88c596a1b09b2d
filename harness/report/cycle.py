"""A cycle of transactions as a small drawing: a circle of nodes, an arrow for each edge with its kind."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import cos, pi, sin
from typing import Any

_WIDTH, _HEIGHT = 440, 300
_RADIUS, _NODE = 105, 24


def drawn(steps: Sequence[dict[str, Any]]) -> str:
    """The drawing, with each edge's reason as its title; nothing for what is no cycle."""
    if len(steps) < 2:
        return ""
    names = [f"T{step['from']}" for step in steps]
    if steps[-1]["to"] != steps[0]["from"]:
        names.append("…")  # only the first part of a long cycle is told
    places = [_place(number, len(names)) for number in range(len(names))]
    arrows = "".join(_arrow(step, places[n], places[(n + 1) % len(names)]) for n, step in enumerate(steps))
    if len(names) > len(steps):
        arrows += _arrow({"kind": "…", "reason": "further steps"}, places[-1], places[0])
    nodes = "".join(
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{_NODE}"/><text x="{x:.0f}" y="{y:.0f}">{escape(name)}</text>'
        for name, (x, y) in zip(names, places, strict=True)
    )
    marker = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    label = escape(" to ".join([*names, names[0]]), quote=True)
    return (
        f'<svg class="cycle" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Cycle: {label}">'
        f"{marker}{arrows}{nodes}</svg>"
    )


def _place(number: int, count: int) -> tuple[float, float]:
    angle = 2 * pi * number / count - (pi if count == 2 else pi / 2)
    return _WIDTH / 2 + 1.4 * _RADIUS * cos(angle), _HEIGHT / 2 + _RADIUS * sin(angle)


def _arrow(step: dict[str, Any], start: tuple[float, float], end: tuple[float, float]) -> str:
    """Bent to the outside, so that the two arrows between two nodes lie apart."""
    across, down = end[0] - start[0], end[1] - start[1]
    length = (across**2 + down**2) ** 0.5
    bend = 0.22 * length
    middle = ((start[0] + end[0]) / 2 + bend * down / length, (start[1] + end[1]) / 2 - bend * across / length)
    first, last = _edge_of(start, middle), _edge_of(end, middle)
    label = (middle[0] / 2 + (start[0] + end[0]) / 4, middle[1] / 2 + (start[1] + end[1]) / 4)
    return (
        f'<g><title>{escape(str(step["reason"]))}</title><path marker-end="url(#tip)" d="M{first[0]:.0f} {first[1]:.0f}'
        f'Q{middle[0]:.0f} {middle[1]:.0f} {last[0]:.0f} {last[1]:.0f}"/>'
        f'<text class="kind" x="{label[0]:.0f}" y="{label[1] - 9:.0f}">{escape(str(step["kind"]))}</text></g>'
    )


def _edge_of(node: tuple[float, float], toward: tuple[float, float]) -> tuple[float, float]:
    across, down = toward[0] - node[0], toward[1] - node[1]
    length = max((across**2 + down**2) ** 0.5, 1.0)
    return node[0] + _NODE * across / length, node[1] + _NODE * down / length
