"""The classification of errors, entry by entry: written out again here, so that a change is deliberate."""

from __future__ import annotations

import confluent_kafka
import pytest

from harness.clients.errors import CODES, DELIVERED_WITHOUT_ACK, LOCAL_REFUSAL, delivery_outcome, name_of
from histories.schema import Outcome

CERTAIN = {10, 17, 18, 21, 32, 43, 76, 87}
"""Refused for what the request is, by every broker at every moment."""


@pytest.mark.parametrize("code", sorted(CODES))
def test_without_retries_only_refusals_of_the_request_itself_are_certain(code: int) -> None:
    expected = Outcome.FAIL if code in CERTAIN else Outcome.INFO
    assert delivery_outcome(code, retries=0, idempotent=False) is expected


@pytest.mark.parametrize("code", sorted(CODES))
def test_after_a_retry_nothing_is_certain(code: int) -> None:
    assert delivery_outcome(code, retries=1, idempotent=False) is Outcome.INFO
    assert delivery_outcome(code, retries=0, idempotent=True) is Outcome.INFO


@pytest.mark.parametrize("code", [6, 7, 13, 19, 20, 56, -1, -192, -195])
def test_what_a_failing_leader_answers_is_never_certain(code: int) -> None:
    assert delivery_outcome(code, retries=0, idempotent=False) is Outcome.INFO


@pytest.mark.parametrize("code", [9999, -9999, 120])
def test_a_code_that_nobody_listed_is_unknown(code: int) -> None:
    assert code not in CODES
    assert delivery_outcome(code, retries=0, idempotent=False) is Outcome.INFO
    assert name_of(code) == f"ERROR_{code}"


@pytest.mark.parametrize("code", sorted(CODES))
def test_names_are_those_of_the_client(code: int) -> None:
    theirs = confluent_kafka.KafkaError(code).name()
    aliases = {"NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER"}
    assert name_of(code) == aliases.get(theirs, theirs)


def test_local_refusals_are_certain_and_unacknowledged_sends_are_not() -> None:
    assert LOCAL_REFUSAL is Outcome.FAIL
    assert DELIVERED_WITHOUT_ACK is Outcome.INFO
