"""CreateAcls (30), versions 1-3: allow and deny. Without an authorizer nobody keeps that: SECURITY_DISABLED, as in Kafka."""

from semel.broker.context import RequestContext
from semel.broker.handlers.describe_acls import NO_AUTHORIZER
from semel.broker.parts import Administration
from semel.core.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from semel.errors import ErrorCode


def handle(broker: Administration, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    """Nothing is created, and every creation says so."""
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
            for _creation in request.creations
        ]
    )
