"""DeleteAcls (31), versions 1-3: take back what was allowed. Without an authorizer there is nothing: SECURITY_DISABLED."""

from semel.broker.context import RequestContext
from semel.broker.handlers.describe_acls import NO_AUTHORIZER
from semel.broker.parts import Administration
from semel.core.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from semel.errors import ErrorCode


def handle(broker: Administration, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Nothing is deleted, and every filter says so."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
            for _filter in request.filters
        ]
    )
