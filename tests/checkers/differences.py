"""What the checkers and the reference say of the same random histories, compared case by case."""

from __future__ import annotations

from tests.checkers.reference import ANOMALIES, Cases, Identity
from tests.checkers.strategies import Generated, case_of


def differences(drawn: Generated, found: dict[str, Cases]) -> list[str]:
    """One line per case that one of the two did not find, or judged to be of another weight."""
    lines: list[str] = []
    for name in ANOMALIES:
        ours: set[tuple[int, Identity, bool]] = {
            (case, identity, fatal)
            for case, expected in enumerate(drawn.expected)
            for identity, fatal in expected[name]
        }
        theirs = {(*case_of(name, identity), fatal) for identity, fatal in found[name]}
        for who, only in (("reference", ours - theirs), ("checkers", theirs - ours)):
            lines += [
                f"{name}: only {who}: case {case}: {identity}, fatal {fatal}"
                for case, identity, fatal in sorted(only, key=str)
            ]
    return lines
