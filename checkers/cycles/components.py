"""Strongly connected components: peel off what has no way in or no way out, then let networkx decide about the rest.

Peeling is a few passes of numpy over all windows at once. In a healthy history it leaves nothing; where there are
cycles, it leaves them and what lies between them.
"""

from __future__ import annotations

import networkx as nx
import numpy as np

from checkers.cycles.edges import Bools, Ints

_PASSES = 200
"""A pass takes off one layer; a chain that is longer than this is left to the search of components, which is linear."""


def strong_components(nodes: int, src: Ints, dst: Ints) -> Ints:
    """The component of each node, -1 for those on no cycle. Numbers are dense, in the order of least nodes."""
    alive = _peeled(nodes, src, dst)
    component = np.full(nodes, -1, np.int64)
    keep = alive[src] & alive[dst] & (src != dst)
    if not keep.any():
        return component
    graph = nx.DiGraph()
    graph.add_edges_from(zip(src[keep].tolist(), dst[keep].tolist(), strict=True))
    found = sorted(sorted(each) for each in nx.strongly_connected_components(graph) if len(each) > 1)
    for number, members in enumerate(found):
        component[members] = number
    return component


def _peeled(nodes: int, src: Ints, dst: Ints) -> Bools:
    alive = np.ones(nodes, np.bool_)
    apart = src != dst
    src, dst = src[apart], dst[apart]
    for _ in range(_PASSES):
        way_out = np.zeros(nodes, np.bool_)
        way_in = np.zeros(nodes, np.bool_)
        way_out[src] = True
        way_in[dst] = True
        alive = way_out & way_in
        keep = alive[src] & alive[dst]
        if keep.all():
            break
        src, dst = src[keep], dst[keep]
    return alive


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
