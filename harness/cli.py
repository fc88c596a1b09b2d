"""``tidemark``: parses the command line, calls the command, turns every end into its exit code.

A person sees one line about what went wrong and what to do. The traceback of a failure of our own goes to
a file whose path is printed; ``--debug`` shows it instead.
"""

from __future__ import annotations

from harness.early import end_at_once_on_signals

if __name__ == "__main__":  # before the imports below, which take their time
    end_at_once_on_signals()

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from harness.exits import Exit, UsageError
from harness.interrupts import Ending, interrupt_on_signals
from harness.traces import kept

_EPILOG = """\
exit codes:
  0 valid · 1 a promised guarantee was violated · 2 unknown · 3 not exercised · 64 usage
  70 the harness itself failed · 130 interrupted. Nothing but a definite "valid" exits with 0.

first steps:
  tidemark doctor                                     what this machine has and lacks
  tidemark synth log --ops 100000 --out /tmp/history  make a history; --inject lost-write:3 spoils it
  tidemark check /tmp/history                         judge it
  tidemark run smoke                                  a short chaos run on the cluster that comes along
"""


class Parser(argparse.ArgumentParser):
    """argparse, with our exit code for a wrong command line."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(Exit.USAGE, f"{self.prog}: {message}\n")


def parser() -> Parser:
    from harness.commands import admin, check, cluster, doctor, explain, run, runs, synth

    top = Parser(
        prog="tidemark",
        description="Chaos verification for log brokers: drive, break, record, judge.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"tidemark {_version()}")
    top.add_argument("--debug", action="store_true", help="show the traceback of a failure of Tidemark's own")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for each in (run, check, explain, runs, synth, cluster, admin, doctor):
        each.add(commands)
    return top


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("tidemark")
    except metadata.PackageNotFoundError:
        return "of a source tree that is not installed"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = False
    try:
        options = parser().parse_args(given)
        interrupt_on_signals()
        debug = options.debug
        code = int(options.execute(options))
        sys.stdout.flush()  # here, where a full disk or a closed pipe still has an exit code
        return code
    except SystemExit as end:  # argparse
        return end.code if isinstance(end.code, int) else Exit.USAGE
    except KeyboardInterrupt:
        _say("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()  # whoever read our output has gone
        return Exit.HARNESS
    except Exception as error:  # noqa: BLE001 - the outermost border: every end has its exit code
        return _failed(error, debug=debug)


def _forget_stdout() -> None:
    """Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: Exception, *, debug: bool) -> int:
    # Imported here: only a failure needs them.
    from harness.planfile import PlanError
    from histories.errors import HistoryError

    if isinstance(error, (UsageError, PlanError, HistoryError)):
        _say(str(error))
        return Exit.USAGE
    if debug:
        traceback.print_exception(error)
        return Exit.HARNESS
    told = _told(error)
    for each in told:
        _say(f"failed: {each}")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        _say("make room on that disk, or let runs be stored on another: --store DIR or TIDEMARK_STORE")
        with suppress(OSError):
            sys.stdout.flush()
            return Exit.HARNESS
        _forget_stdout()  # it is standard output that is full
    elif not told:
        _say(f"failed: {next(iter(str(error).splitlines()), '') or type(error).__name__}")
        _say(f"{kept(''.join(traceback.format_exception(error)))}; --debug shows it here")
    return Exit.HARNESS


def _told(error: BaseException | None) -> list[str]:
    """What is wrong outside of Tidemark is told in full and needs no traceback; the first cause comes first."""
    from checkers.java import JavaError
    from harness.fleet.base import FleetError
    from harness.pool import WorkerError
    from harness.run import SealError
    from nemesis.control import ControlError

    told: list[str] = []
    while error is not None:
        if isinstance(error, (JavaError, FleetError, ControlError, WorkerError, SealError)):
            told.insert(0, str(error))
        elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT) and not told:
            told.insert(0, f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return told


def _say(message: str) -> None:
    for line in message.splitlines():
        print(f"tidemark: {line}", file=sys.stderr)


def command() -> NoReturn:
    """``tidemark`` as a process: loaded and ended so that Ctrl-C has its exit code at any moment."""
    ending = Ending()
    end_at_once_on_signals()
    try:
        code = main()
    except KeyboardInterrupt:  # once more, while the first one was being told
        code = Exit.INTERRUPTED
    ending.begin()
    sys.exit(code)


if __name__ == "__main__":
    command()
