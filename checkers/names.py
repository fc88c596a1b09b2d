"""The anomalies that Tidemark knows by name, each with its definition in one line.

Plans (``exercise.expect``, ``exercise.subject``), ``tidemark check --only`` and the reports take their
names from here. The exact definitions stand in the module that checks for them.
"""

from __future__ import annotations

DELIVERY: dict[str, str] = {
    "lost-write": "A committed record is missing from its partition, or a reader passed its place.",
    "vanished-read": "A record that was read is gone from the final scan: it was shown before it was safe.",
    "duplicate": "One record was read at two or more offsets of its partition.",
    "misplaced-ack": "A record was acknowledged at one offset and only ever read at another.",
    "inconsistent-offset": "Two or more different records are known at one offset of one partition.",
    "phantom": "A record was read that nobody sent here: unknown, corrupt, foreign or misrouted.",
    "aborted-read": "A record was read although its send certainly failed or its transaction aborted.",
    "early-read": "A read_committed reader saw a record before the commit of its transaction was requested.",
    "torn-transaction": "Of one committed transaction some records are there and some are missing.",
    "unseen": "A committed record was never read, and no scan is complete: neither lost nor safe.",
}

ORDER: dict[str, str] = {
    "int-poll-skip": "Inside one poll a reader jumped over records of the partition.",
    "int-nonmonotonic-poll": "Inside one poll a reader went backwards or saw a record again.",
    "poll-skip": "Between two polls a reader jumped over records of the partition.",
    "nonmonotonic-poll": "Between two polls a reader went backwards or saw a record again.",
    "int-nonmonotonic-send": "Inside one operation a producer's later send got a lower offset.",
    "nonmonotonic-send": "Across two operations a producer's later send got a lower offset.",
    "realtime-order": "A send that began after another was acknowledged got a lower offset.",
    "int-send-skip": "Other producers' records lie between the sends of one operation: normal, only counted.",
}

CLUSTER: dict[str, str] = {
    "replica-divergence": "After recovery, two replicas' logs differ where both are committed.",
    "unavailable-after-heal": "The cluster calls itself healthy, and a partition is still not served.",
}

DEFINITIONS: dict[str, str] = {**DELIVERY, **ORDER, **CLUSTER}

ANOMALIES: tuple[str, ...] = tuple(DEFINITIONS)
