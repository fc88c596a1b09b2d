"""Replication: what a leader and its followers owe each other, and when a record counts as committed.

Rules without I/O: :mod:`isr` (who is in sync, how far the high watermark may go), :mod:`truncation` (where logs part
ways), :mod:`delayed` (operations that wait for events), :mod:`fetch_session` and :mod:`fetch_session_handler` (KIP-227).
State: :mod:`partition`. Effects at the edge: :mod:`isr_changes` (ZooKeeper), :mod:`fetcher` (other brokers),
:mod:`replica_manager` (puts it together, and is all that the APIs see).

May import ``protocol``, ``storage``, ``zookeeper.nodes``, ``metadata``, ``server.peer`` and the shared values; never
``apis`` or ``controller``.
"""
