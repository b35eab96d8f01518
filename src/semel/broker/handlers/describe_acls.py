"""DescribeAcls (29), versions 1-3: who may do what. Without an authorizer nobody keeps that: SECURITY_DISABLED, as in Kafka."""

from typing import Final

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.core.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from semel.errors import ErrorCode

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"


def handle(
    broker: Administration, request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse:
    """There is no access control to describe."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
