"""A small synchronous client for Kafka's admin APIs, for the commands that a person types.

The client libraries lack some of these APIs (librdkafka has no reassignment), and the schemas are here anyway.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from harness.targets.base import TargetError
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.messages import (
    Body,
    correlation_id_of,
    decode_response,
    encode_request,
    maker,
    versions_of,
)

_SIZE = struct.Struct(">i")
_MAX_ANSWER_BYTES = 256 * 1024 * 1024
CLIENT_ID = "tidemark-admin"


class WireClient:
    """One connection; versions are agreed on at the first request."""

    def __init__(self, host: str, port: int, timeout_s: float = 30.0) -> None:
        self.address = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise TargetError(f"no broker answers at {self.address}: {error.strerror or error}") from None
        self._next_id = 0
        answer = self._exchange(ApiKey.API_VERSIONS, 0, maker(ApiKey.API_VERSIONS, 0, False).root())
        self._served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def version(self, api: ApiKey) -> int:
        """The newest version that both sides know."""
        least, most = self._served.get(int(api), (0, -1))
        usable = [version for version in versions_of(api) if least <= version <= most]
        if not usable:
            raise TargetError(f"the broker at {self.address} does not serve {api.name}")
        return max(usable)

    def make(self, api: ApiKey, kind: str, /, **fields: Any) -> Body:
        """A nested part of a request."""
        return maker(api, self.version(api), False)(kind, **fields)

    def request(self, api: ApiKey, **fields: Any) -> Body:
        version = self.version(api)
        return self._exchange(api, version, maker(api, version, False).root(**fields))

    def metadata(self, topics: tuple[Body, ...] | None) -> Body:
        """Of these topics, of all (None), or of the brokers alone ()."""
        return self.request(
            ApiKey.METADATA,
            topics=topics,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )

    def close(self) -> None:
        self._socket.close()

    def _exchange(self, api: ApiKey, version: int, body: Body) -> Body:
        number, self._next_id = self._next_id, self._next_id + 1
        try:
            self._socket.sendall(b"".join(encode_request(api, version, number, CLIENT_ID, body)))
            (size,) = _SIZE.unpack(self._read(4))
            if not 4 <= size <= _MAX_ANSWER_BYTES:
                raise TargetError(f"{self.address} does not speak Kafka's protocol: an answer of {size} bytes")
            frame = self._read(size)
        except TimeoutError:
            raise TargetError(f"the broker at {self.address} did not answer {api.name} in time") from None
        except OSError as error:
            raise TargetError(
                f"the broker at {self.address} closed the connection during {api.name}: {error}"
            ) from None
        if correlation_id_of(frame) != number:
            raise TargetError(f"{self.address} answered another request than {api.name}")
        return decode_response(api, version, frame)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._socket.recv(min(size - len(data), 1 << 20))
            if not chunk:
                raise ConnectionError("end of stream")
            data += chunk
        return bytes(data)


def connect(bootstrap: str) -> WireClient:
    """The first of the bootstrap servers that answers."""
    problems = []
    for each in bootstrap.split(","):
        host, _, port = each.strip().rpartition(":")
        if not host or not port.isdigit():
            raise TargetError(f"expected HOST:PORT, got {each!r}")
        try:
            return WireClient(host, int(port))
        except TargetError as error:
            problems.append(str(error))
    raise TargetError("; ".join(problems))


def connect_controller(bootstrap: str) -> WireClient:
    """The controller, which alone takes changes."""
    client = connect(bootstrap)
    try:
        metadata = client.metadata(())
    finally:
        client.close()
    for broker in metadata.brokers:
        if broker.node_id == metadata.controller_id:
            return WireClient(broker.host, broker.port)
    raise TargetError("the cluster has no controller right now; try again in a moment")
