"""Transactions, idempotence or neither: the decision tree of docs/guide.md, and the settings each answer leads to."""

from collections.abc import Mapping
from typing import Final, NamedTuple

TOGETHER: Final = (
    "Must something happen in several partitions together, or together with the position you have read to?"
)
HARM: Final = "Would it do harm if a record was stored twice?"


class Advice(NamedTuple):
    """A choice, why, and a producer's settings for it."""

    choice: str
    why: str
    settings: Mapping[str, str]


TRANSACTIONS: Final = Advice(
    "transactions",
    "Use transactions: all of it is seen, or none. Give every instance an id of its own, and readers read_committed.",
    {"transactional.id": "NAME-OF-THIS-INSTANCE", "enable.idempotence": "true", "acks": "all"},
)
_IDEMPOTENCE: Final = Advice(
    "idempotence",
    "Use idempotence: a retry is stored once. It is the default; nothing else is needed.",
    {"enable.idempotence": "true", "acks": "all"},
)
_NEITHER: Final = Advice(
    "neither",
    "Neither is needed: the least waiting, and now and then a record twice.",
    {"enable.idempotence": "false", "acks": "1"},
)


def without_transactions(*, repeats_harm: bool) -> Advice:
    """Where nothing must happen together."""
    return _IDEMPOTENCE if repeats_harm else _NEITHER
