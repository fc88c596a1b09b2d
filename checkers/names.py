"""The anomalies that Tidemark knows by name, each with its definition in one line.

Plans (``exercise.expect``, ``exercise.subject``), ``tidemark check --only`` and the reports take their
names from here. The exact definitions stand in the module that checks for them.
"""

from __future__ import annotations

from histories.schema import Workload

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

TRANSACTIONS: dict[str, str] = {
    "internal": "A transaction's read contradicts what it read or wrote before.",
    "future-read": "A transaction read what it wrote only later.",
    "G1a": "A transaction read what a failed one wrote.",
    "G1b": "A transaction read a version that its writer overwrote in the same transaction.",
    "dirty-update": "A committed transaction wrote on top of what a failed one had written.",
    "incompatible-order": "Two reads of a list disagree about the order of its elements.",
    "duplicate-elements": "A read of a list has an element more than once, although it was appended once.",
    "cyclic-versions": "What transactions read and wrote puts the versions of a register in a circle.",
    "lost-update": "Two transactions read the same version and both wrote on it.",
}

_CYCLE_KINDS: dict[str, str] = {
    "G0": "A cycle of transactions that each wrote after the one before.",
    "G1c": "A cycle of transactions that each wrote after, or read from, the one before.",
    "G-single-item": "A cycle of transactions in which exactly one did not see what the next one wrote.",
    "G-nonadjacent-item": "A cycle in which some transactions, never two in a row, did not see what the next one wrote.",
    "G2-item": "A cycle in which two or more transactions did not see what the next one wrote.",
}
_ORDERS = {"": "", "-process": " Some follow by the order of a process.", "-realtime": " Some follow in real time."}

CYCLES: dict[str, str] = {
    kind + suffix: said + order for suffix, order in _ORDERS.items() for kind, said in _CYCLE_KINDS.items()
}

DEFINITIONS: dict[str, str] = {**DELIVERY, **ORDER, **CLUSTER, **TRANSACTIONS, **CYCLES}

ANOMALIES: tuple[str, ...] = tuple(DEFINITIONS)

OF_LOGS: tuple[str, ...] = (*DELIVERY, *ORDER, *CLUSTER)
_OF_TRANSACTIONS = (*TRANSACTIONS, *CYCLES, "phantom")
_OF_LISTS_ONLY = ("dirty-update", "incompatible-order", "duplicate-elements")
_OF_REGISTERS_ONLY = ("cyclic-versions",)

LOOKED_FOR: dict[str, tuple[str, ...]] = {
    Workload.LOG.value: OF_LOGS,
    Workload.APPEND.value: tuple(each for each in _OF_TRANSACTIONS if each not in _OF_REGISTERS_ONLY),
    Workload.REGISTER.value: tuple(each for each in _OF_TRANSACTIONS if each not in _OF_LISTS_ONLY),
}
"""By the workload of a history."""
