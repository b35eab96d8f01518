"""DescribeUserScramCredentials (50), version 0: which users have SCRAM credentials, never what they are.

No users named, or null: all of them. A user named twice is DUPLICATE_RESOURCE, one without any RESOURCE_NOT_FOUND.
"""

from collections import Counter

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.core.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from semel.errors import ErrorCode


def handle(
    broker: Administration, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """Mechanisms and iterations of every user asked for."""
    known: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), credential in sorted(broker.store.image.scram.items()):
        info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        known.setdefault(user, []).append(info)
    asked = Counter([user.name for user in request.users or ()] or list(known))
    results = []
    for user, times in asked.items():
        result = DescribeUserScramCredentialsResult(user=user, error_message=None)
        if times > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = f"Cannot describe SCRAM credentials for the same user twice: {user}"
        elif user not in known:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = f"Attempt to describe a user credential that does not exist: {user}"
        else:
            result.credential_infos = known[user]
        results.append(result)
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)
