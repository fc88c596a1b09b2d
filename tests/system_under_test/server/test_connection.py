"""Answers leave in the order of the requests; what is no request closes its connection and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from system_under_test.config import BrokerConfig
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import (
    Reply,
    Request,
    correlation_id_of,
    decode_response,
    encode_request,
    maker,
)
from system_under_test.server import dispatch
from system_under_test.server.connection import IN_FLIGHT, ClientConnection
from tests.system_under_test.server.fake_connection import FakeConnection


class Broker:
    """As much of a broker as a connection touches."""

    config = BrokerConfig({"socket.request.max.bytes": "1000"})


def api_versions(correlation_id: int, version: int = 3) -> bytes:
    body = maker(ApiKey.API_VERSIONS, version, False).root(client_software_name="test", client_software_version="1")
    return b"".join(encode_request(ApiKey.API_VERSIONS, version, correlation_id, "test", body))


def run(talk: Callable[[FakeConnection], Awaitable[Any]]) -> FakeConnection:
    async def main() -> FakeConnection:
        connection = FakeConnection()
        serving = asyncio.create_task(ClientConnection(Broker(), connection, "PLAINTEXT").serve())  # type: ignore[arg-type]
        await talk(connection)
        connection.end()
        await asyncio.wait_for(serving, 5)
        return connection

    return asyncio.run(main())


async def _settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    request = bytearray(api_versions(9))
    request[6:8] = (99).to_bytes(2, "big")

    async def talk(connection: FakeConnection) -> None:
        connection.feed(bytes(request))
        connection.feed(api_versions(10))
        await _settle()

    first, second = run(talk).frames()
    body = decode_response(ApiKey.API_VERSIONS, 0, first)
    assert (correlation_id_of(first), body.error_code.name) == (9, "unsupported_version")
    assert [each.api_key for each in body.api_keys] == sorted(dispatch.served())
    assert decode_response(ApiKey.API_VERSIONS, 3, second).error_code.name == "none"


def test_answers_stay_in_order_although_promises_are_kept_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    promises: list[asyncio.Future[Any]] = []
    answer = maker(ApiKey.API_VERSIONS, 3).root(api_keys=(), error_code=ErrorCode.none)

    async def handle(_broker: object, request: Request) -> Reply:
        if request.correlation_id % 2:
            return answer
        promise = asyncio.get_running_loop().create_future()
        promises.append(promise)
        return promise

    _serve_with(monkeypatch, handle)

    async def talk(connection: FakeConnection) -> None:
        for number in range(6):
            connection.feed(api_versions(number))
        await _settle()
        assert len(promises) == 3, "requests behind an open one are taken up"
        assert connection.frames() == []
        for promise in reversed(promises):
            promise.set_result(answer)
            await _settle()

    assert [correlation_id_of(each) for each in run(talk).frames()] == list(range(6))


def test_a_connection_with_too_many_open_requests_is_not_read_further(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[asyncio.Future[Any]] = []
    answer = maker(ApiKey.API_VERSIONS, 3).root(api_keys=(), error_code=ErrorCode.none)

    async def handle(_broker: object, _request: Request) -> Reply:
        promise = asyncio.get_running_loop().create_future()
        taken.append(promise)
        return promise

    _serve_with(monkeypatch, handle)

    async def talk(connection: FakeConnection) -> None:
        for number in range(IN_FLIGHT + 5):
            connection.feed(api_versions(number))
        for _ in range(20):
            await _settle()
        assert len(taken) == IN_FLIGHT
        for promise in taken[:10]:
            promise.set_result(answer)
        for _ in range(20):
            await _settle()
        assert len(taken) == IN_FLIGHT + 5

    run(talk)


def _serve_with(monkeypatch: pytest.MonkeyPatch, handle: Callable[..., Awaitable[Reply]]) -> None:
    api = dispatch.Api(ApiKey.API_VERSIONS, range(5), handle, None)
    monkeypatch.setattr(dispatch, "served", lambda: {18: api})


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00",
        (1001).to_bytes(4, "big"),
        b"\x00\x00\x00\x08" + bytes(8)[:4] + b"\xff" * 4,
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x00\x00\x00\x0c" + (18).to_bytes(2, "big") + (3).to_bytes(2, "big") + b"\xff" * 8,
    ],
)
def test_what_is_no_request_closes_the_connection(data: bytes) -> None:
    async def talk(connection: FakeConnection) -> None:
        connection.feed(data)
        await _settle()
        assert connection.closed

    run(talk)


@given(st.lists(st.binary(max_size=60).flatmap(lambda body: st.sampled_from([
    body,
    len(body).to_bytes(4, "big") + body,
    (len(body) + 4).to_bytes(4, "big") + (18).to_bytes(2, "big") + (3).to_bytes(2, "big") + body,
])), min_size=1, max_size=5))  # fmt: skip
@settings(max_examples=2000, deadline=None)
def test_any_bytes_at_most_close_the_connection(chunks: list[bytes]) -> None:
    async def talk(connection: FakeConnection) -> None:
        for chunk in chunks:
            connection.feed(chunk)
        await _settle()

    run(talk)  # ends without an exception
