"""Positions of transactions, backward edges, and the windows that they make. See the package's docstring for why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkers.cycles.edges import FAIL, OK, Ints
from checkers.load import NONE

NOWHERE = -1


@dataclass(frozen=True)
class Placed:
    """All transactions of a history, in its order. Eight bytes for each of five columns: what the driver holds."""

    process: Ints
    type: Ints
    invoke_at: Ints
    complete_at: Ints
    rank: Ints
    """Place among the nodes, by position; NOWHERE for what is no node."""

    @staticmethod
    def of(process: Ints, type_: Ints, invoke_at: Ints, complete_at: Ints, seen_op: Ints, seen_at: Ints) -> Placed:
        never = np.iinfo(np.int64).max
        # A transaction of unknown outcome may have taken effect at any time after its completion, too.
        position = np.where((type_ == OK) & (complete_at != NONE), complete_at, never)
        at = np.full(position.size, never)
        # When a reader never came back, its read lies somewhere; the writer was seen all the same.
        np.minimum.at(at, seen_op, np.where(seen_at == NONE, never - 1, seen_at))
        position = np.maximum(invoke_at, np.minimum(position, at))
        node = (type_ != FAIL) & ((type_ == OK) | (at != never))
        order = np.flatnonzero(node)
        order = order[np.argsort(position[order], kind="stable")]
        rank = np.full(position.size, NOWHERE, np.int64)
        rank[order] = np.arange(order.size)
        return Placed(process, type_, invoke_at, complete_at, rank)


@dataclass(frozen=True)
class Windows:
    """Disjoint ranges of ranks, in order: from ``low`` to ``high``, both in it."""

    low: Ints
    high: Ints

    def of(self, rank: Ints) -> Ints:
        """The window of each rank, or NOWHERE."""
        if not self.low.size:
            return np.full(rank.size, NOWHERE, np.int64)
        place = np.searchsorted(self.low, rank, side="right") - 1
        inside = (place >= 0) & (rank <= self.high[np.maximum(place, 0)]) & (rank >= 0)
        return np.where(inside, place, NOWHERE)


def windows_of(src_rank: Ints, dst_rank: Ints) -> Windows:
    """From the ranks of edges: backward ones are intervals, and what overlaps or touches is one window."""
    backward = (src_rank > dst_rank) & (dst_rank >= 0)
    return merged(dst_rank[backward], src_rank[backward])


def merged(low: Ints, high: Ints) -> Windows:
    """One sort, one scan."""
    order = np.argsort(low, kind="stable")
    low, reach = low[order], np.maximum.accumulate(high[order]) if high.size else high
    fresh = np.ones(low.size, np.bool_)
    fresh[1:] = low[1:] > reach[:-1]
    begin = np.flatnonzero(fresh)
    end = np.append(begin[1:], low.size) - 1
    return Windows(low[begin], reach[end] if low.size else reach)
