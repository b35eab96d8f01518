"""DeleteTopics (20), versions 1-6: topics go, and everything in them.

    3+   a broker that may not delete says TOPIC_DELETION_DISABLED; before it is INVALID_REQUEST
    5+   the reason for a refusal is part of the answer
    6+   topics may be named by their ids

A topic that is named twice, as name, as id, or once each way, is refused and stays; the answer has it once. Topics go some
at a time, each time in one change of the metadata, so that other clients are served between.
"""

from collections import Counter
from typing import Final

from semel.broker import topics
from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.core.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from semel.core.wire.primitives import ZERO_UUID
from semel.errors import ErrorCode, LogError, Refuse

_BY_ID_SINCE: Final = 6
_DISABLED_SINCE: Final = 3
_UNKNOWN_NAME: Final = Refuse(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)
_UNKNOWN_ID: Final = Refuse(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
_TWICE: Final = Refuse(
    ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
)


async def handle(
    broker: Administration, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    """Delete what is there and named once."""
    asked = request.topics
    if context.version < _BY_ID_SINCE:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    if not broker.config.delete_topic_enable:
        return DeleteTopicsResponse(responses=_disabled(asked, context.version))
    results: list[DeletableTopicResult] = []
    doomed: dict[str, DeletableTopicResult] = {}
    for name, topic_id in _asked_once(asked, results):
        _find(broker, name, topic_id, doomed, results)
    names = list(doomed)
    for first in range(0, len(names), topics.AT_ONCE):
        # In a pause another client may have deleted some, and created them again.
        some = [name for name in names[first : first + topics.AT_ONCE] if _is_there(broker, doomed[name])]
        if not some:
            continue
        try:
            failed = await topics.delete_all(broker, some, timeout_ms=request.timeout_ms)
        except LogError as error:
            failed = dict.fromkeys(some, Refuse(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        for name, refused in failed.items():
            doomed[name].error_code, doomed[name].error_message = refused.code, refused.reason
    return DeleteTopicsResponse(responses=[*results, *doomed.values()])


def _is_there(broker: Administration, doomed: DeletableTopicResult) -> bool:
    row = broker.store.image.topic_by_id(doomed.topic_id)
    return row is not None and row.name == doomed.name


def _disabled(asked: list[DeleteTopicState], version: int) -> list[DeletableTopicResult]:
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= _DISABLED_SINCE else ErrorCode.INVALID_REQUEST
    refused = Refuse(code, "Topic deletion is disabled.")
    return [_refused(topic.name, topic.topic_id, refused) for topic in asked]


def _asked_once(
    asked: list[DeleteTopicState], results: list[DeletableTopicResult]
) -> list[tuple[str | None, bytes]]:
    """The topics named properly and once, ids first; every other one is answered here."""
    names: Counter[str] = Counter()
    ids: Counter[bytes] = Counter()
    for topic in asked:
        if topic.name is None and topic.topic_id == ZERO_UUID:
            refused = Refuse(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
            results.append(_refused(None, ZERO_UUID, refused))
        elif topic.name is None:
            ids[topic.topic_id] += 1
        elif topic.topic_id == ZERO_UUID:
            names[topic.name] += 1
        else:
            refused = Refuse(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
            results.append(_refused(topic.name, topic.topic_id, refused))
    twice = Refuse(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results += [_refused(name, ZERO_UUID, twice) for name, count in names.items() if count > 1]
    twice = Refuse(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
    results += [_refused(None, topic_id, twice) for topic_id, count in ids.items() if count > 1]
    once_by_id: list[tuple[str | None, bytes]] = [
        (None, topic_id) for topic_id, count in ids.items() if count == 1
    ]
    return once_by_id + [(name, ZERO_UUID) for name, count in names.items() if count == 1]


def _find(
    broker: Administration,
    name: str | None,
    topic_id: bytes,
    doomed: dict[str, DeletableTopicResult],
    results: list[DeletableTopicResult],
) -> None:
    image = broker.store.image
    if name is None:
        row = image.topic_by_id(topic_id)
        if row is None:
            results.append(_refused(None, topic_id, _UNKNOWN_ID))
            return
    else:
        row = image.topic(name)
        if row is None:
            results.append(_refused(name, ZERO_UUID, _UNKNOWN_NAME))
            return
    if doomed.pop(row.name, None) is not None:
        results.append(_refused(row.name, row.topic_id.bytes, _TWICE))
        return
    doomed[row.name] = DeletableTopicResult(name=row.name, topic_id=row.topic_id.bytes)


def _refused(name: str | None, topic_id: bytes, refused: Refuse) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=refused.code, error_message=refused.reason
    )
