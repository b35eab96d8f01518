"""A fetch session remembers what was asked and told, and forgets nothing it still needs.

Method: every rule of the module's header as a story of requests, straight at `FetchSessions.plan`; no broker around it.
"""

import random
import uuid

import pytest

from semel.broker.fetch_sessions import (
    FetchSession,
    FetchSessions,
    FullFetch,
    IncrementalFetch,
    PartitionKey,
    Plan,
)
from semel.core.wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from semel.core.wire.primitives import ZERO_UUID
from semel.errors import ErrorCode

BY_NAME, BY_ID = 12, 13
IDLE_MS = 120_000
EPOCH_MAX = 2**31 - 1
TOPIC_ID = uuid.UUID(int=7).bytes


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, random.Random(1))


def request(
    session_id: int = 0,
    epoch: int = 0,
    asked: dict[int, int] | None = None,
    *,
    forgotten: list[int] | None = None,
    topic: str = "orders",
    topic_id: bytes = ZERO_UUID,
) -> FetchRequest:
    """A fetch of one topic's partitions, each from an offset."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=100 + index)
        for index, offset in (asked or {}).items()
    ]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)] if partitions else [],
        forgotten_topics_data=(
            [ForgottenTopic(topic=topic, topic_id=topic_id, partitions=forgotten)] if forgotten else []
        ),
    )


def opened(
    cache: FetchSessions, asked: dict[int, int], now_ms: int = 0, version: int = BY_NAME
) -> FetchSession:
    plan = cache.plan(request(asked=asked), version, now_ms)
    assert isinstance(plan, FullFetch)
    assert plan.session is not None
    return plan.session


def offsets(plan: Plan) -> dict[int, int]:
    assert isinstance(plan, IncrementalFetch)
    return {key.partition: fetched.fetch_offset for key, fetched in plan.session.partitions.items()}


def test_a_full_fetch_that_asks_for_a_session_gets_one() -> None:
    cache = sessions()
    plan = cache.plan(request(asked={0: 5, 1: 6}), BY_NAME, 0)
    assert isinstance(plan, FullFetch)
    assert plan.session is not None
    assert 0 < plan.session.session_id <= EPOCH_MAX
    assert plan.session.epoch == 1, "the next request of the session carries epoch 1"
    assert [(key.partition, one.fetch_offset, one.max_bytes) for key, one in plan.partitions.items()] == [
        (0, 5, 100),
        (1, 6, 101),
    ]
    assert len(cache) == 1


def test_a_full_fetch_without_a_session_leaves_nothing_behind() -> None:
    cache = sessions()
    plan = cache.plan(request(epoch=-1, asked={0: 5}), BY_NAME, 0)
    assert isinstance(plan, FullFetch)
    assert plan.session is None
    assert len(cache) == 0


def test_a_session_without_partitions_is_not_worth_keeping() -> None:
    cache = sessions()
    plan = cache.plan(request(), BY_NAME, 0)
    assert plan == FullFetch({}, None)
    assert len(cache) == 0


def test_the_next_fetch_names_only_what_changed() -> None:
    cache = sessions()
    session = opened(cache, {0: 5, 1: 6})
    assert offsets(cache.plan(request(session.session_id, 1), BY_NAME, 1)) == {0: 5, 1: 6}
    assert offsets(cache.plan(request(session.session_id, 2, {1: 9}), BY_NAME, 2)) == {0: 5, 1: 9}
    assert offsets(cache.plan(request(session.session_id, 3, {2: 0}), BY_NAME, 3)) == {0: 5, 1: 9, 2: 0}
    assert offsets(cache.plan(request(session.session_id, 4, forgotten=[0, 7]), BY_NAME, 4)) == {1: 9, 2: 0}


def test_an_unknown_session_is_error_70() -> None:
    cache = sessions()
    assert cache.plan(request(123, 1), BY_NAME, 0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND) == 70


@pytest.mark.parametrize("epoch", [2, 3, EPOCH_MAX, -2])
def test_a_wrong_epoch_is_error_71_and_changes_nothing(epoch: int) -> None:
    cache = sessions()
    session = opened(cache, {0: 5})
    assert (
        cache.plan(request(session.session_id, epoch, {0: 99}), BY_NAME, 0)
        is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    )
    assert int(ErrorCode.INVALID_FETCH_SESSION_EPOCH) == 71
    assert offsets(cache.plan(request(session.session_id, 1), BY_NAME, 0)) == {0: 5}


def test_a_repeated_request_is_told_by_its_epoch() -> None:
    """A client that lost the answer must not be served as if it had seen it."""
    cache = sessions()
    session = opened(cache, {0: 5})
    cache.plan(request(session.session_id, 1, {0: 6}), BY_NAME, 0)
    assert (
        cache.plan(request(session.session_id, 1, {0: 6}), BY_NAME, 0)
        is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    )


def test_after_the_last_epoch_comes_1() -> None:
    cache = sessions()
    session = opened(cache, {0: 5})
    session.epoch = EPOCH_MAX
    assert isinstance(cache.plan(request(session.session_id, EPOCH_MAX), BY_NAME, 0), IncrementalFetch)
    assert session.epoch == 1, "0 would ask for a new session"
    assert isinstance(cache.plan(request(session.session_id, 1), BY_NAME, 0), IncrementalFetch)


@pytest.mark.parametrize("epoch", [0, -1])
def test_epoch_0_or_minus_1_ends_the_session(epoch: int) -> None:
    cache = sessions()
    session = opened(cache, {0: 5})
    plan = cache.plan(request(session.session_id, epoch, {1: 1}), BY_NAME, 0)
    assert isinstance(plan, FullFetch)
    assert [key.partition for key in plan.partitions] == [1], "a full fetch of what it names"
    assert cache.plan(request(session.session_id, 1), BY_NAME, 0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cache) == (1 if epoch == 0 else 0), "epoch 0 asks for another one"


def test_names_and_ids_do_not_mix_in_a_session() -> None:
    cache = sessions()
    by_name = opened(cache, {0: 5})
    by_id = opened(cache, {0: 5}, version=BY_ID)
    assert cache.plan(request(by_name.session_id, 1), BY_ID, 0) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert cache.plan(request(by_id.session_id, 1), BY_NAME, 0) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert int(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR) == 106
    assert isinstance(cache.plan(request(by_name.session_id, 1), BY_NAME, 0), IncrementalFetch)
    assert isinstance(cache.plan(request(by_id.session_id, 1), BY_ID, 0), IncrementalFetch)


def test_topics_of_different_ids_are_different_topics() -> None:
    cache = sessions()
    session = opened(cache, {0: 5}, version=BY_ID)
    again = request(session.session_id, 1, {0: 0}, topic_id=TOPIC_ID)
    plan = cache.plan(again, BY_ID, 0)
    assert isinstance(plan, IncrementalFetch)
    assert list(plan.session.partitions) == [
        PartitionKey("orders", ZERO_UUID, 0),
        PartitionKey("orders", TOPIC_ID, 0),
    ]


def test_a_full_cache_gives_no_session_while_all_are_in_use() -> None:
    cache = sessions(slots=2)
    first, second = opened(cache, {0: 0}, now_ms=0), opened(cache, {0: 0}, now_ms=0)
    plan = cache.plan(request(asked={0: 0}), BY_NAME, IDLE_MS - 1)
    assert isinstance(plan, FullFetch)
    assert plan.session is None, "it costs the client bytes, nothing else"
    assert plan.partitions
    for session in (first, second):
        assert isinstance(cache.plan(request(session.session_id, 1), BY_NAME, IDLE_MS), IncrementalFetch)


def test_the_session_unused_for_longest_makes_room() -> None:
    cache = sessions(slots=2)
    first, second = opened(cache, {0: 0}, now_ms=0), opened(cache, {0: 0}, now_ms=10)
    cache.plan(request(first.session_id, 1), BY_NAME, 20)
    third = opened(cache, {0: 0}, now_ms=10 + IDLE_MS)
    assert len(cache) == 2
    assert (
        cache.plan(request(second.session_id, 1), BY_NAME, 10 + IDLE_MS)
        is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    for session, epoch in ((first, 2), (third, 1)):
        assert isinstance(cache.plan(request(session.session_id, epoch), BY_NAME, 0), IncrementalFetch)


def test_without_slots_there_are_no_sessions() -> None:
    cache = sessions(slots=0)
    plan = cache.plan(request(asked={0: 0}), BY_NAME, 10**9)
    assert isinstance(plan, FullFetch)
    assert plan.session is None


def test_ids_are_never_0_and_never_shared() -> None:
    cache = sessions(slots=1000)
    ids = {opened(cache, {0: 0}).session_id for _ in range(1000)}
    assert len(ids) == 1000
    assert 0 not in ids


# What is news


def told(
    session: FetchSession, *, high_watermark: int = 10, log_start_offset: int = 0, error_code: int = 0
) -> bool:
    """Whether an answer without records would be told."""
    data = PartitionData(
        high_watermark=high_watermark, log_start_offset=log_start_offset, error_code=error_code
    )
    return next(iter(session.partitions.values())).is_news(data, has_records=False)


def test_only_what_moved_is_told() -> None:
    session = opened(sessions(), {0: 5})
    assert told(session), "the first answer is news"
    assert not told(session)
    assert told(session, high_watermark=11)
    assert not told(session, high_watermark=11)
    assert told(session, high_watermark=11, log_start_offset=3)
    assert not told(session, high_watermark=11, log_start_offset=3)


def test_records_and_errors_are_always_told() -> None:
    session = opened(sessions(), {0: 5})
    fetched = next(iter(session.partitions.values()))
    told(session)
    assert fetched.is_news(PartitionData(high_watermark=10, log_start_offset=0), has_records=True)
    diverging = PartitionData(high_watermark=10, log_start_offset=0, diverging_epoch=EpochEndOffset())
    assert fetched.is_news(diverging, has_records=False)
    assert told(session, error_code=3)
    assert told(session, error_code=3), "an error is repeated until it is over"
    assert told(session), "and then the client must hear that it is"


def test_a_partition_asked_for_again_keeps_what_was_told() -> None:
    """A client that only moved its offset needs no answer that says nothing else."""
    cache = sessions()
    session = opened(cache, {0: 5})
    told(session)
    cache.plan(request(session.session_id, 1, {0: 6}), BY_NAME, 0)
    assert not told(session)


def test_what_gave_records_waits_for_the_others() -> None:
    session = opened(sessions(), {0: 0, 1: 0, 2: 0})
    session.to_the_end(PartitionKey("orders", ZERO_UUID, 0))
    assert [key.partition for key in session.partitions] == [1, 2, 0]
