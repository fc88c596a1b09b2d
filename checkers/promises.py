"""What was promised, and so what is fatal: the one table of the verdict.

*Safe* is judged per value, by its own producer and topic: acks=all and unclean election off.
*Clean* asks only for the topic: unclean election off (a reader stops at the high watermark whatever
the acks). Everything else is observed: counted and explained, never held against the broker.

=====================================================  ==========================================================
anomaly                                                fatal when
=====================================================  ==========================================================
lost-write, torn-transaction, realtime-order           safe
inconsistent-offset                                    unclean off, and the two values were both polled or safely
                                                       acknowledged
vanished-read, poll-skip, nonmonotonic-poll, int-*     unclean off; where the case is a duplicated value seen
                                                       again, as the duplicate
nonmonotonic-send, int-nonmonotonic-send               safe, and idempotent or one request in flight
duplicate                                              the producer was idempotent, or it does not retry
misplaced-ack                                          safe, and idempotent or no retry
phantom, aborted-read, early-read                      always
unavailable-after-heal                                 always
int-send-skip, unseen                                  never (unseen makes the verdict unknown)
=====================================================  ==========================================================

A fault that destroys storage voids the promises of what it hit; none of today's faults does (kill -9
spares the page cache), so a history is void only where ``--promises`` says so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path

from histories.errors import HistoryError
from histories.meta import Meta, ProducerSettings

SAFE = "safe"
CLEAN = "clean"
ORDERED = "ordered"
UNIQUE = "unique"
PLACED = "placed"
ALWAYS = "always"
NEVER = "never"

FATAL_WHEN: dict[str, str] = {
    "lost-write": SAFE,
    "torn-transaction": SAFE,
    "realtime-order": SAFE,
    "inconsistent-offset": CLEAN,
    "vanished-read": CLEAN,
    "poll-skip": CLEAN,
    "nonmonotonic-poll": CLEAN,
    "int-poll-skip": CLEAN,
    "int-nonmonotonic-poll": CLEAN,
    "nonmonotonic-send": ORDERED,
    "int-nonmonotonic-send": ORDERED,
    "duplicate": UNIQUE,
    "misplaced-ack": PLACED,
    "phantom": ALWAYS,
    "aborted-read": ALWAYS,
    "early-read": ALWAYS,
    "unavailable-after-heal": ALWAYS,
    "unseen": NEVER,
    "int-send-skip": NEVER,
}

CONDITION: dict[str, str] = {
    SAFE: "safe AND NOT unclean",
    CLEAN: "NOT unclean",
    ORDERED: "safe AND NOT unclean AND (idempotent OR single)",
    UNIQUE: "idempotent",
    PLACED: "safe AND NOT unclean AND idempotent",
    ALWAYS: "true",
    NEVER: "false",
}
"""As SQL over a producer's columns (``idempotent`` there means idempotent or without retries) and a key's."""


@dataclass(frozen=True)
class PromiseOverride:
    """What a person says of a history that does not say it itself (``--promises FILE``)."""

    safe: bool | None = None
    """All sends have acks=all."""
    idempotent: bool | None = None
    """All producers are idempotent, or do not retry."""
    unclean: bool | None = None
    """Unclean leader election is on."""
    void: bool | None = None
    """A fault destroyed storage: nothing but inventions is held against the broker."""

    @staticmethod
    def read(path: Path) -> PromiseOverride:
        try:
            document = tomllib.loads(path.read_text())
        except OSError as error:
            raise HistoryError(f"{path}: {error.strerror}") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise HistoryError(f"{path}: not TOML: {error}") from None
        known = [each.name for each in fields(PromiseOverride)]
        for name, value in document.items():
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
                raise HistoryError(f"{path}: unknown promise {name!r}{hint}")
            if not isinstance(value, bool):
                raise HistoryError(f"{path}: {name} is true or false, not {value!r}")
        return PromiseOverride(**document)


def one_of(column: str, members: Sequence[int]) -> str:
    """SQL for membership in a set known to the driver."""
    return f"{column} IN ({', '.join(map(str, members))})" if members else "false"


@dataclass(frozen=True)
class Promises:
    """What each producer promises, as SQL conditions on the column ``producer``.

    Producer -1 (or null) stands for sends whose producer nobody recorded: they promise what the
    history's producers all promise.
    """

    safe: str
    idempotent: str
    """Idempotent, or without retries."""
    single: str
    """One request in flight."""
    acks_zero: str

    @staticmethod
    def of(meta: Meta, override: PromiseOverride) -> Promises:
        def condition(holds: Callable[[ProducerSettings], bool], said: bool | None = None) -> str:
            members = [n for n, each in enumerate(meta.producers) if (holds(each) if said is None else said)]
            if len(members) == len(meta.producers):
                members.append(-1)
            return one_of("COALESCE(producer, -1)", members)

        return Promises(
            condition(lambda each: each.acks == -1, override.safe),
            condition(lambda each: each.idempotent or each.retries == 0, override.idempotent),
            condition(lambda each: each.max_in_flight == 1),
            one_of("COALESCE(producer, -1)", [n for n, each in enumerate(meta.producers) if each.acks == 0]),
        )


def fatal(anomaly: str, *, void: bool) -> str:
    """The SQL condition under which a case of this anomaly breaks a promise."""
    kind = FATAL_WHEN[anomaly]
    if void and kind != ALWAYS:
        return "false"
    return f"({CONDITION[kind]})"
