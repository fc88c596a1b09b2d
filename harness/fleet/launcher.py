"""Becomes another program that dies with the harness: ``launcher.py PARENT_PID PROGRAM [ARGUMENT...]``.

``PR_SET_PDEATHSIG`` makes the kernel kill this process when the thread that started it ends, also when the
harness itself dies of ``kill -9`` and can clean up nothing. It survives ``execve``. A launcher rather than
``preexec_fn``, because Python code between fork and exec in a process with threads may deadlock.

Run as a file, without the package, so that it costs a few milliseconds only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    parent, program = int(arguments[0]), arguments[1:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        error = ctypes.get_errno()
        sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(error)}")
    # The harness may have died before the line above: then nobody would send the signal.
    if os.getppid() != parent:
        sys.exit("the harness is gone")
    try:
        os.execvp(program[0], program)
    except OSError as error:
        sys.exit(f"{program[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
