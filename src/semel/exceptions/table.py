"""Conversion of error codes and internal errors to public exceptions.

Role.   `exception_for` makes one from an error code; `as_exception` converts the errors of `semel.errors` at the
        client's API.
Rules.  * Codes of APIs this client does not use (controllers, share groups, streams) have no own class: they become an
          `ApiException` with the code.
"""

from typing import Final

from semel.errors import (
    ConfigError,
    CorruptBatchError,
    DisconnectedError,
    ErrorCode,
    HandshakeError,
    InvalidRecordError,
    RecordTooLargeError,
    RefusedError,
    RequestTimedOutError,
    SemelError,
    UnreachableError,
    UnsupportedCompressionError,
    UnsupportedVersionError,
    WireError,
)
from semel.exceptions import administration, cluster, groups, own, producers, records, security, tree
from semel.exceptions.cluster import (
    InvalidRequestException,
    NetworkException,
    TimeoutException,
    UnknownServerException,
    UnsupportedVersionException,
)
from semel.exceptions.own import ConfigException
from semel.exceptions.records import (
    CorruptRecordException,
    InvalidRecordException,
    RecordTooLargeException,
    UnsupportedCompressionTypeException,
)
from semel.exceptions.security import SslAuthenticationException
from semel.exceptions.tree import ApiException, KafkaException

EXCEPTIONS: Final[dict[str, type[KafkaException]]] = {
    name: one
    for module in (tree, own, cluster, records, producers, groups, administration, security)
    for name, one in vars(module).items()
    if isinstance(one, type) and issubclass(one, KafkaException)
}
"""Every exception of this package, by name."""
_CLIENT_MADE: Final = (ConfigException,)  # Shares its code with a class for responses.
_BY_CODE: Final = {
    one.code: one for one in EXCEPTIONS.values() if "code" in vars(one) and one not in _CLIENT_MADE
}


def exception_for(code: ErrorCode | int, message: str = "") -> KafkaException:
    """The exception for an error code, with this message."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return UnknownServerException(f"{message or 'an answer'} (unknown error code {int(code)})")
    kind = _BY_CODE.get(known)
    text = message or f"{known.name} ({known.value})"
    return ApiException(text, code=known, retriable=known.retriable) if kind is None else kind(text)


_INNER: Final[tuple[tuple[type[SemelError], type[KafkaException]], ...]] = (
    (ConfigError, ConfigException),
    (RequestTimedOutError, TimeoutException),
    (UnreachableError, NetworkException),
    (DisconnectedError, NetworkException),
    (UnsupportedVersionError, UnsupportedVersionException),
    (CorruptBatchError, CorruptRecordException),
    (UnsupportedCompressionError, UnsupportedCompressionTypeException),
    (RecordTooLargeError, RecordTooLargeException),
    (InvalidRecordError, InvalidRecordException),
    (WireError, InvalidRequestException),
)
"""Internal errors and their public exceptions; the first match counts."""


def as_exception(error: SemelError) -> KafkaException:
    """The public exception for an internal error; raise it `from error`."""
    if isinstance(error, KafkaException):
        return error
    if isinstance(error, HandshakeError):
        return SslAuthenticationException(str(error))
    if isinstance(error, RefusedError):
        return exception_for(error.code, str(error))
    for inner, public in _INNER:
        if isinstance(error, inner):
            return public(str(error))
    return KafkaException(str(error), code=error.code)
