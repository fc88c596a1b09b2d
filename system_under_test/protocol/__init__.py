"""Kafka's wire protocol: message schemas (kio, behind :mod:`~system_under_test.protocol.messages`), record batches,
and hand-written writers for the two hot responses. Pure: bytes in, values out, no I/O."""
