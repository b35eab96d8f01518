"""Files of settings in the manner of Kafka's server.properties.

Role.   `read_properties` for `semel broker --config FILE`.
Rules.  `key=value` or `key: value` per line, `#` and `!` begin comments, a backslash at the end continues a line. Any
        other line is a mistake, reported with its number.
"""

import re
from pathlib import Path
from typing import Final

from semel.errors import ConfigError

_PAIR: Final = re.compile(r"([^=:\s]+)\s*[=:]\s*(.*)", re.DOTALL)


def read_properties(path: Path) -> dict[str, str]:
    """The settings in a file; raises `ConfigError` for a file or line that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the config file {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the config file {path} is not text: byte {error.start} is not UTF-8") from error
    settings: dict[str, str] = {}
    started, number = "", 1
    for at, line in enumerate(text.splitlines(), start=1):
        piece = line.strip()
        if not started:
            number = at
            if not piece or piece[0] in "#!":
                continue
        if piece.endswith("\\"):
            started += piece[:-1]
            continue
        whole, started = started + piece, ""
        found = _PAIR.fullmatch(whole)
        if found is None:
            raise ConfigError(f"{path}, line {number}: {whole!r} is not key=value")
        key, value = found.groups()
        if settings.get(key, value) != value:
            raise ConfigError(
                f"{path}, line {number}: {key} is set twice, to {settings[key]!r} and {value!r}"
            )
        settings[key] = value
    if started:
        raise ConfigError(f"{path}, line {number}: the last line ends with a backslash, and nothing follows")
    return settings
