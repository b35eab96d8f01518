"""The answer to ApiVersions, with Kafka's exceptions for clients older and newer than the broker.

Role.   A pure function from what a broker serves to the response and the version to write it in.
Flow.   The broker's handler calls `api_versions_response`; `registry` writes its header without tagged fields.
Rules.  * A version we do not speak is answered in version 0 with UNSUPPORTED_VERSION and the range of ApiVersions
          itself, so that the client can ask again on the same connection. Its body is not read: it may be anything.
        * From version 3 on a client names its software; a name of the wrong form is INVALID_REQUEST.
        * Below version 4 a feature that may be at level 0 is not listed: Java clients before 4 take it for an error.
        * A feature finalized at level 0 is one that is off, and is not listed.
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
from semel.core.wire.registry import APIS, BY_KEY, Api, ApiKey
from semel.errors import ErrorCode

_LEVEL_ZERO_SINCE: Final = 4
_SOFTWARE_SINCE: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ServedApi(NamedTuple):
    """A row of the answer."""

    key: int
    first: int
    last: int


class Features(NamedTuple):
    """Feature levels: what the broker could do, and what the cluster agreed on."""

    supported: Mapping[str, tuple[int, int]] = {}
    finalized: Mapping[str, int] = {}
    finalized_epoch: int = -1


def advertised(apis: Iterable[Api] = APIS, *, unstable: Iterable[ApiKey] = ()) -> tuple[ServedApi, ...]:
    """The rows of these APIs, in the order of their keys; with the unstable versions of those in `unstable`."""
    shown = frozenset(unstable)
    return tuple(
        ServedApi(api.key, *api.advertised(unstable=api.key in shown))
        for api in sorted(apis, key=lambda one: one.key)
    )


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
