"""The base classes: retriable, abortable and fatal errors.

Role.   `except RetriableException` catches all errors that may succeed on a retry, and so on. The hierarchy is Java's.
Rules.  * Every class derives from `KafkaException`, and that from `SemelError`.
        * The effect of an error on a producer may depend on its context; the raising code passes it by keywords.
"""

# ruff: noqa: N818 - the names are Java's.

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from semel.errors import ErrorCode, SemelError


class KafkaException(SemelError):
    """Base of all exceptions of the client."""

    retriable: bool = False
    """The same call may succeed later, without any other change."""
    abortable: bool = False
    """The current transaction must be aborted; then the producer can continue."""
    fatal: bool = False
    """This client must be closed; a new one may continue."""
    errors: "Mapping[Any, KafkaException]" = MappingProxyType({})
    """For a call with several items: all refused items and their exceptions, this one included."""

    def __init__(
        self,
        message: str = "",
        *,
        code: ErrorCode | None = None,
        retriable: bool | None = None,
        abortable: bool | None = None,
        fatal: bool | None = None,
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        if retriable is not None:
            self.retriable = retriable
        if abortable is not None:
            self.abortable = abortable
        if fatal is not None:
            self.fatal = fatal


class ApiException(KafkaException):
    """An error code of a broker's response, or an equivalent."""


class RetriableException(ApiException):
    """The same request may succeed later."""

    retriable = True


class RefreshRetriableException(RetriableException):
    """The request may succeed after a refresh of leader or coordinator."""


class InvalidMetadataException(RefreshRetriableException):
    """The client's metadata is out of date."""


class ApplicationRecoverableException(ApiException):
    """This client must be closed; a new one may continue."""

    fatal = True


class InvalidConfigurationException(ApiException):
    """A setting, or a precondition of the request, is invalid."""

    code = ErrorCode.INVALID_CONFIG


class AuthenticationException(InvalidConfigurationException):
    """The broker rejects this client's credentials."""

    fatal = True


class AuthorizationException(InvalidConfigurationException):
    """The client's principal lacks the permission."""


class InvalidOffsetException(ApiException):
    """The position is not in the log."""
