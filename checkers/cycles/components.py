"""Strongly connected components, of all windows at once."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from checkers.cycles.edges import Ints


def strong_components(nodes: int, src: Ints, dst: Ints) -> Ints:
    """The component of each node, -1 for those on no cycle. Numbers are dense, in the order of least nodes."""
    graph = coo_array((np.ones(src.size, np.int8), (src, dst)), shape=(nodes, nodes))
    _, labels = connected_components(graph.tocsr(), directed=True, connection="strong")
    component = np.full(nodes, -1, np.int64)
    on_cycle = np.flatnonzero(np.bincount(labels, minlength=1)[labels] > 1)
    _, first, inverse = np.unique(labels[on_cycle], return_index=True, return_inverse=True)
    component[on_cycle] = np.argsort(np.argsort(first))[inverse]
    return component


def with_real_time(window: Ints, invoke_at: Ints, complete_at: Ints, src: Ints, dst: Ints) -> tuple[int, Ints, Ints]:
    """Nodes 0 … n-1 in their windows, and edges between them, with real-time order as a chain of points in time: point
    n + i stands for the i-th invocation in the order of windows and time. ``complete_at`` is NONE where nothing follows."""
    count = window.size
    order = np.lexsort((invoke_at, window))
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    span = np.int64(max(int(invoke_at.max(initial=0)), int(complete_at.max(initial=0))) + 2)
    starts = window[order] * span + invoke_at[order]
    done = np.flatnonzero(complete_at >= 0)
    following = np.searchsorted(starts, window[done] * span + complete_at[done], side="right")
    inside = following < count
    done, following = done[inside], following[inside]
    same = window[order[following]] == window[done]
    done, following = done[same], following[same]
    chain = np.flatnonzero(window[order][1:] == window[order][:-1])
    all_src = np.concatenate([src, done, count + chain, count + place])
    all_dst = np.concatenate([dst, count + following, count + chain + 1, np.arange(count)])
    return 2 * count, all_src, all_dst
