"""ApiVersions: versions 0 to 4.

Lists exactly what is served. A version that is not served is answered in version 0 with UNSUPPORTED_VERSION and
the whole list, so that the client can choose. Left out: features (none exist without KRaft).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request, maker

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.API_VERSIONS
VERSIONS = range(5)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(broker: BrokerContext, request: Request) -> Reply:
    if request.version >= 3:
        for name in (request.body.client_software_name, request.body.client_software_version):
            if not _SOFTWARE.fullmatch(name):
                return _answer(request.version, ErrorCode.invalid_request)
    return _answer(request.version, ErrorCode.none)


def unsupported() -> Body:
    return _answer(0, ErrorCode.unsupported_version)


def _answer(version: int, error: ErrorCode) -> Body:
    from system_under_test.server.dispatch import served

    make = maker(API, version)
    keys = tuple(
        make("ApiVersion", api_key=int(api.key), min_version=api.versions.start, max_version=api.versions.stop - 1)
        for api in served().values()
    )
    return make.root(error_code=error, api_keys=keys if error is not ErrorCode.invalid_request else ())
