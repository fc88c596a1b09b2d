"""How every measurement begins and ends as a program: whatever ends it, what it started and wrote is gone."""

from __future__ import annotations

import sys
from collections.abc import Callable

from harness.interrupts import interrupt_on_signals


def enter(main: Callable[[list[str]], int]) -> None:
    interrupt_on_signals()  # a time-out on this program sends SIGTERM, and Python would just end
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)
