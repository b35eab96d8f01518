"""Both ends of a fetch session agree about what is fetched, whatever is lost between them.

Method: the client's end against the broker's own, with random wishes, lost requests and answers, forgotten sessions: after every
request that got through, what the broker would read is exactly what the client wants.
"""

import random

from hypothesis import given
from hypothesis import strategies as st

from semel.broker.fetch_sessions import FetchSessions, IncrementalFetch
from semel.core.client.fetch_session import FetchPlan, FetchSession, Wanted
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from semel.errors import ErrorCode
from semel.types import TopicPartition

IDS = {"a": b"a" * 16, "b": b"b" * 16}


def request_of(plan: FetchPlan[Wanted]) -> FetchRequest:
    request = FetchRequest(session_id=plan.session_id, session_epoch=plan.session_epoch)
    for where, wanted in plan.say.items():
        named = wanted.topic_id if plan.by_id else bytes(16)
        request.topics.append(
            FetchTopic(
                topic="" if plan.by_id else where.topic,
                topic_id=named,
                partitions=[FetchPartition(partition=where.partition, fetch_offset=wanted.fetch_offset)],
            )
        )
    for where, topic_id in plan.forget.items():
        request.forgotten_topics_data.append(
            ForgottenTopic(
                topic="" if plan.by_id else where.topic,
                topic_id=topic_id if plan.by_id else bytes(16),
                partitions=[where.partition],
            )
        )
    return request


steps = st.lists(
    st.tuples(
        st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), st.integers(0, 5), min_size=1),
        st.sampled_from(["fine", "fine", "fine", "request lost", "answer lost", "forgotten"]),
        st.booleans(),
    ),
    max_size=25,
)


@given(steps)
def test_the_broker_reads_what_the_client_wants(
    story: list[tuple[dict[tuple[str, int], int], str, bool]],
) -> None:
    client, broker = FetchSession[Wanted](), FetchSessions(1_000, random.Random(1))
    for wishes, fate, by_id in story:
        wanted = {
            TopicPartition(topic, index): Wanted(IDS[topic], offset, -1)
            for (topic, index), offset in wishes.items()
        }
        plan = client.plan(wanted, by_id=by_id)
        if fate == "request lost":
            client.failed()
            continue
        if fate == "forgotten":
            broker = FetchSessions(1_000, random.Random(2))
        answer = broker.plan(request_of(plan), 13 if by_id else 12, now_ms=0)
        if fate == "answer lost":
            client.failed()
            continue
        if isinstance(answer, ErrorCode):
            assert fate == "forgotten", f"{answer.name} for {plan}"
            client.answered(0, answer)
            continue
        client.answered(0 if answer.session is None else answer.session.session_id, ErrorCode.NONE)
        partitions = answer.session.partitions if isinstance(answer, IncrementalFetch) else answer.partitions
        names = {topic_id: name for name, topic_id in IDS.items()}
        read = {
            TopicPartition(names[key.topic_id] if by_id else key.topic, key.partition): one.fetch_offset
            for key, one in partitions.items()
        }
        assert read == {where: one.fetch_offset for where, one in wanted.items()}


def test_only_news_is_said_and_what_is_not_wanted_is_forgotten() -> None:
    session = FetchSession[Wanted]()
    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    first = {a: Wanted(IDS["a"], 0, 1), b: Wanted(IDS["b"], 0, 1)}
    plan = session.plan(first, by_id=True)
    assert (plan.session_id, plan.session_epoch, plan.say) == (0, 0, first)
    session.answered(77, ErrorCode.NONE)
    plan = session.plan({**first, a: Wanted(IDS["a"], 9, 1)}, by_id=True)
    assert (plan.session_id, plan.session_epoch) == (77, 1)
    assert (plan.say, plan.forget) == ({a: Wanted(IDS["a"], 9, 1)}, {})
    session.answered(77, ErrorCode.NONE)
    plan = session.plan({b: Wanted(b"B" * 16, 0, 1)}, by_id=True)
    assert plan.forget == {a: IDS["a"], b: IDS["b"]}, "a topic made anew has another id"
    assert plan.say == {b: Wanted(b"B" * 16, 0, 1)}
    session.answered(0, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    plan = session.plan(first, by_id=True)
    assert (plan.session_id, plan.session_epoch, plan.say) == (77, 0, first), "the broker may end the old one"
