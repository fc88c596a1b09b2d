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
vanished-read                                          unclean off
poll-skip, int-poll-skip                               unclean off, and a version between was read or safely
                                                       acknowledged
nonmonotonic-poll, int-nonmonotonic-poll               unclean off; where the case is a duplicated value seen
                                                       again, as the duplicate
nonmonotonic-send, int-nonmonotonic-send               safe, and idempotent or one request in flight
duplicate                                              unclean off, and the producer was idempotent, or it does
                                                       not retry
misplaced-ack                                          safe, and idempotent or no retry
phantom, aborted-read, early-read                      always
replica-divergence, unavailable-after-heal             not void
int-send-skip, unseen                                  never (unseen makes the verdict unknown)
=====================================================  ==========================================================

A fault that destroys storage voids the promises of what it hit; none of today's faults does (kill -9
spares the page cache), so a history is void only where ``--promises`` says so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import numpy.typing as npt

from histories.errors import HistoryError
from histories.meta import Meta, ProducerSettings

Booleans = npt.NDArray[np.bool_]


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
                near = get_close_matches(name, known)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
                raise HistoryError(f"{path}: unknown promise {name!r}{hint}")
            if not isinstance(value, bool):
                raise HistoryError(f"{path}: {name} is true or false, not {value!r}")
        return PromiseOverride(**document)


@dataclass(frozen=True)
class Promises:
    """What each producer promises, as arrays by its number. The last entry (so -1 finds it) stands for
    sends whose producer nobody recorded: they promise what all of the history's producers do."""

    safe: Booleans
    idempotent: Booleans
    once: Booleans
    """Idempotent, or without retries."""
    single: Booleans
    """One request in flight."""
    acks_zero: Booleans
    void: bool

    @staticmethod
    def of(meta: Meta, override: PromiseOverride) -> Promises:
        def array(holds: Callable[[ProducerSettings], bool], said: bool | None = None) -> Booleans:
            each = [holds(producer) if said is None else said for producer in meta.producers]
            return np.array([*each, all(each)], dtype=bool)

        zero = [producer.acks == 0 for producer in meta.producers]
        return Promises(
            array(lambda each: each.acks == -1, override.safe),
            array(lambda each: each.idempotent, override.idempotent),
            array(lambda each: each.idempotent or each.retries == 0, override.idempotent),
            array(lambda each: each.max_in_flight == 1),
            np.array([*zero, False], dtype=bool),
            bool(override.void),
        )
