"""Switches that break the cluster on purpose, so that the harness can show that it finds them.

Each is one known bug of this kind of broker, off by default, refused without ``--unsafe-bugs`` and loud in the log.
A switch is asked for at exactly one place, next to the correct behaviour that it replaces.
"""

from __future__ import annotations

from enum import Enum


class Bug(Enum):
    ACK_ON_APPEND = "ack-on-append"
    """acks=all is answered after the leader's own append."""
    TRUNCATE_TO_HIGH_WATERMARK = "truncate-to-high-watermark"
    """A new follower truncates to its own high watermark instead of asking for the epoch's end (KIP-101)."""
    EPOCH_END_OF_NEXT_LARGER = "epoch-end-of-next-larger"
    """The end offset of an unknown epoch is answered as if the next larger epoch had been asked for (KIP-279)."""
    SERVE_BEYOND_HIGH_WATERMARK = "serve-beyond-high-watermark"
    """Consumers read to the end of the log."""
    STALE_CONTROLLER_OBEYED = "stale-controller-obeyed"
    """Requests of a deposed controller are obeyed: their epoch is not checked."""


Bugs = frozenset[Bug]
NONE: Bugs = frozenset()
