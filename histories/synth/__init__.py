"""Synthetic histories: valid by construction, of any size, with exactly the anomalies that were asked for."""

from histories.synth.generate import synthesize
from histories.synth.inject import ENTAILS

__all__ = ["ENTAILS", "synthesize"]
