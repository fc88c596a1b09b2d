"""Partitions on disk: segments, indexes, checkpoints, leader epochs, recovery, retention.

All files are in Apache Kafka's formats: its own tools read them, and ours read Kafka's. Every access to a disk goes
through :class:`system_under_test.world.Files`. Nothing here knows of leaders, followers or requests.

May import ``protocol.batch``, ``protocol.compression``, ``protocol.errors``, ``config``, ``types`` and ``world``.
"""
