"""The nemesis: faults as values, how they find their targets, when they strike, the proof that they landed.

    schedule   when, what and whom (by role): drawn from a seed, or replayed from a record
    selectors  which node has the role now, asked when the fault fires
    faults     unavailable / inject / evidence / heal of each kind
    nemesis    the thread that carries a schedule out, and heals whatever happens

May import ``harness.fleet`` and ``histories``; it knows neither clients nor targets, which come in as
:class:`nemesis.control.NodeControl` (hands) and :class:`nemesis.view.ClusterView` (eyes).
"""
