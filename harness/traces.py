"""Tracebacks are for whoever mends Tidemark, not for who uses it: they go to a file."""

from __future__ import annotations

import os
import tempfile


def kept(trace: str) -> str:
    """Keep a traceback in a file. Returns half a sentence that says where it is."""
    try:
        handle, path = tempfile.mkstemp(prefix="tidemark-failure-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8") as log:
            log.write(trace)
    except OSError as error:
        return f"the traceback cannot be kept ({error.strerror})"
    return f"the traceback is in {path}"
