"""Counting the error codes of answers, as Kafka's ErrorsPerSec does: a function per response and version, made on first use.

Role.   `error_counter` gives the function that adds every error code of an answer, NONE included, to a table of counts.
Flow.   `dispatch` makes one per route and calls it for every answer that is a message.
Rules.  * It costs per answer and per partition in it, never per record: the loops are written out from the message's table.
        * It counts the codes that Kafka counts (`errorCounts` of its responses), and also those of whole answers to Metadata and
          DescribeUserScramCredentials. A code that a version does not carry counts nothing, not NONE.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from semel.core.wire.message import Response
from semel.core.wire.schema import Struct, fields_of

ErrorCounter: TypeAlias = Callable[[Response, dict[int, int]], None]

_CODES: Final = frozenset({"error_code", "partition_error_code"})
"""The second is AddPartitionsToTxn's. Why a topic's settings are not shown is no error, so CreateTopics' other code is not here."""


def error_counter(cls: type[Response], version: int) -> ErrorCounter | None:
    """The function for answers of this version; None where they have no error code at all."""
    body = _lines(cls, version, "answer", 1)
    if not body:
        return None
    source = "\n".join(["def count(answer, counts):", "    good = 0", *body, "    counts[0] += good"])
    names: dict[str, Any] = {}
    exec(compile(source, f"<errors of {cls.__name__} {version}>", "exec"), names)  # noqa: S102  # source made from our tables only
    counter: ErrorCounter = names["count"]
    return counter


def _lines(cls: type[Struct], version: int, holder: str, depth: int) -> list[str]:
    """The statements that count what is in the struct named `holder`."""
    indent = "    " * depth
    lines: list[str] = []
    for field in fields_of(cls):
        if version not in field.versions:
            continue
        place = f"{holder}.{field.name}"
        if field.name in _CODES:
            # Nearly every code is NONE: those are added up first, which costs a third of an entry's addition.
            lines += [
                f"{indent}if {place}:",
                f"{indent}    counts[{place}] += 1",
                f"{indent}else:",
                f"{indent}    good += 1",
            ]
        elif field.struct is not None:
            one = f"one{depth}"
            inner = _lines(field.struct, version, one, depth + 1)
            if inner:
                lines.append(f"{indent}for {one} in {place}{'' if field.is_array else ','} or ():")
                lines += inner
    return lines
