"""A connection to one broker, with requests and answers by hand; and what a cluster is asked for with it.

Role.   `RawConnection` is for stories that leave an answer unread. The functions make topics, delete and elect: they are answered, or
        asked again, by the broker that is named.
Rules.  * Versions that Apache Kafka 3.9 and Semel as its fellow both speak.
        * A connection is one socket that blocks, with a deadline on every read.
"""

import select
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self, TypeVar

from semel.core.wire import registry
from semel.core.wire.framing import RequestHeader, read_response_header, request_frame
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from semel.core.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest
from semel.core.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.errors import ErrorCode

R = TypeVar("R", bound=Response)

_ANSWER_SECONDS: Final = 90.0
_TIMEOUT_MS: Final = 60_000
_METADATA_VERSION: Final = 9
_CREATE_VERSION: Final = 5
_DELETE_VERSION: Final = 5
_DELETE_RECORDS_VERSION: Final = 2
_ELECT_VERSION: Final = 2


class RefusedError(Exception):
    """A broker answered with an error: `code`."""

    def __init__(self, code: int, about: str) -> None:
        self.code = ErrorCode(code)
        super().__init__(f"{self.code.name}: {about}")


class RawConnection:
    """Requests out, and answers when they are asked for, in order."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS)
        self._sent: list[tuple[type[Any], int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def send(self, request: Request[Any], version: int) -> None:
        key = request.schema.api_key
        self._socket.sendall(request_frame(RequestHeader(key, version, len(self._sent), "by-hand"), request))
        self._sent.append((registry.api(key).response, version))

    @property
    def has_answer(self) -> bool:
        """Whether something has arrived: an answer, or the end of the connection."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def answer(self, number: int) -> Any:
        """The answer to the request sent as this one. Answers are read in the order of requests."""
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        response, version = self._sent[number]
        header = registry.api(response.schema.api_key).response_header(version)
        correlation_id, start = read_response_header(frame, header)
        assert correlation_id == number, (correlation_id, number)
        return response.decode(frame, version, start)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return data


def ask(address: str, request: Request[R], version: int) -> R:
    """One answer, on a connection of its own."""
    with RawConnection(address) as connection:
        connection.send(request, version)
        answer: R = connection.answer(0)
        return answer


class Told(NamedTuple):
    """What a broker tells its clients."""

    brokers: frozenset[int]
    controller: int
    leaders: Mapping[str, Mapping[int, int]]
    """For each topic asked for, who leads its partitions; without those in error."""


def metadata(address: str, *topics: str) -> Told:
    """As this broker knows it."""
    told = ask(
        address,
        MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
        ),
        _METADATA_VERSION,
    )
    return Told(
        frozenset(one.node_id for one in told.brokers),
        told.controller_id,
        {
            str(topic.name): {
                one.partition_index: one.leader_id
                for one in topic.partitions
                if one.error_code == ErrorCode.NONE
            }
            for topic in told.topics
            if topic.error_code == ErrorCode.NONE
        },
    )


def create_topic(
    address: str, topic: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str]
) -> None:
    """On these brokers. Raises `RefusedError`."""
    wanted = CreatableTopic(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
            for number, brokers in enumerate(replicas)
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    (told,) = ask(
        address, CreateTopicsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS), _CREATE_VERSION
    ).topics
    if told.error_code:
        raise RefusedError(told.error_code, f"create {topic}: {told.error_message}")


def delete_topic(address: str, topic: str, *, timeout_ms: int) -> None:
    """Raises `RefusedError`: `REQUEST_TIMED_OUT` where it waits for a broker that is dead."""
    (told,) = ask(
        address, DeleteTopicsRequest(topic_names=[topic], timeout_ms=timeout_ms), _DELETE_VERSION
    ).responses
    if told.error_code:
        raise RefusedError(told.error_code, f"delete {topic}: {told.error_message}")


def delete_records(address: str, topic: str, partition: int, before: int) -> int:
    """The log start that all replicas have now. Raises `RefusedError`."""
    rows = [
        DeleteRecordsTopic(
            name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=before)]
        )
    ]
    answer = ask(address, DeleteRecordsRequest(topics=rows, timeout_ms=_TIMEOUT_MS), _DELETE_RECORDS_VERSION)
    ((told,),) = [one.partitions for one in answer.topics]
    if told.error_code:
        raise RefusedError(told.error_code, f"delete records of {topic}-{partition} before {before}")
    return told.low_watermark


def elect_preferred(address: str, topic: str, partitions: Sequence[int]) -> None:
    """Raises `RefusedError`, but not where the preferred replica leads already."""
    rows = [TopicPartitions(topic=topic, partitions=list(partitions))]
    answer = ask(address, ElectLeadersRequest(topic_partitions=rows, timeout_ms=_TIMEOUT_MS), _ELECT_VERSION)
    codes = [
        answer.error_code,
        *(row.error_code for one in answer.replica_election_results for row in one.partition_result),
    ]
    for code in codes:
        if code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
            raise RefusedError(code, f"elect the preferred leaders of {topic}")
