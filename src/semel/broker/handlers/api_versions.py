"""ApiVersions (18), versions 0-4: what this broker serves, and the features the cluster agreed on."""

from semel.broker.context import BrokerContext, RequestContext
from semel.core.wire.api_versions import ServedApi, api_versions_response
from semel.core.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


def handle(
    broker: BrokerContext, request: ApiVersionsRequest, context: RequestContext, served: tuple[ServedApi, ...]
) -> ApiVersionsResponse:
    """Answer in the version that was asked in; the dispatch answers versions nobody knows."""
    response, _version = api_versions_response(context.version, served, request=request)
    return response
