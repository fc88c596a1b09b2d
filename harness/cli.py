"""``tidemark``: parses the command line, calls the command, turns every end into its exit code.

A person sees one line about what went wrong and what to do. The traceback of a failure of our own goes to
a file whose path is printed; ``--debug`` shows it instead.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from types import FrameType
from typing import NoReturn

from harness.commands import check, doctor, explain, run, runs, synth
from harness.exits import Exit, UsageError

_EPILOG = """\
exit codes:
  0 valid · 1 a promised guarantee was violated · 2 unknown · 3 not exercised · 64 usage
  70 the harness itself failed · 130 interrupted. Nothing but a definite "valid" exits with 0.

first steps:
  tidemark doctor                                     what this machine has and lacks
  tidemark synth log --ops 100000 --out /tmp/history  make a history; --inject lost-write:3 spoils it
  tidemark check /tmp/history                         judge it
  tidemark run smoke                                  a short chaos run on a managed Apache Kafka
"""


class Parser(argparse.ArgumentParser):
    """argparse, with our exit code for a wrong command line."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(Exit.USAGE, f"{self.prog}: {message}\n")


def parser() -> Parser:
    top = Parser(
        prog="tidemark",
        description="Chaos verification for log brokers: drive, break, record, judge.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"tidemark {_version()}")
    top.add_argument("--debug", action="store_true", help="show the traceback of a failure of Tidemark's own")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for each in (run, check, explain, runs, synth, doctor):
        each.add(commands)
    return top


def _version() -> str:
    try:
        return metadata.version("tidemark")
    except metadata.PackageNotFoundError:
        return "of a source tree that is not installed"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = parser().parse_args(given)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else Exit.USAGE
    _interrupt_on_terminate()
    try:
        return int(options.execute(options))
    except KeyboardInterrupt:
        _say("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.HARNESS
    except Exception as error:  # noqa: BLE001 - the outermost border: every end has its exit code
        return _failed(error, debug=options.debug)


def _interrupt_on_terminate() -> None:
    """A CI job that is cancelled gets the same orderly end as Ctrl-C."""

    def interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    with suppress(ValueError):  # not the main thread: whoever called us has signals in hand
        signal.signal(signal.SIGTERM, interrupt)


def _failed(error: Exception, *, debug: bool) -> int:
    # Imported here: only a failure needs them.
    from harness.planfile import PlanError
    from histories.errors import HistoryError

    if isinstance(error, (UsageError, PlanError, HistoryError)):
        _say(str(error))
        return Exit.USAGE
    trace = "".join(traceback.format_exception(error))
    if debug:
        print(trace, end="", file=sys.stderr)
        return Exit.HARNESS
    handle, path = tempfile.mkstemp(prefix="tidemark-failure-", suffix=".log")
    with os.fdopen(handle, "w") as log:
        log.write(trace)
    first, *_ = str(error).splitlines() or [""]
    _say(f"failed: {first or type(error).__name__}")
    _say(f"the traceback is in {path}; --debug shows it here")
    return Exit.HARNESS


def _say(message: str) -> None:
    for line in message.splitlines():
        print(f"tidemark: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
