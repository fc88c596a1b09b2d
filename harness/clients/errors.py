"""Whether a send that did not succeed certainly had no effect: the one table that decides it.

``fail`` is a proof, and a wrong one makes a correct broker look guilty of showing a record that it
refused. A wrong ``info`` only loses power. So everything is ``info`` except

1. a send that the client refused locally, when it was handed over: it never left the process;
2. a send that the broker refused for what the request *is* (its size, its topic's name, its format),
   through a producer that is told not to retry. Each attempt at it is refused alike, before any append.

Refusals that depend on the moment (NOT_ENOUGH_REPLICAS above all) belong to the second kind by Kafka's
protocol, but not through librdkafka: it sends a batch again after NOT_LEADER_OR_FOLLOWER *without counting
that as a retry*, also with retries=0. A leader that was deposed while the send waited for its replicas
answers NOT_LEADER_OR_FOLLOWER after it has appended, and the append may survive; the NOT_ENOUGH_REPLICAS
that the client then reports is the second attempt's. confluent-kafka shows neither the number of attempts
nor the persistence status of a message, so those codes prove nothing here.

aiokafka retries internally until its time-out and cannot be told not to: only rule 1 applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from histories.schema import Outcome


class Refusal(Enum):
    """What a broker's error code says about the attempt that it answers."""

    ALWAYS = "refused before append, and so was every other attempt"
    THIS_TIME = "this attempt was refused before append; an earlier one may not have been"
    UNKNOWN = "the record may have been appended"


@dataclass(frozen=True)
class Code:
    name: str
    refusal: Refusal
    why: str


CODES: Final[dict[int, Code]] = {
    10: Code("MSG_SIZE_TOO_LARGE", Refusal.ALWAYS, "the batch is larger than max.message.bytes"),
    17: Code("TOPIC_EXCEPTION", Refusal.ALWAYS, "no topic may have this name, or it is internal"),
    18: Code("RECORD_LIST_TOO_LARGE", Refusal.ALWAYS, "the batch is larger than a segment"),
    21: Code("INVALID_REQUIRED_ACKS", Refusal.ALWAYS, "checked before the request is looked at"),
    32: Code("INVALID_TIMESTAMP", Refusal.ALWAYS, "checked while the batch is validated"),
    43: Code("UNSUPPORTED_FOR_MESSAGE_FORMAT", Refusal.ALWAYS, "checked while the batch is validated"),
    76: Code("UNSUPPORTED_COMPRESSION_TYPE", Refusal.ALWAYS, "checked while the batch is validated"),
    87: Code("INVALID_RECORD", Refusal.ALWAYS, "checked while the batch is validated"),
    19: Code("NOT_ENOUGH_REPLICAS", Refusal.THIS_TIME, "the ISR was too small before the append"),
    29: Code("TOPIC_AUTHORIZATION_FAILED", Refusal.THIS_TIME, "ACLs may change between attempts"),
    31: Code("CLUSTER_AUTHORIZATION_FAILED", Refusal.THIS_TIME, "ACLs may change between attempts"),
    45: Code("OUT_OF_ORDER_SEQUENCE_NUMBER", Refusal.THIS_TIME, "an earlier attempt may have the sequence"),
    47: Code("INVALID_PRODUCER_EPOCH", Refusal.THIS_TIME, "fenced since; an earlier attempt was not"),
    90: Code("PRODUCER_FENCED", Refusal.THIS_TIME, "fenced since; an earlier attempt was not"),
    -1: Code("UNKNOWN", Refusal.UNKNOWN, "unknown server error: it says nothing"),
    2: Code("INVALID_MSG", Refusal.UNKNOWN, "a checksum that broke on the way proves nothing of a retry"),
    3: Code("UNKNOWN_TOPIC_OR_PART", Refusal.UNKNOWN, "also answered when the replica went while waiting"),
    5: Code("LEADER_NOT_AVAILABLE", Refusal.UNKNOWN, "leadership moved; the append may survive"),
    6: Code("NOT_LEADER_OR_FOLLOWER", Refusal.UNKNOWN, "deposed while waiting; the append may survive"),
    7: Code("REQUEST_TIMED_OUT", Refusal.UNKNOWN, "appended, not replicated in time"),
    13: Code("NETWORK_EXCEPTION", Refusal.UNKNOWN, "the answer was lost"),
    20: Code("NOT_ENOUGH_REPLICAS_AFTER_APPEND", Refusal.UNKNOWN, "appended, as its name says"),
    46: Code("DUPLICATE_SEQUENCE_NUMBER", Refusal.UNKNOWN, "an earlier attempt was appended"),
    56: Code("KAFKA_STORAGE_ERROR", Refusal.UNKNOWN, "the disk failed during the append"),
    59: Code("UNKNOWN_PRODUCER_ID", Refusal.UNKNOWN, "the broker forgot what was appended"),
    -140: Code("_AUTO_OFFSET_RESET", Refusal.UNKNOWN, "not an answer to a send"),
    -151: Code("_PURGE_INFLIGHT", Refusal.UNKNOWN, "purged while a broker had it"),
    -152: Code("_PURGE_QUEUE", Refusal.UNKNOWN, "purged from a queue to which a retry returns too"),
    -185: Code("_TIMED_OUT", Refusal.UNKNOWN, "the request was sent, and nothing came back"),
    -192: Code("_MSG_TIMED_OUT", Refusal.UNKNOWN, "attempts before the time-out are not shown"),
    -195: Code("_TRANSPORT", Refusal.UNKNOWN, "the connection broke with the request in flight"),
}
"""By Kafka's (positive) and librdkafka's (negative) numbers. A code that is not listed is UNKNOWN."""


def name_of(code: int) -> str:
    known = CODES.get(code)
    return known.name if known else f"ERROR_{code}"


def delivery_outcome(code: int, *, retries: int, idempotent: bool) -> Outcome:
    """Of a send that librdkafka reported as not delivered, with this code."""
    known = CODES.get(code)
    if retries == 0 and not idempotent and known is not None and known.refusal is Refusal.ALWAYS:
        return Outcome.FAIL
    return Outcome.INFO


LOCAL_REFUSAL: Final = Outcome.FAIL
"""Of a send that the client refused when it was handed over (its queue is full, the record is too large)."""

DELIVERED_WITHOUT_ACK: Final = Outcome.INFO
"""Of a send with acks=0: the client calls it delivered when the bytes have left, and nobody answers."""
