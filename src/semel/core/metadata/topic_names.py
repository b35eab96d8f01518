"""Which names a topic may have, as Kafka decides.

Role.   Checked when a topic is created, also by itself. Pure.
"""

import re
from typing import Final

NAME_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
METADATA_TOPIC: Final = "__semel_metadata"
RESERVED: Final = frozenset({METADATA_TOPIC, "__cluster_metadata"})
"""The topics of a cluster's own metadata: no client may make a topic of that name."""


def flaw(name: str) -> str | None:
    """Why this can be no topic's name; None if it can."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' or '..' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def folded(name: str) -> str:
    """The name as metrics show it, where '.' and '_' are one: topics whose names fold to the same may not both exist."""
    return name.replace(".", "_")
