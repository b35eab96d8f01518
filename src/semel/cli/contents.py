"""Keys and values between their bytes and what a person types or reads.

Role.   The one seam between stored bytes and printed values: `consume` and `produce` know contents only through `Contents`. `AS_STORED`
        leaves bytes as they are.
Rules.  * A null key or value (a tombstone) never gets here.
        * `shown` gives bytes where there is nothing better to show; anything else is a JSON value. `stored` takes either.
"""

import base64
import json
from typing import Any, Final, Protocol

from semel.cli.output import Json


class Contents(Protocol):
    """What bytes of a topic's keys and values mean."""

    def shown(self, topic: str, is_key: bool, data: bytes) -> Json | bytes:
        """The bytes as a value to print."""

    def stored(self, topic: str, is_key: bool, value: Json | bytes) -> bytes:
        """The bytes to store for a value that was typed or read from a file."""


class _AsStored:
    """Bytes as they are; JSON's values as their text."""

    def shown(self, _topic: str, _is_key: bool, data: bytes) -> Json | bytes:
        return data

    def stored(self, _topic: str, _is_key: bool, value: Json | bytes) -> bytes:
        return as_bytes(value)


AS_STORED: Final[Contents] = _AsStored()


def as_bytes(value: Json | bytes) -> bytes:
    """Text as UTF-8; what is neither text nor bytes as compact JSON."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def fields(name: str, value: Json | bytes) -> dict[str, Any]:
    """The field of a JSON object: as text; as base64, under another name, where the bytes are none."""
    if not isinstance(value, bytes):
        return {name: value}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
