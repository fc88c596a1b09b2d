"""Payloads: what was encoded is read back, and everything that is not ours is named."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.payload import SMALLEST, BurstEncoder, Decoder, encoder
from histories.schema import Defect

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(0, 2**31 - 1)


@given(value=INT64, process=INT32, key=INT32, size=st.integers(SMALLEST, 200))
def test_a_payload_has_its_size_and_gives_its_value_back(value: int, process: int, key: int, size: int) -> None:
    payload = encoder("run", process, key, size)(value)
    assert len(payload) == size
    assert Decoder("run").decode(payload, key) == (value, None)


@given(
    sends=st.lists(st.tuples(st.integers(0, 2**31 - 1) | st.integers(0, 3), INT64), max_size=120),
    process=INT32,
    size=st.integers(SMALLEST, 200),
)
def test_a_burst_is_encoded_like_its_single_payloads(sends: list[tuple[int, int]], process: int, size: int) -> None:
    burst = BurstEncoder("run", process, size)
    for part in (sends[:30], sends):  # one by one, then at once, with keys that are new and keys that are not
        made = burst.encode(array("i", [key for key, _ in part]), array("q", [value for _, value in part]))
        assert made == [encoder("run", process, key, size)(value) for key, value in part]


@given(at=st.integers(0, 63), flip=st.integers(1, 255))
def test_any_damaged_byte_is_noticed(at: int, flip: int) -> None:
    payload = bytearray(encoder("run", 1, 2, 64)(3))
    payload[at] ^= flip
    assert Decoder("run").decode(bytes(payload), 2) == (None, Defect.CHECKSUM)


@pytest.mark.parametrize("payload", [None, b"", b"x", bytes(39), bytes(64)])
def test_what_nobody_here_wrote_is_a_bad_checksum(payload: bytes | None) -> None:
    assert Decoder("run").decode(payload, 0) == (None, Defect.CHECKSUM)


def test_another_run_and_another_key_are_told_apart() -> None:
    payload = encoder("run", 1, 2)(3)
    assert Decoder("other").decode(payload, 2) == (None, Defect.FOREIGN_RUN)
    assert Decoder("run").decode(payload, 4) == (3, Defect.MISROUTED)


def test_a_truncated_payload_is_noticed() -> None:
    assert Decoder("run").decode(encoder("run", 1, 2, 64)(3)[:60], 2) == (None, Defect.CHECKSUM)


def test_the_smallest_size_is_enforced() -> None:
    with pytest.raises(ValueError, match="smallest is 40"):
        encoder("run", 1, 2, 39)
