"""The classes the others derive from: what may be tried again, what must be aborted, what ends a client.

Role.   `except RetriableException` catches whatever may succeed in a moment, and so on; parents are Java's.
Rules.  * Everything derives from `KafkaException`, and that from `SemelError`.
        * What an error means for a producer can depend on where it happened; whoever raises says so with keywords.
"""

# ruff: noqa: N818 - the names are Java's.

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from semel.errors import ErrorCode, SemelError


class KafkaException(SemelError):
    """Everything the client raises on purpose."""

    retriable: bool = False
    """The same call may succeed in a moment, without anything else being changed."""
    abortable: bool = False
    """A transaction this happened in must be aborted; then the producer goes on."""
    fatal: bool = False
    """This client cannot go on: close it. A new one may."""
    errors: "Mapping[Any, KafkaException]" = MappingProxyType({})
    """Where one call named many things: everything that was refused, this among it, by what it was about."""

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
    """A broker's answer with an error code, or what stands for one."""


class RetriableException(ApiException):
    """The same request may succeed in a moment."""

    retriable = True


class RefreshRetriableException(RetriableException):
    """It may succeed once it is known again who leads or coordinates."""


class InvalidMetadataException(RefreshRetriableException):
    """What this client knew about the cluster is out of date."""


class ApplicationRecoverableException(ApiException):
    """This client is done for; a new one in its place may go on."""

    fatal = True


class InvalidConfigurationException(ApiException):
    """A setting, or what the request rests on, cannot be."""

    code = ErrorCode.INVALID_CONFIG


class AuthenticationException(InvalidConfigurationException):
    """The broker does not believe who this client is."""

    fatal = True


class AuthorizationException(InvalidConfigurationException):
    """Who this client is may not do that."""


class InvalidOffsetException(ApiException):
    """A position that is not in the log."""
