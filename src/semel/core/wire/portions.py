"""Splitting a request of many rows into portions, and joining their responses.

Role.   For APIs that answer each row independently: the response to a request equals the joined responses to its
        portions.
Flow.   `broker.dispatch` cuts a request that has too many rows for one turn of the loop, passes each portion to the
        handler, and joins the responses.
Rules.  * A portion is a request of the same API with some of the rows, in their order, and otherwise equal.
        * An array that is cut in the middle of an element (a topic with many partitions) continues in the next portion,
          and `joint` counts on how many levels. Joining merges both parts into one element.
        * APIs that decide about all rows together have no portions: partitions joining a transaction, settings.
        * Up to a thousand offsets are committed in one batch, as in Kafka; more are committed in several.
"""

import copy
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, NamedTuple

from semel.core.wire.message import Request, Response
from semel.core.wire.registry import ApiKey


class Rows(NamedTuple):
    """The place of an API's rows: the arrays from the outermost to the innermost, in the request and in its
    response."""

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    identity: Callable[[Any], Hashable] | None = None
    """The key by which repeated rows are answered once."""
    at_once: int = 250
    """Rows of one portion: a few milliseconds of work."""


class Portion(NamedTuple):
    """A part of a request."""

    request: Request[Any]
    joint: int
    """Number of levels on which it continues the previous portion: 0 for the first portion, 1 for the request, 2 if its
    first element continues too, ……"""


def all_of_a_group(group: Any) -> Hashable:
    """A group of OffsetFetch: the same one asked for all it has is no other row; partitions by name are rows of their own."""
    return group.group_id if group.topics is None else id(group)


def _itself(row: Hashable) -> Hashable:
    return row


_NAMED: Final = ("topics", "partitions")
_ROWS: Final[dict[ApiKey, Rows]] = {
    ApiKey.METADATA: Rows(("topics",), ("topics",), lambda topic: (topic.topic_id, topic.name)),
    ApiKey.LIST_OFFSETS: Rows(_NAMED, _NAMED),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Rows(_NAMED, _NAMED),
    ApiKey.DELETE_RECORDS: Rows(_NAMED, _NAMED),
    ApiKey.DESCRIBE_PRODUCERS: Rows(("topics", "partition_indexes"), _NAMED),
    ApiKey.DESCRIBE_GROUPS: Rows(("groups",), ("groups",), _itself),
    ApiKey.DELETE_GROUPS: Rows(("groups_names",), ("results",)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Rows(("group_ids",), ("groups",), _itself),
    ApiKey.DESCRIBE_TRANSACTIONS: Rows(("transactional_ids",), ("transaction_states",), _itself),
    ApiKey.FIND_COORDINATOR: Rows(("coordinator_keys",), ("coordinators",)),
    ApiKey.DESCRIBE_CONFIGS: Rows(("resources",), ("results",), at_once=50),
    ApiKey.OFFSET_COMMIT: Rows(_NAMED, _NAMED, at_once=1000),
    ApiKey.TXN_OFFSET_COMMIT: Rows(_NAMED, _NAMED, at_once=1000),
}
_OFFSET_FETCH: Final = Rows(("topics", "partition_indexes"), _NAMED)
_OFFSET_FETCH_GROUPS: Final = Rows(
    ("groups", "topics", "partition_indexes"), ("groups", *_NAMED), all_of_a_group
)
_OFFSET_FETCH_GROUPS_SINCE: Final = 8


def rows_of(key: ApiKey, version: int) -> Rows | None:
    """The place of an API's rows; None if its requests are not split."""
    if key is ApiKey.OFFSET_FETCH:
        return _OFFSET_FETCH_GROUPS if version >= _OFFSET_FETCH_GROUPS_SINCE else _OFFSET_FETCH
    return _ROWS.get(key)


def portions(request: Request[Any], rows: Rows) -> Iterator[Portion]:
    """The request in parts of at most `rows.at_once` rows; an element without rows of its own counts as one."""
    if rows.identity is not None:
        name = rows.asked[0]
        asked = {rows.identity(row): row for row in getattr(request, name) or ()}
        if asked:
            request = _with(request, name, list(asked.values()))
    for part, joint, _count in _cut(request, rows.asked, rows.at_once):
        yield Portion(part, joint)


def _cut(node: Any, path: tuple[str, ...], rows_max: int) -> Iterator[tuple[Any, int, int]]:
    """Parts of a node, each with its joint to the previous part and its number of rows."""
    name, *inner = path
    children = getattr(node, name)
    if not children:
        yield node, 0, 1
        return
    if not inner and len(children) <= rows_max:
        yield node, 0, len(children)
        return
    if not inner:
        for first in range(0, len(children), rows_max):
            some = children[first : first + rows_max]
            yield _with(node, name, some), min(first, 1), len(some)
        return
    held: list[Any] = []
    held_rows = held_joint = parts = 0
    for child in children:
        for piece, joint, count in _cut(child, tuple(inner), rows_max):
            if held and (held_rows + count > rows_max or joint):
                yield _with(node, name, held), held_joint + (1 if parts else 0), held_rows
                parts += 1
                held, held_rows = [], 0
                held_joint = joint
            held.append(piece)
            held_rows += count
    yield _with(node, name, held), held_joint + (1 if parts else 0), held_rows


def _with(node: Any, name: str, children: list[Any]) -> Any:
    part = copy.copy(node)
    setattr(part, name, children)
    return part


def join(whole: Response, part: Response, rows: Rows, joint: int) -> None:
    """Append the response to the next portion to the responses so far."""
    _join(whole, part, rows.answered, joint)


def _join(whole: Any, part: Any, path: tuple[str, ...], joint: int) -> None:
    name, *inner = path
    ours, theirs = getattr(whole, name), getattr(part, name)
    if joint > 1 and inner and ours and theirs:
        _join(ours[-1], theirs[0], tuple(inner), joint - 1)
        theirs = theirs[1:]
    ours.extend(theirs)
