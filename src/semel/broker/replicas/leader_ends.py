"""Where a leader's logs end and begin, for partitions whose fetches are out of range.

Role.   Asks the leader by ListOffsets, and says how each partition goes on: cut, begun anew, or asked again after a while.
Flow.   `fetcher` hands over the questions that were out of range, after all other answers of the same fetch.
Rules.  * The leader's ends are asked for, and its beginnings only where the end does not decide.
        * An answer counts for a partition that is still followed as it was asked, with the same log end.
        * Whoever has no answer waits a while; a fence says that the controller has news, which is waited for.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from semel.broker.replicas import fetch_messages
from semel.broker.replicas.followed_partition import Asked
from semel.core.replication.following import Step
from semel.errors import (
    DisconnectedError,
    ErrorCode,
    RefusedError,
    UnsupportedVersionError,
    WireError,
)
from semel.net.link import Link
from semel.types import TopicPartition

_logger = logging.getLogger(__name__)
NO_ANSWER: Final = (DisconnectedError, RefusedError, UnsupportedVersionError, WireError)


class Question(NamedTuple):
    """How the leader is asked."""

    link: Link | None
    node_id: int
    leader_id: int
    timeout_ms: int


async def learn(
    question: Question, asked: Mapping[TopicPartition, Asked], is_current: Callable[[Asked], bool]
) -> dict[TopicPartition, Step]:
    """The steps that follow; whoever is not named has failed or waits."""
    latest = await _offsets(question, asked, fetch_messages.LATEST, is_current)
    later = {
        where: one
        for where, one in asked.items()
        if where in latest and latest[where] >= one.ask.fetch_offset
    }
    earliest = await _offsets(question, later, fetch_messages.EARLIEST, is_current) if later else {}
    steps: dict[TopicPartition, Step] = {}
    for where, end_offset in latest.items():
        one = asked[where]
        partition = one.partition
        if not is_current(one) or partition.log.log_end_offset != one.ask.fetch_offset:
            continue
        if where in later and where not in earliest:
            continue
        steps[where] = partition.following.ends(
            leader_start_offset=earliest.get(where, 0),
            leader_end_offset=end_offset,
            log_end_offset=partition.log.log_end_offset,
        )
        if steps[where] is None:
            partition.wait()  # In range again: not at once, or the two might never agree.
        _logger.warning(
            "%s: offset %d is out of range at broker %d, whose log goes from %s to %d",
            where,
            one.ask.fetch_offset,
            question.leader_id,
            earliest.get(where, "somewhere below"),
            end_offset,
        )
    return steps


async def _offsets(
    question: Question,
    asked: Mapping[TopicPartition, Asked],
    timestamp: int,
    is_current: Callable[[Asked], bool],
) -> dict[TopicPartition, int]:
    """The leader's answers; who has none waits, or has failed."""
    link = question.link
    epochs = {where: one.ask.leader_epoch for where, one in asked.items()}
    request = fetch_messages.offsets_request(epochs, timestamp, node_id=question.node_id)
    found: dict[TopicPartition, int] = {}
    codes: dict[TopicPartition, ErrorCode] = {}
    if link is not None and link.is_open:
        try:
            response = await link.send(request, timeout_ms=question.timeout_ms)
        except NO_ANSWER as error:
            _logger.info("broker %d did not say where its logs end: %s", question.leader_id, error)
        else:
            for where, code, offset in fetch_messages.offsets_told(response):
                codes[where] = code
                if not code:
                    found[where] = offset
    for where, one in asked.items():
        if where in found or not is_current(one):
            continue
        if codes.get(where) is ErrorCode.FENCED_LEADER_EPOCH:
            one.partition.following.fail()
        else:
            one.partition.wait()
    return {where: offset for where, offset in found.items() if where in asked}
