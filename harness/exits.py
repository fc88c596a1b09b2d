"""Exit codes: a contract with every script and CI job that calls Tidemark."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    VALID = 0
    INVALID = 1
    UNKNOWN = 2
    NOT_EXERCISED = 3
    REGRESSION = 4
    USAGE = 64
    HARNESS = 70
    INTERRUPTED = 130


_WORST_FIRST = (
    Exit.INVALID,
    Exit.INTERRUPTED,
    Exit.HARNESS,
    Exit.UNKNOWN,
    Exit.NOT_EXERCISED,
    Exit.REGRESSION,
    Exit.USAGE,
    Exit.VALID,
)


def worst(codes: Iterable[int]) -> Exit:
    """Of several histories: a violation dominates everything, and only all valid is valid."""
    given = {Exit(each) for each in codes}
    return next((each for each in _WORST_FIRST if each in given), Exit.UNKNOWN)


class UsageError(Exception):
    """What was asked for cannot be done as asked; the message says why and what to do. Exit code 64."""
