"""The first and the last moments of a command: Ctrl-C has its exit code and no traceback there, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.exits import Exit

ROOT = Path(__file__).parents[2]


# Whoever runs the tests under nohup, or in the background, hands ignored signals down, which stay ignored, rightly.
NORMAL = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""


def ended(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", NORMAL + script],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_while_it_loads(name: str) -> None:
    done = ended(
        "from harness.early import end_at_once_on_signals\nend_at_once_on_signals()\n"
        f"signal.raise_signal(signal.{name})\nprint('went on')"
    )
    assert (done.returncode, done.stdout, done.stderr) == (Exit.INTERRUPTED, "", "tidemark: interrupted\n")


def test_what_the_caller_ignores_stays_ignored() -> None:
    done = ended(
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from harness.early import end_at_once_on_signals\nend_at_once_on_signals()\n"
        "signal.raise_signal(signal.SIGHUP)\nprint('went on')"
    )
    assert (done.returncode, done.stdout) == (0, "went on\n")


def test_the_module_that_comes_first_imports_nothing_slow() -> None:
    done = ended("before = set(sys.modules)\nimport harness.early\nprint(*(set(sys.modules) - before))")
    assert set(done.stdout.split()) == {"harness", "harness.early"}


ENDING = """
from harness.interrupts import Ending
import atexit
ending = Ending()
def callback():
    {what}
    print("ended in order")
atexit.register(callback)
ending.begin()
sys.exit(3)
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_while_it_ends(name: str) -> None:
    done = ended(ENDING.format(what=f"signal.raise_signal(signal.{name})"))
    assert (done.returncode, done.stdout, done.stderr) == (Exit.INTERRUPTED, "ended in order\n", "")


def test_a_second_one_does_not_wait() -> None:
    done = ended(ENDING.format(what="signal.raise_signal(signal.SIGINT); signal.raise_signal(signal.SIGINT)"))
    assert (done.returncode, done.stdout, done.stderr) == (Exit.INTERRUPTED, "", "")


def test_an_end_that_nobody_interrupts() -> None:
    done = ended(ENDING.format(what="pass"))
    assert (done.returncode, done.stdout, done.stderr) == (3, "ended in order\n", "")


def test_the_very_last_moment() -> None:
    """Of an object that dies with the interpreter, after all callbacks."""
    script = ENDING.format(what="pass") .replace(
        "sys.exit(3)",
        "class Last:\n    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT): kill(pid, number)\n"
        "keep = Last()\nsys.exit(3)",
    )  # fmt: skip
    done = ended(script)
    assert (done.returncode, done.stderr) == (3, "")


def test_an_interruption_that_falls_into_a_finaliser_is_not_lost() -> None:
    done = ended(
        "import threading\nfrom harness.interrupts import Ending, interrupt_on_signals\nEnding()\ninterrupt_on_signals()\n"
        "class Falls:\n    def __del__(self): signal.raise_signal(signal.SIGINT)\n"
        "try:\n    Falls()\n    threading.Event().wait(30)\n    print('lost')\nexcept KeyboardInterrupt:\n    print('told')"
    )
    assert (done.stdout, done.stderr) == ("told\n", "")


def test_other_failures_of_a_finaliser_are_shown() -> None:
    done = ended("from harness.interrupts import Ending\nEnding()\nclass Falls:\n    def __del__(self): 1 / 0\nFalls()")
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    "start",
    [
        "sys.argv = ['tidemark', '--help']\nfrom harness.early import command\ncommand()",
        "import runpy\nsys.argv = ['tidemark', '--help']\nrunpy.run_module('harness.cli', run_name='__main__')",
    ],
)
def test_both_ways_to_start_it(start: str) -> None:
    done = ended(start)
    assert (done.returncode, done.stderr) == (0, "")
    assert "check" in done.stdout
