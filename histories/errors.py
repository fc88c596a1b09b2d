"""The one error of this package: input that is not a history, said so that a person can mend it."""

from __future__ import annotations


class HistoryError(Exception):
    """Bad input. The message names the file, the line or row where known, and what to do."""
