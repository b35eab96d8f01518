"""Errors of authentication and authorization.

Role.   A failed authentication ends the client; a missing permission fails only the call.
"""

from semel.errors import ErrorCode
from semel.exceptions.tree import ApiException, AuthenticationException, AuthorizationException


class TopicAuthorizationException(AuthorizationException):
    """No permission for this topic."""

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    abortable = True


class GroupAuthorizationException(AuthorizationException):
    """No permission for this group."""

    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    abortable = True


class ClusterAuthorizationException(AuthorizationException):
    """No permission for this operation on the cluster."""

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    fatal = True


class TransactionalIdAuthorizationException(AuthorizationException):
    """No permission for this transactional id."""

    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    fatal = True


class SaslAuthenticationException(AuthenticationException):
    """The credentials are wrong."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class SslAuthenticationException(AuthenticationException):
    """The TLS handshake failed: a certificate is not trusted, or a required one is missing."""


class UnsupportedSaslMechanismException(AuthenticationException):
    """The broker does not have this SASL mechanism."""

    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class IllegalSaslStateException(AuthenticationException):
    """The request came in the wrong phase of a SASL handshake."""

    code = ErrorCode.ILLEGAL_SASL_STATE


class SecurityDisabledException(ApiException):
    """The broker has no authorizer."""

    code = ErrorCode.SECURITY_DISABLED


class UnacceptableCredentialException(ApiException):
    """The cluster does not accept the credential."""

    code = ErrorCode.UNACCEPTABLE_CREDENTIAL


class InvalidPrincipalTypeException(ApiException):
    """The principal type is not supported."""

    code = ErrorCode.INVALID_PRINCIPAL_TYPE


class DelegationTokenDisabledException(ApiException):
    """The cluster has no delegation tokens."""

    code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


class DelegationTokenNotFoundException(ApiException):
    """The delegation token does not exist."""

    code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND


class DelegationTokenOwnerMismatchException(ApiException):
    """The delegation token belongs to another principal."""

    code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


class DelegationTokenAuthorizationException(AuthorizationException):
    """No permission for this delegation token."""

    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


class DelegationTokenExpiredException(ApiException):
    """The delegation token has expired."""

    code = ErrorCode.DELEGATION_TOKEN_EXPIRED


class UnsupportedByAuthenticationException(ApiException):
    """The request is not allowed with this connection's authentication."""

    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
