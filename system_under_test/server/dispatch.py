"""From a frame to the handler of its API.

Each module of :mod:`system_under_test.apis` names its ``API``, the ``VERSIONS`` that it really serves, and ``handle``.
ApiVersions is made from these, so it never claims more than is there.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from system_under_test import apis
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode, MalformedRequest
from system_under_test.protocol.messages import (
    Answer,
    ConnectionInfo,
    Reply,
    Request,
    decode_request,
    read_start,
)

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

log = logging.getLogger(__name__)

Handler = Callable[["BrokerContext", Request], Awaitable[Reply]]
Refusal = Callable[[Request, ErrorCode, str | None], Answer]


@dataclass(frozen=True, slots=True)
class Api:
    key: ApiKey
    versions: range
    handle: Handler
    refused: Refusal | None
    """The API's own shape of an error that concerns the whole request."""


@cache
def served() -> dict[int, Api]:
    """Every API, by its number."""
    found: dict[int, Api] = {}
    for info in sorted(pkgutil.iter_modules(apis.__path__), key=lambda each: each.name):
        module = importlib.import_module(f"{apis.__name__}.{info.name}")
        if hasattr(module, "API"):
            refused = getattr(module, "refused", None)
            assert module.API not in found, f"two modules serve {module.API.name}"
            found[int(module.API)] = Api(module.API, module.VERSIONS, module.handle, refused)
    return dict(sorted(found.items()))


class Dispatched(NamedTuple):
    """Which answer belongs to which request."""

    api: ApiKey
    version: int
    correlation_id: int
    reply: Reply


async def dispatch(broker: BrokerContext, frame: bytes, connection: ConnectionInfo) -> Dispatched:
    """Serve one request. MalformedRequest: the connection has to be closed, as Kafka does."""
    start = read_start(frame)
    api = served().get(start.api_key)
    if api is None:
        raise MalformedRequest(f"nobody serves API {start.api_key}")
    if start.version not in api.versions:
        if api.key is ApiKey.API_VERSIONS:
            # A client from the future learns what there is, in the oldest form that it certainly reads.
            from system_under_test.apis import api_versions

            return Dispatched(api.key, 0, start.correlation_id, api_versions.unsupported())
        raise MalformedRequest(f"{api.key.name} version {start.version} is not served")
    request = decode_request(frame, api.key, start.version, connection)
    try:
        reply = await api.handle(broker, request)
    except ApiError as error:
        if api.refused is None:
            raise
        reply = api.refused(request, error.code, error.message)
    return Dispatched(api.key, start.version, start.correlation_id, reply)
