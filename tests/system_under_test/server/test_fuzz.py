"""Bytes that no client sends, and requests that make no sense: answered, or their connection is closed, and nothing else.

Each case has a connection of its own to one of three simulated brokers. After it the broker serves the next client, no
task has died and no exception is in the log. ``TIDEMARK_FUZZ_CASES=100000`` makes more of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from system_under_test.protocol.messages import ConnectionInfo, Request, decode_request
from system_under_test.server.dispatch import served
from tests.system_under_test.server.requests import TOPIC, request
from tests.system_under_test.server.universe import Universe

CASES = int(os.environ.get("TIDEMARK_FUZZ_CASES", "3000"))
POOL = [(api.key, version) for api in served().values() for version in api.versions]
INTEGERS = (0, 1, -1, -2, 0x7F, 0x80, 0x7FFF, -0x8000, 0xFFFF, 10**6, 0x7FFFFFFF, -0x80000000)

Mutation = Callable[[bytearray], None]


@pytest.fixture(scope="module")
def universe() -> Iterator[Universe]:
    with Universe(TOPIC, 2) as universe:
        yield universe


def _at(data: bytearray, place: float) -> int:
    """Behind the size."""
    return 4 + int(place * (len(data) - 4))


def _set_byte(place: float, value: int) -> Mutation:
    def mutate(data: bytearray) -> None:
        data[_at(data, place)] = value & 0xFF

    return mutate


def _set_number(place: float, value: int, size: int) -> Mutation:
    def mutate(data: bytearray) -> None:
        at = _at(data, place)
        data[at : at + size] = (value & (2 ** (8 * size) - 1)).to_bytes(size, "big")

    return mutate


def _set_varint(place: float, length: int) -> Mutation:
    def mutate(data: bytearray) -> None:
        at = _at(data, place)
        data[at : at + 1] = b"\xff" * length + b"\x07"

    return mutate


def _cut(place: float) -> Mutation:
    def mutate(data: bytearray) -> None:
        del data[_at(data, place) :]

    return mutate


def _insert(place: float, what: bytes) -> Mutation:
    def mutate(data: bytearray) -> None:
        at = _at(data, place)
        data[at:at] = what

    return mutate


_places = st.floats(0, 1, exclude_max=True, width=16)
_mutations: st.SearchStrategy[Mutation] = st.one_of(
    st.builds(_set_byte, _places, st.integers(0, 255)),
    st.builds(_set_number, _places, st.sampled_from(INTEGERS), st.sampled_from((2, 4, 8))),
    st.builds(_set_varint, _places, st.integers(0, 11)),
    st.builds(_cut, _places),
    st.builds(_insert, _places, st.binary(min_size=1, max_size=6)),
)


@given(
    st.sampled_from(POOL),
    st.integers(0, 50),
    st.lists(_mutations, max_size=3),
    st.sampled_from((0, 0, 0, 0, 1, -1, 5)),
    st.integers(1, 3),
)
@settings(max_examples=CASES * 2 // 3, deadline=None)
def test_mutated_requests(
    universe: Universe, api: tuple[int, int], seed: int, mutations: list[Mutation], lie: int, broker_id: int
) -> None:
    """Every API and version; ``lie``: by how much the size in front is wrong."""
    key, version = next(each for each in POOL if each == api)
    data = bytearray(request(key, version, Random(seed)))
    for mutate in mutations:
        if len(data) > 12:
            mutate(data)
    data[:4] = (len(data) - 4 + lie).to_bytes(4, "big", signed=True)
    universe.say(bytes(data), broker_id)


@given(st.sampled_from(POOL), st.integers(0, 50), st.binary(min_size=1, max_size=60), st.booleans())
@settings(max_examples=CASES // 6, deadline=None)
def test_garbage_behind_a_valid_request(
    universe: Universe, api: tuple[int, int], seed: int, garbage: bytes, framed: bool
) -> None:
    key, version = next(each for each in POOL if each == api)
    data = request(key, version, Random(seed))
    universe.say(data + (len(garbage).to_bytes(4, "big") if framed else b"") + garbage)


@given(st.binary(max_size=100), st.sampled_from((None, *POOL)))
@settings(max_examples=CASES // 6, deadline=None)
def test_random_bytes(universe: Universe, data: bytes, api: tuple[int, int] | None) -> None:
    """As they are, or as the body of some API."""
    if api is not None:
        data = api[0].to_bytes(2, "big") + api[1].to_bytes(2, "big") + data
        data = len(data).to_bytes(4, "big") + data
    universe.say(data)


def test_what_can_be_read_is_read_as_before_the_check() -> None:
    """The walk over a request ends where kio's reader does, so it refuses nothing that is one."""
    for key, version in POOL:
        for seed in range(30):
            frame = request(key, version, Random(seed))[4:]
            read = decode_request(frame, key, version, ConnectionInfo("test", "PLAINTEXT"))
            assert isinstance(read, Request)


_HUNGRY = """
import resource, sys
from random import Random
from system_under_test.protocol.errors import MalformedRequest
from system_under_test.protocol.messages import ConnectionInfo, decode_request
from tests.system_under_test.server.requests import request
from tests.system_under_test.server.test_fuzz import POOL

for key, version in POOL:
    request(key, version, Random(1))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20,) * 2)
refused = 0
for key, version in POOL:
    for seed in (3, 5):
        frame = request(key, version, Random(seed))[4:]
        for at in range(8, len(frame)):
            for huge in (b"\\x7f\\xff\\xff\\xff", b"\\x05\\xff\\xff\\xff", b"\\xff\\xff\\xff\\xff\\x07"):
                try:
                    decode_request(frame[:at] + huge + frame[at + len(huge):], key, version, ConnectionInfo("", ""))
                except MalformedRequest:
                    refused += 1
print(refused)
"""


def test_no_count_in_a_request_takes_memory() -> None:
    """An impossible number at every place of every request, in a process that may take 64 MiB more than it has."""
    done = subprocess.run([sys.executable, "-c", _HUNGRY], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 10_000
