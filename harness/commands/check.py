"""``tidemark check``: judge stored or imported histories."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from harness.exits import Exit, UsageError, worst
from harness.interrupts import interrupt_on_signals
from harness.traces import kept

if TYPE_CHECKING:
    from pyspark import SparkContext

    from checkers.promises import PromiseOverride
    from checkers.result import Judgement
    from harness.commands.sources import Source
    from histories.store import RunStore


_MASTER = re.compile(r"local(\[([1-9]\d*|\*)(,\s*[1-9]\d*)?\])?|spark://[^\s:/]+:\d+(,[^\s:/]+:\d+)*|yarn|k8s://\S+")


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "check",
        help="judge a stored or an imported history",
        description="Judge histories: runs by id or folder, sealed histories, or files in Jepsen's format.",
        epilog="The exit code is that of the worst history. A path that is no history is said and passed over, "
        "and the exit code is then never 0.",
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a run's id or folder, 'latest', a sealed history, or *.edn, *.json, *.jsonl (also .gz)",
    )
    parser.add_argument("--master", metavar="URL", help="a Spark cluster, such as spark://host:7077; default: local[*]")
    parser.add_argument("--json", metavar="FILE", help="write one JSON document per history and line; '-': to stdout")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report page (of one history)")
    parser.add_argument("--only", metavar="NAME,…", help="only these anomalies")
    parser.add_argument(
        "--promises",
        type=Path,
        metavar="FILE",
        help="TOML with safe, idempotent, unclean, void = true or false: what was promised, "
        "where the history does not say it",
    )
    parser.add_argument("--store", metavar="DIR", help="where runs are kept; default: $TIDEMARK_STORE, else ./runs")
    parser.set_defaults(execute=execute)


@dataclass(frozen=True)
class Request:
    """What applies to all histories of one command."""

    master: str | None
    only: frozenset[str] | None
    promises: PromiseOverride | None
    html: Path | None
    quiet: bool
    """JSON goes to stdout, so nothing else may."""


def execute(options: argparse.Namespace) -> int:
    from checkers.promises import PromiseOverride
    from histories.store import RunStore

    if options.html and len(options.paths) > 1:
        raise UsageError(f"--html {options.html}: one page is of one history, and {len(options.paths)} are given")
    if options.html and (options.html.is_dir() or not options.html.parent.is_dir()):
        raise UsageError(f"--html {options.html}: cannot be written: it is a folder, or its folder is not there")
    if options.master is not None and not _MASTER.fullmatch(options.master):
        raise UsageError(
            f"--master {options.master}: expected local, local[N], local[*], spark://HOST:PORT, yarn or k8s://HOST:PORT"
        )
    request = Request(
        options.master,
        None if options.only is None else only_names(options.only),
        PromiseOverride.read(options.promises) if options.promises else None,
        options.html,
        options.json == "-",
    )
    with ExitStack() as cleanup:
        output = _json_output(options.json, cleanup)
        return Checking(request, RunStore.locate(options.store), output, cleanup).all(options.paths)


def only_names(text: str) -> frozenset[str]:
    """The names of ``--only``, each a known one."""
    from checkers.names import ANOMALIES
    from harness.planrules import nearest

    names = [each.strip() for each in text.split(",") if each.strip()]
    if not names:
        raise UsageError("--only: expected names of anomalies, separated by commas")
    for each in names:
        if each not in ANOMALIES:
            hint = nearest(each, ANOMALIES) or f"; known are {', '.join(ANOMALIES)}"
            raise UsageError(f"--only: unknown anomaly {each!r}{hint}")
    return frozenset(names)


def _json_output(given: str | None, cleanup: ExitStack) -> IO[str] | None:
    if given is None or given == "-":
        return sys.stdout if given else None
    try:
        return cleanup.enter_context(open(given, "w", encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--json {given}: cannot be written: {error.strerror}") from None


class Checking:
    """Judges one history after the other on one Spark session, which starts when the first is found."""

    def __init__(self, request: Request, store: RunStore, output: IO[str] | None, cleanup: ExitStack) -> None:
        self._request = request
        self._store = store
        self._output = output
        self._cleanup = cleanup
        self._session: SparkContext | None = None

    def all(self, paths: Iterable[str]) -> Exit:
        return worst([self._one(each) for each in paths])

    def _one(self, path: str) -> int:
        from harness.commands.sources import opened
        from histories.errors import HistoryError

        try:
            with opened(path, self._store) as source:
                judgement = _with_its_trace_kept(self._about(source, self._judge(source)))
                kept = self._keep(source, judgement)
        except HistoryError as error:
            _say(str(error))
            self._write({"path": path, "error": str(error)})
            return Exit.USAGE
        self._write(judgement.document())
        return worst([judgement.verdict.exit_code, *([] if kept else [Exit.HARNESS])])

    def _judge(self, source: Source) -> Judgement:
        from checkers.judge import judge
        from histories.read import open_history

        meta, _ = open_history(source.history)  # what is no history is said before Spark is started for it
        return judge(
            self._spark(),
            source.history,
            path_label=source.label,
            meta=meta,
            only=self._request.only,
            promises=self._request.promises,
            progress=lambda what: self._progress(source.label, what),
        )

    @staticmethod
    def _about(source: Source, judgement: Judgement) -> Judgement:
        """Add what only the run's folder knows to the report's header."""
        if source.run is None:
            return judgement
        return replace(judgement, meta={**judgement.meta, "plan": source.plan_name()})

    def _spark(self) -> SparkContext:
        if self._session is None:
            from checkers import session

            self._progress("Spark", "starting")
            for name in PY4J_LOGGERS:
                logging.getLogger(name).addFilter(is_no_interruption)
            with _nothing_half_started():
                self._session = session.start(self._request.master)
            self._cleanup.callback(self._session.stop)
            # Spark has put a handler of its own in the place of ours; it talks to the virtual machine in the middle of
            # whatever was being said to it. Stopping the session cancels what runs just as well.
            interrupt_on_signals()
        return self._session

    def _progress(self, label: str, what: str) -> None:
        if sys.stderr.isatty():
            print(f"\x1b[2K\r{label}: {what} …", end="\r", file=sys.stderr, flush=True)

    def _keep(self, source: Source, judgement: Judgement) -> bool:
        """Print the summary, and write the page that was asked for and the reports of a stored run. False: not all
        could be written. That takes nothing from the verdict, which is said first."""
        from harness.report import html, terminal
        from harness.report.words import replay_command

        replay = replay_command(judgement, source.run.folder if source.run else None)
        pages = [self._request.html] if self._request.html else []
        writes: list[tuple[Path, Callable[[Path], object]]] = []
        whole = self._request.only is None and self._request.promises is None
        if source.run is not None and whole:
            pages.append(source.run.report_html)
            document = json.dumps(judgement.document(), ensure_ascii=False) + "\n"
            writes.append((source.run.report_json, lambda path: path.write_text(document, encoding="utf-8")))
        writes += [(each, lambda path: html.write(judgement, path, replay=replay)) for each in pages]
        failures = [failure for path, write in writes if (failure := _replaced(path, write))]
        if sys.stderr.isatty():
            print("\x1b[2K", end="\r", file=sys.stderr, flush=True)
        if not self._request.quiet:
            terminal.print_summary(judgement, report=pages[0] if pages and not failures else None, replay=replay)
        for each in failures:
            _say(each)
        return not failures

    def _write(self, document: dict[str, Any]) -> None:
        if self._output is not None:
            print(json.dumps(document, ensure_ascii=False), file=self._output, flush=True)


def _with_its_trace_kept(judgement: Judgement) -> Judgement:
    """A person sees a sentence; the traceback of a check that crashed is for whoever mends it."""
    if not judgement.crash:
        return judgement
    return replace(judgement, reasons=(*judgement.reasons, kept(judgement.crash)))


@contextmanager
def _nothing_half_started() -> Iterator[None]:
    """PySpark forgets its virtual machine when it is interrupted while that starts, and deletes the folder in which the
    machine would say where it listens: it then waits for ever for somebody to connect."""
    import psutil

    me = psutil.Process()
    before = set(me.children(recursive=True))
    try:
        yield
    except BaseException:
        for each in set(me.children(recursive=True)) - before:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        raise


PY4J_LOGGERS = ("", "py4j.clientserver", "py4j.java_gateway")
"""A logger's filters see what is said to itself only, and Py4J speaks to these three."""


def is_no_interruption(record: logging.LogRecord) -> bool:
    """Py4J logs the traceback of a Ctrl-C that comes while it waits, although it passes the interruption on, and that of
    what goes wrong while it closes its connection because of it."""
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return False
        error = error.__context__
    return True


def _replaced(path: Path, write: Callable[[Path], object]) -> str | None:
    """Write beside it and rename: whoever looks, or kills us, never finds half a report. Why it failed, or None."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        write(unfinished)
        unfinished.replace(path)
    except OSError as error:
        return f"{path}: cannot be written: {error.strerror or error}"
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return None


def _say(message: str) -> None:
    for line in message.splitlines():
        print(f"tidemark: {line}", file=sys.stderr)
