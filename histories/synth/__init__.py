"""Synthetic histories: valid by construction, of any size, with exactly the anomalies that were asked for."""

from histories.synth.generate import synthesize

__all__ = ["synthesize"]
