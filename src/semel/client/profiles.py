"""Settings that belong together, by name: `Producer({**profile("throughput"), "bootstrap.servers": …})`.

Role.   The settings a guide recommends, by name. A profile is a plain dict: a key given beside it wins by the
        usual rules of dicts.
"""

from collections.abc import Mapping
from typing import Final

from semel.exceptions import ConfigException

PROFILES: Final[Mapping[str, Mapping[str, str | int]]] = {
    "throughput": {
        "batch.size": 32_768,
        "linger.ms": 10,
        "compression.type": "lz4",
        "buffer.memory": 67_108_864,
    }
}


def profile(name: str) -> dict[str, str | int]:
    """A producer's settings for a purpose: `throughput`."""
    if name not in PROFILES:
        raise ConfigException(f"there is no profile {name!r}; there is {', '.join(PROFILES)}")
    return dict(PROFILES[name])
