"""Answers about who a client is and what it may do.

Role.   Authentication ends a client; a right that is missing ends the call.
"""

from semel.errors import ErrorCode
from semel.exceptions.tree import ApiException, AuthenticationException, AuthorizationException


class TopicAuthorizationException(AuthorizationException):
    """No right to this topic."""

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    abortable = True


class GroupAuthorizationException(AuthorizationException):
    """No right to this group."""

    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    abortable = True


class ClusterAuthorizationException(AuthorizationException):
    """No right to do this to the cluster."""

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    fatal = True


class TransactionalIdAuthorizationException(AuthorizationException):
    """No right to this transactional id."""

    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    fatal = True


class SaslAuthenticationException(AuthenticationException):
    """Wrong credentials."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class SslAuthenticationException(AuthenticationException):
    """TLS did not come to be: a certificate that is not trusted, or none where one is asked for."""


class UnsupportedSaslMechanismException(AuthenticationException):
    """A SASL mechanism the broker does not have."""

    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class IllegalSaslStateException(AuthenticationException):
    """A request in the wrong phase of a SASL handshake."""

    code = ErrorCode.ILLEGAL_SASL_STATE


class SecurityDisabledException(ApiException):
    """The broker has no authorizer."""

    code = ErrorCode.SECURITY_DISABLED


class UnacceptableCredentialException(ApiException):
    """A credential the cluster does not take."""

    code = ErrorCode.UNACCEPTABLE_CREDENTIAL


class InvalidPrincipalTypeException(ApiException):
    """A kind of principal that is not supported."""

    code = ErrorCode.INVALID_PRINCIPAL_TYPE


class DelegationTokenDisabledException(ApiException):
    """The cluster has no delegation tokens."""

    code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


class DelegationTokenNotFoundException(ApiException):
    """No such delegation token."""

    code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND


class DelegationTokenOwnerMismatchException(ApiException):
    """A delegation token of somebody else."""

    code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


class DelegationTokenAuthorizationException(AuthorizationException):
    """No right to this delegation token."""

    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


class DelegationTokenExpiredException(ApiException):
    """A delegation token that is too old."""

    code = ErrorCode.DELEGATION_TOKEN_EXPIRED


class UnsupportedByAuthenticationException(ApiException):
    """Not allowed over a connection like this one."""

    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
