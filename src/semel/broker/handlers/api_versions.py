"""ApiVersions (18), versions 0-4: what this broker serves, and the features the cluster agreed on.

Features: `group.version` 1 tells clients that they may use KIP-848 groups (`group.protocol=consumer`),
`transaction.version` 2 that they may use transactions v2 (KIP-890).
"""

from semel.broker.context import RequestContext
from semel.broker.features import features
from semel.broker.parts import Administration
from semel.core.wire.api_versions import ServedApi, api_versions_response
from semel.core.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


def handle(
    broker: Administration,
    request: ApiVersionsRequest,
    context: RequestContext,
    served: tuple[ServedApi, ...],
) -> ApiVersionsResponse:
    """Answer in the version that was asked in; the dispatch answers versions nobody knows."""
    agreed = features(broker.store.image)
    response, _version = api_versions_response(context.version, served, agreed, request=request)
    return response
