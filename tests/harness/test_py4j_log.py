"""What Py4J says of a Ctrl-C is not shown; what it says of anything else is."""

from __future__ import annotations

import logging
import sys

import pytest

from harness.commands.check import PY4J_LOGGERS, is_no_interruption


def _record(*errors: type[BaseException]) -> logging.LogRecord:
    """Of the last error, which came while the one before was handled."""
    try:
        try:
            raise errors[0]
        except errors[0]:
            if len(errors) > 1:
                raise errors[1] from None
            raise
    except errors[-1]:
        info = sys.exc_info()
    return logging.LogRecord("py4j.clientserver", logging.ERROR, __file__, 1, "shutting down", None, info)


@pytest.mark.parametrize(
    ("errors", "shown"),
    [
        ((KeyboardInterrupt,), False),
        ((KeyboardInterrupt, BrokenPipeError), False),
        ((BrokenPipeError,), True),
        ((ValueError, BrokenPipeError), True),
    ],
)
def test_only_interruptions_are_kept_quiet(errors: tuple[type[BaseException], ...], shown: bool) -> None:
    assert is_no_interruption(_record(*errors)) is shown


def test_a_record_without_an_error_is_shown() -> None:
    assert is_no_interruption(logging.LogRecord("py4j", logging.ERROR, __file__, 1, "closed", None, None))


def test_py4j_speaks_to_these_loggers() -> None:
    from py4j import clientserver, java_gateway

    assert {clientserver.logger.name, java_gateway.logger.name} <= set(PY4J_LOGGERS)
