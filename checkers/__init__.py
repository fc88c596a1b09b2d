"""Judges of a sealed history, on Spark. One module per family of anomalies.

A checker sees only the history, never the cluster, so that it judges the recording of any broker.
May import ``histories`` and nothing else of ours.
"""
