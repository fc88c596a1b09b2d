"""The facade over kio: frames to messages and back.

kio has one dataclass per message *and version*. Handlers read the fields of the version that came (what a version
lacks has Kafka's default, see :meth:`Request.get`) and build answers through a :class:`Maker`, which drops the
fields that the version asked for does not have; so a handler is written once, for the newest version.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import io
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from kio.index import KioIndexError, load_payload_module, load_request_schema, load_response_schema
from kio.schema.index import PayloadEntityType
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import MalformedRequest
from system_under_test.protocol.shape import Walk, checked_request, walker
from system_under_test.protocol.wire import NO_TAGS, nullable_string
from system_under_test.world import Buffer

_START = struct.Struct(">hhi")
_SIZE = struct.Struct(">i")
_INT32 = struct.Struct(">i")
_NO_TIME = datetime.timedelta(0)

Body = Any
"""A message of kio's: one frozen dataclass per API and version."""


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """What a handler may know of who asks."""

    peer: str
    listener: str


class Request(NamedTuple):
    api: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    body: Body
    connection: ConnectionInfo

    def get(self, field: str, default: Any) -> Any:
        """A field that older versions lack."""
        return getattr(self.body, field, default)

    @property
    def maker(self) -> Maker:
        """Builds the answer."""
        return maker(self.api, self.version)


class RawResponse(NamedTuple):
    """A body that was encoded by hand."""

    buffers: list[Buffer]


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request's body that was encoded by hand."""

    payload: bytes


Answer = RawResponse | Body
Reply = Answer | asyncio.Future[Answer] | None
"""What a handler returns: an answer, a promise of one (the connection goes on reading; answers stay in order), or
None where Kafka sends nothing (acks=0)."""


class RequestStart(NamedTuple):
    """The fields that stand first in every request header, whatever its version."""

    api_key: int
    version: int
    correlation_id: int


def read_start(frame: bytes) -> RequestStart:
    if len(frame) < _START.size:
        raise MalformedRequest(f"{len(frame)} bytes are no request")
    return RequestStart(*_START.unpack_from(frame))


def decode_request(frame: bytes, api: ApiKey, version: int, connection: ConnectionInfo) -> Request:
    read_header, read_body = _request_readers(api, version)
    frame = checked_request(frame, *_request_walkers(api, version))
    try:
        header, used = read_header(frame, 0)
        body, _ = read_body(frame, used)
    except Exception as error:  # kio raises what its fields raise: whatever it is, these bytes are no request
        raise MalformedRequest(f"{api.name} version {version}: {type(error).__name__}: {error}") from error
    # The oldest header, of ControlledShutdown 0, has no client id.
    client_id = getattr(header, "client_id", None)
    return Request(api, version, header.correlation_id, client_id, body, connection)


def encode_response(api: ApiKey, version: int, correlation_id: int, answer: Answer) -> list[Buffer]:
    """The whole frame, ready to be written."""
    schema = _response_schema(api, version)
    # Clients read the answer to ApiVersions before they know anything: its header is always the oldest.
    flexible = schema.__flexible__ and api is not ApiKey.API_VERSIONS
    head = _INT32.pack(correlation_id) + (b"\0" if flexible else b"")
    buffers = answer.buffers if isinstance(answer, RawResponse) else [_written(answer)]
    size = len(head) + sum(len(each) for each in buffers)
    return [_SIZE.pack(size) + head, *buffers]


def encode_request(
    api: ApiKey, version: int, correlation_id: int, client_id: str, body: Body | RawRequest
) -> list[Buffer]:
    header_version = _request_header_version(api, version)
    head = bytearray(_START.pack(api, version, correlation_id))
    if header_version >= 1:  # ControlledShutdown's oldest has less
        head += nullable_string(client_id, False)
    if header_version >= 2:
        head += NO_TAGS
    payload = body.payload if isinstance(body, RawRequest) else _written(body)
    return [_SIZE.pack(len(head) + len(payload)) + head, payload]


def decode_response(api: ApiKey, version: int, frame: bytes) -> Body:
    """The body; the caller has matched the correlation id, which is the frame's first four bytes."""
    schema = _response_schema(api, version)
    flexible = schema.__flexible__ and api is not ApiKey.API_VERSIONS
    try:
        body, _ = _reader(schema)(frame, 5 if flexible else 4)
    except Exception as error:  # as in decode_request
        raise MalformedRequest(f"{api.name} version {version}: {type(error).__name__}: {error}") from error
    return body


def correlation_id_of(frame: bytes) -> int:
    return int(_INT32.unpack_from(frame)[0])


class Maker:
    """Builds the messages of one API and version by the names of kio's classes."""

    def __init__(self, api: ApiKey, version: int, *, response: bool = True) -> None:
        self._entity_type: PayloadEntityType = EntityType.response if response else EntityType.request
        self._api = api
        self._module = load_payload_module(api, version, self._entity_type)
        load = load_response_schema if response else load_request_schema
        self._root: Any = load(api, version)
        self.version = version

    def root(self, **fields: Any) -> Body:
        """The message itself. Nobody is throttled unless the caller says so."""
        if "throttle_time" in _names(self._root):
            fields.setdefault("throttle_time", _NO_TIME)
        return self._root(**self._known(self._root, fields))

    def has(self, name: str, field: str) -> bool:
        """Whether this version's class ``name`` has the field."""
        return field in _names(getattr(self._module, name))

    def __call__(self, name: str, /, **fields: Any) -> Body:
        """A nested part."""
        cls = getattr(self._module, name, None)
        if cls is None:
            raise AttributeError(f"{self._api.name} version {self.version} has no {name}")
        return cls(**self._known(cls, fields))

    def _known(self, cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
        names = _names(cls)
        if fields.keys() <= names:
            return fields
        ever = _names_ever(self._api, self._entity_type, cls.__name__)
        unknown = sorted(fields.keys() - ever)
        if unknown:
            raise TypeError(f"no version of {self._api.name} has {cls.__name__}.{unknown[0]}")
        return {name: value for name, value in fields.items() if name in names}


@cache
def maker(api: ApiKey, version: int, response: bool = True) -> Maker:
    return Maker(api, version, response=response)


@cache
def _names(cls: Any) -> frozenset[str]:
    return frozenset(each.name for each in dataclasses.fields(cls))


@cache
def _names_ever(api: ApiKey, entity_type: PayloadEntityType, name: str) -> frozenset[str]:
    found: set[str] = set()
    for version in range(32):
        try:
            module = load_payload_module(api, version, entity_type)
        except KioIndexError:
            continue
        cls: Any = getattr(module, name, None)
        if cls is not None:
            found |= _names(cls)
    return frozenset(found)


def versions_of(api: ApiKey) -> Iterable[int]:
    """Every version that kio knows."""
    for version in range(32):
        try:
            load_payload_module(api, version, EntityType.request)
        except KioIndexError:
            continue
        yield version


@cache
def _request_schema(api: ApiKey, version: int) -> Any:
    return load_request_schema(api, version)


@cache
def _request_header_version(api: ApiKey, version: int) -> int:
    return int(_request_schema(api, version).__header_schema__.__version__)


@cache
def _response_schema(api: ApiKey, version: int) -> Any:
    return load_response_schema(api, version)


_Reader = Callable[[bytes, int], tuple[Any, int]]


@cache
def _has_tagged_header(api: ApiKey, version: int) -> bool:
    """Clients read the answer to ApiVersions before they know anything: its header is always the oldest."""
    return load_response_schema(api, version).__flexible__ and api is not ApiKey.API_VERSIONS


@cache
def _response_reader(api: ApiKey, version: int) -> _Reader:
    return entity_reader(load_response_schema(api, version))


@cache
def _request_readers(api: ApiKey, version: int) -> tuple[_Reader, _Reader]:
    schema = _request_schema(api, version)
    return entity_reader(schema.__header_schema__), entity_reader(schema)


@cache
def _request_walkers(api: ApiKey, version: int) -> tuple[Walk, Walk]:
    schema = _request_schema(api, version)
    return walker(schema.__header_schema__), walker(schema)


@cache
def _reader(cls: Any) -> _Reader:
    return entity_reader(cls)


@cache
def _writer(cls: Any) -> Callable[[io.BytesIO, Any], None]:
    return entity_writer(cls)


def _written(body: Body) -> bytes:
    kind: Any = type(body)
    buffer = io.BytesIO()
    _writer(kind)(buffer, body)
    return buffer.getvalue()
