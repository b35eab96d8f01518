"""Record headers as text in a column: JSON, with the bytes of a value in Latin-1 letters.

Rules.  * Order, repeated names and null values are kept: headers read back equal those written.
"""

import json
from collections.abc import Iterable

from semel.errors import ConfigError

Header = tuple[str, bytes | None]


def headers_to_text(headers: object) -> str:
    if headers is None:
        return "[]"
    if not isinstance(headers, Iterable):
        raise ConfigError(
            f"headers of type {type(headers).__name__}: a sequence of (name, bytes) is expected"
        )
    pairs: list[tuple[str, str | None]] = []
    for header in headers:
        name, value = header
        if not isinstance(name, str) or not isinstance(value, bytes | None):
            raise ConfigError(f"a header {header!r}: (text, bytes or None) is expected")
        pairs.append((name, None if value is None else value.decode("latin-1")))
    return json.dumps(pairs)


def headers_from_text(text: str) -> tuple[Header, ...]:
    return tuple(
        (name, None if value is None else value.encode("latin-1")) for name, value in json.loads(text)
    )
