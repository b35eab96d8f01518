"""A client finds its cluster, agrees on versions, and is patient only where patience helps.

Method: brokers played by a function from request to answer, behind the real listener, in a simulation: time costs
nothing, and what was sent is known exactly.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from net_worlds import in_simulation
from semel.client import admin
from semel.client.cluster import Cluster
from semel.client.config import ClientConfig
from semel.core.wire import framing
from semel.core.wire.api_versions import ServedApi, advertised, api_versions_response
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.core.wire.registry import BY_KEY, ApiKey
from semel.errors import (
    DisconnectedError,
    ErrorCode,
    RefusedError,
    UnreachableError,
    UnsupportedVersionError,
)
from semel.net.inbound import InboundConnection
from semel.net.listener import Listener
from semel.net.reply import Reply
from semel.runtime.bundle import Runtime

Answer = Callable[[Request[Any]], Response | None]


class FakeBroker:
    """Answers what `answer` says; None closes the connection. Keeps what it was asked, and in which version."""

    def __init__(
        self, answer: Answer, served: tuple[ServedApi, ...] | None = None, *, oldest: bool = False
    ) -> None:
        self.answer = answer
        self.served = advertised() if served is None else served
        self.oldest = oldest  # Knows ApiVersions 0 only.
        self.asked: list[Request[Any]] = []
        self.versions: list[tuple[int, int]] = []

    async def listen(self, runtime: Runtime, port: int = 9092) -> Listener:
        listener = Listener(runtime, self.handle)
        await listener.start("127.0.0.1", port)
        return listener

    def handle(self, frame: bytearray, connection: InboundConnection) -> Reply:
        header, position = framing.read_request_header(frame)
        key, version = header.api_key, header.api_version
        self.versions.append((key, version))
        if key == ApiKey.API_VERSIONS:
            known = 99 if self.oldest and version > 0 else version
            response, answered = api_versions_response(known, self.served)
            return framing.response_frame(header.correlation_id, response, answered)
        request = BY_KEY[key].request.decode(frame, version, position)
        self.asked.append(request)
        said = self.answer(request)
        if said is None:
            connection.abort()
            return None
        return framing.response_frame(header.correlation_id, said, version)


def metadata(*topics: MetadataResponseTopic, port: int = 9092) -> MetadataResponse:
    here = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port)
    return MetadataResponse(brokers=[here], cluster_id="c", controller_id=1, topics=list(topics))


def led(name: str, leader: int = 1) -> MetadataResponseTopic:
    return MetadataResponseTopic(name=name, partitions=[MetadataResponsePartition(leader_id=leader)])


def unknown(name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def told(broker: FakeBroker, story: Callable[[Cluster], Coroutine[Any, Any, None]], **settings: str) -> None:
    """Tell a story with a client of this broker."""

    async def run(runtime: Runtime) -> None:
        listener = await broker.listen(runtime)
        given = {
            "bootstrap.servers": "127.0.0.1:9092",
            **{k.replace("_", "."): v for k, v in settings.items()},
        }
        async with Cluster(runtime, ClientConfig.of(given)) as cluster:
            await story(cluster)
        await listener.close()

    in_simulation(run)


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
            await admin.create_topic(cluster, "t")

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
        await admin.create_topic(cluster, "t")

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
            await admin.create_topic(cluster, "t", partitions=0)
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
            await admin.create_topic(cluster, "t")

    told(FakeBroker(answer), story)
