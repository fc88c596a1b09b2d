"""The nemesis: faults as values, how they find their targets, when they strike, the proof that they landed.

    schedule   when, what and whom (by role): drawn from a seed, or replayed from a record
    selectors  which node has the role now, asked when the fault fires
    fault      what a fault is: unavailable / draw / inject / evidence / heal
    processes  faults of processes
    network    faults of the links between hosts; shapes: who cannot talk to whom
    faults     all of them by kind
    nemesis    the thread that carries a schedule out, and heals whatever happens

May import ``harness.fleet`` and ``histories``; it knows neither clients nor targets, which come in as
:class:`nemesis.control.NodeControl` (hands) and :class:`nemesis.view.ClusterView` (eyes).
"""
