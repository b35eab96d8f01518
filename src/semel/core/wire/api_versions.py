"""The answer to ApiVersions, with Kafka's exceptions for clients older and newer than the broker.

Role.   A pure function from the served APIs to the response and its version.
Flow.   The broker's handler calls `api_versions_response`; `registry` writes its header without tagged fields.
Rules.  * An unknown version is answered in version 0 with UNSUPPORTED_VERSION and the range of ApiVersions itself, so
          that the client can retry on the same connection. The body of such a request is not read.
        * From version 3 on a client names its software; a malformed name is INVALID_REQUEST.
        * Below version 4 a feature that supports level 0 is not listed: Java clients before 4 treat it as an error.
        * A feature finalized at level 0 is off, and is not listed.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from semel.core.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from semel.core.wire.registry import APIS, BY_KEY, ApiKey
from semel.errors import ErrorCode

_LEVEL_ZERO_SINCE: Final = 4
_SOFTWARE_SINCE: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ServedApi(NamedTuple):
    """One API of the response."""

    key: int
    first: int
    last: int


class Features(NamedTuple):
    """Feature levels: supported by the broker, and finalized by the cluster."""

    supported: Mapping[str, tuple[int, int]] = {}
    finalized: Mapping[str, int] = {}
    finalized_epoch: int = -1


def advertised() -> tuple[ServedApi, ...]:
    """The rows of all APIs that have messages, in the order of their keys, without unstable versions."""
    return tuple(ServedApi(api.key, *api.advertised()) for api in sorted(APIS, key=lambda one: one.key))


def api_versions_response(
    version: int,
    served: Iterable[ServedApi],
    features: Features = Features(),  # noqa: B008  # immutable
    *,
    request: ApiVersionsRequest | None = None,
    zk_migration_ready: bool = False,
    throttle_time_ms: int = 0,
) -> tuple[ApiVersionsResponse, int]:
    """The answer to a request of `version`, and the version to write it in."""
    own = BY_KEY[ApiKey.API_VERSIONS]
    if not own.serves(version):
        rows = [ApiVersion(api_key=own.key, min_version=own.first, max_version=own.last)]
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=rows), own.first
    if request is not None and version >= _SOFTWARE_SINCE and not valid_software(request):
        return ApiVersionsResponse(
            error_code=ErrorCode.INVALID_REQUEST, throttle_time_ms=throttle_time_ms
        ), version
    response = ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=first, max_version=last) for key, first, last in served
        ],
        throttle_time_ms=throttle_time_ms,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=first, max_version=last)
            for name, (first, last) in features.supported.items()
            if first > 0 or version >= _LEVEL_ZERO_SINCE
        ],
        finalized_features_epoch=features.finalized_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.finalized.items()
            if level > 0
        ],
        zk_migration_ready=zk_migration_ready,
    )
    return response, version


def valid_software(request: ApiVersionsRequest) -> bool:
    """Whether the client's software name and version have Kafka's form: letters, digits, inner dots and dashes."""
    names = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.fullmatch(name) is not None for name in names)
