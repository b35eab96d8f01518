"""A client finds its cluster, agrees on versions, and is patient only where patience helps.

Method: brokers played by a function from request to answer, behind the real listener, in a simulation: time costs
nothing, and what was sent is known exactly.
"""

from typing import Any

import pytest

from semel.client.calls.create_topics import create_topic
from semel.client.cluster import Cluster
from semel.client.config import ClientConfig
from semel.core.wire.api_versions import ServedApi
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.core.wire.messages.metadata import MetadataRequest
from semel.core.wire.registry import ApiKey
from semel.errors import (
    DisconnectedError,
    ErrorCode,
    RefusedError,
    UnreachableError,
    UnsupportedVersionError,
)
from semel.runtime.bundle import Runtime
from support.broker.fake_broker import FakeBroker, led, metadata, told, unknown
from support.net.net_worlds import in_simulation


def test_the_newest_version_both_have_is_used() -> None:
    served = (ServedApi(ApiKey.METADATA, 2, 9), ServedApi(ApiKey.API_VERSIONS, 0, 3))
    broker = FakeBroker(lambda _request: metadata(), served)

    async def story(cluster: Cluster) -> None:
        await cluster.metadata([])
        with pytest.raises(UnsupportedVersionError, match=r"127\.0\.0\.1:9092 does not serve CreateTopics"):
            await cluster.send(CreateTopicsRequest())

    told(broker, story)
    assert broker.versions == [(ApiKey.API_VERSIONS, 3), (ApiKey.METADATA, 9)]


def test_versions_without_overlap_are_named() -> None:
    broker = FakeBroker(lambda _request: metadata(), (ServedApi(ApiKey.METADATA, 90, 99),))

    async def story(cluster: Cluster) -> None:
        with pytest.raises(
            UnsupportedVersionError, match="serves Metadata in versions 90 to 99, this client speaks 0 to 13"
        ):
            await cluster.metadata([])

    told(broker, story)


def test_a_broker_that_knows_only_the_first_api_versions() -> None:
    broker = FakeBroker(lambda _request: metadata(), oldest=True)

    async def story(cluster: Cluster) -> None:
        await cluster.metadata([])

    told(broker, story)
    assert [version for key, version in broker.versions if key == ApiKey.API_VERSIONS] == [3, 0]


def test_dead_servers_in_the_list_are_passed_over() -> None:
    broker = FakeBroker(lambda _request: metadata())

    async def story(cluster: Cluster) -> None:
        await cluster.metadata([])
        assert cluster.cluster_id == "c"

    told(broker, story, bootstrap_servers="127.0.0.1:1,127.0.0.1:9092")


def test_a_cluster_that_never_answered_is_given_up_at_once() -> None:
    async def story(runtime: Runtime) -> None:
        cluster = Cluster(runtime, ClientConfig.of({"bootstrap.servers": "127.0.0.1:1"}))
        started = runtime.clock.monotonic()
        with pytest.raises(UnreachableError, match=r"no broker of 127\.0\.0\.1:1 can be reached"):
            await cluster.patiently(lambda: cluster.metadata([]))
        assert runtime.clock.monotonic() - started < 1

    in_simulation(story)


def test_a_leader_is_waited_for_and_a_missing_topic_is_not() -> None:
    answers = [metadata(led("t", leader=-1)), metadata(led("t", leader=-1)), metadata(led("t"))]
    waiting = FakeBroker(lambda _request: answers.pop(0))

    async def patient(cluster: Cluster) -> None:
        assert (await cluster.topic("t")).partitions[0].leader == 1

    told(waiting, patient)
    missing = FakeBroker(lambda _request: metadata(unknown("t")))

    async def impatient(cluster: Cluster) -> None:
        with pytest.raises(RefusedError, match="topic t does not exist at") as caught:
            await cluster.topic("t")
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    told(missing, impatient)
    assert len(missing.asked) == 3


def test_patience_ends_with_the_time_that_was_set() -> None:
    broker = FakeBroker(lambda _request: metadata(led("t", leader=-1)))

    async def story(cluster: Cluster) -> None:
        started = cluster.runtime.clock.monotonic()
        with pytest.raises(RefusedError, match=r"t-0 has no leader at 127\.0\.0\.1:9092"):
            await cluster.topic("t")
        assert 4 < cluster.runtime.clock.monotonic() - started <= 5

    told(broker, story, default_api_timeout_ms="5000")


def test_a_lost_answer_is_asked_for_again_on_a_new_connection() -> None:
    answers = [metadata(), None, metadata(led("t"))]
    broker = FakeBroker(lambda _request: answers.pop(0))

    async def story(cluster: Cluster) -> None:
        await cluster.metadata([])
        assert (await cluster.topic("t")).name == "t"

    told(broker, story)
    assert [key for key, _ in broker.versions].count(ApiKey.API_VERSIONS) == 2


def test_what_changes_something_is_not_repeated_after_a_lost_answer() -> None:
    broker = FakeBroker(lambda request: metadata() if isinstance(request, MetadataRequest) else None)

    async def story(cluster: Cluster) -> None:
        with pytest.raises(DisconnectedError, match="CreateTopics has no answer"):
            await create_topic(cluster, "t")

    told(broker, story)
    assert sum(isinstance(request, CreateTopicsRequest) for request in broker.asked) == 1


def test_an_order_follows_the_controller() -> None:
    codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.NONE]

    def answer(request: Request[Any]) -> Response:
        if isinstance(request, MetadataRequest):
            return metadata()
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=codes.pop(0))])

    broker = FakeBroker(answer)

    async def story(cluster: Cluster) -> None:
        await create_topic(cluster, "t")

    told(broker, story)
    assert codes == []


def test_a_refusal_names_what_was_asked_of_whom_and_why() -> None:
    def answer(request: Request[Any]) -> Response:
        if isinstance(request, MetadataRequest):
            return metadata()
        refusal = CreatableTopicResult(name="t", error_code=ErrorCode.INVALID_PARTITIONS, error_message="No.")
        return CreateTopicsResponse(topics=[refusal])

    async def story(cluster: Cluster) -> None:
        with pytest.raises(RefusedError) as caught:
            await create_topic(cluster, "t", partitions=0)
        text = "127.0.0.1:9092 refuses to create topic 't': No (INVALID_PARTITIONS, 37)"
        assert (str(caught.value), caught.value.code) == (text, ErrorCode.INVALID_PARTITIONS)

    told(FakeBroker(answer), story)


def test_a_code_nobody_has_defined_yet_is_no_crash() -> None:
    def answer(request: Request[Any]) -> Response:
        if isinstance(request, MetadataRequest):
            return metadata()
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=9999)])

    async def story(cluster: Cluster) -> None:
        with pytest.raises(RefusedError, match=r"\(UNKNOWN_SERVER_ERROR, 9999\)"):
            await create_topic(cluster, "t")

    told(FakeBroker(answer), story)
