"""The recorded history of a run: schema, journal, sealing, run store, interchange, synthetic histories.

Everything that is judged passes through here, so this package imports nothing else of Tidemark.
"""
