"""The nemesis: faults as values, how they find their targets, when they strike, and the proof that they landed.

May import ``harness.fleet`` and ``histories``; it knows neither clients nor targets.
"""
