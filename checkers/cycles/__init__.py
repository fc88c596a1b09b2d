"""Cycles and anomalies of transactions on lists and registers, by Elle's method, at a scale that Elle's search does not reach.

**Edges.** ww from the writer of a version to the writer of the next, wr from the writer to each reader, rw from a reader
to the writer of the next version, process order, real-time order. :mod:`.lists` and :mod:`.registers` find the
order of versions and the data edges, all rows of a key together.

**Positions.** Invocations and completions are numbered in the order of the history. A transaction's position is
max(its invocation, min(its completion, the first completion of a transaction that read a value of it)); one of unknown
outcome that nobody read is no node. It may have taken effect, but nothing follows from it, so no cycle passes through it.

**Windows.** Sort the nodes by position. An edge from a lower to a higher position is forward, any other backward. Process
and real-time edges are always forward: who completed before another was invoked lies at or below its own completion,
and the other at or above its invocation. A cycle must come back, so it has a backward edge; and for every place
between its lowest and its highest node, some backward edge of the cycle spans that place: the cycle gets from above
it to below it, and only a backward edge goes down. So the backward edges of one cycle cover its whole range without a gap. Merge the
intervals of all backward edges that overlap or touch in a node: every strongly connected component lies inside one window. Windows
come of one sort and one scan (:mod:`.windows`), and are searched independently. Only there are real-time edges built.

The position is what makes windows small. With completions alone, a transaction of unknown outcome would lie at the end of time,
and each read of it would be a backward edge over all that lies between.

**Components** (:mod:`.components`). Real-time order inside a window is a chain of points in time instead of pairs of
transactions: one edge from each transaction to the next invocation after its completion, one from each point to the next, one from each point to
the transaction that is invoked there. That has exactly the paths of the real-time order. scipy finds the strongly connected components,
all windows at once.

**Search** (:mod:`.search`). In each component, kinds of cycles are looked for from the most severe down, by paths along
restricted classes of edges. A search has a time limit; when it is hit, that a cycle exists is reported and the rest is unknown.

Nothing here knows lists from registers but the two modules of these names: another source of edges can use
:mod:`.windows`, :mod:`.components` and :mod:`.search` as they are.
"""
