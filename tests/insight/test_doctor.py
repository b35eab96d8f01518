"""`semel doctor` finds what is wrong with a cluster, and says so in a sentence with the way out.

Method: a broker played by a function shows one trouble at a time.
"""

from typing import Any

import pytest

from semel.client.cluster import Cluster
from semel.core.wire.api_versions import ServedApi
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from semel.core.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from semel.core.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from semel.core.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from semel.core.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from semel.core.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from semel.core.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from semel.core.wire.messages.list_transactions import TransactionState as ListTransactionsState
from semel.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.insight.doctor import examine
from semel.insight.sentences import Sentence, time_text
from semel.runtime.clock import SIMULATION_START_MS
from support.broker.fake_broker import FakeBroker, metadata, told

HOUR_MS = 3_600_000
SOUND = MetadataResponsePartition(leader_id=1, replica_nodes=[1], isr_nodes=[1])


class Patient:
    """What a broker shows; sound unless something is changed."""

    def __init__(self) -> None:
        self.partition = SOUND
        self.log_dir = DescribeLogDirsResult(log_dir="/data", total_bytes=1 << 40, usable_bytes=1 << 39)
        self.producers: list[ProducerState] = []
        self.producers_after_listing: list[ProducerState] | None = None
        self.transaction: TransactionState | None = None
        self.settings: list[DescribeConfigsResourceResult] = []
        self.topic_settings: list[DescribeConfigsResourceResult] = []
        self.brokers: list[MetadataResponseBroker] = []
        self.served: tuple[ServedApi, ...] | None = None

    def answer(self, request: Request[Any]) -> Response:
        match request:
            case MetadataRequest():
                answer = metadata(MetadataResponseTopic(name="t", partitions=[self.partition]))
                answer.brokers += self.brokers
                return answer
            case DescribeConfigsRequest():
                (asked,) = request.resources
                settings = self.settings if asked.resource_type == 4 else self.topic_settings
                found = DescribeConfigsResult(
                    resource_type=asked.resource_type, resource_name=asked.resource_name, configs=settings
                )
                return DescribeConfigsResponse(results=[found])
            case DescribeLogDirsRequest():
                return DescribeLogDirsResponse(results=[self.log_dir])
            case DescribeProducersRequest():
                partition = PartitionResponse(active_producers=self.producers)
                return DescribeProducersResponse(topics=[TopicResponse(name="t", partitions=[partition])])
            case ListTransactionsRequest():
                self.producers = self.producers_after_listing or self.producers
                listed = [
                    ListTransactionsState(transactional_id=one.transactional_id, producer_id=one.producer_id)
                    for one in (self.transaction,)
                    if one is not None
                ]
                return ListTransactionsResponse(transaction_states=listed)
            case FindCoordinatorRequest(key=""):
                here = [Coordinator(key=key, node_id=1) for key in request.coordinator_keys]
                return FindCoordinatorResponse(coordinators=here)
            case FindCoordinatorRequest():
                return FindCoordinatorResponse(node_id=1)
            case DescribeTransactionsRequest():
                assert self.transaction is not None
                return DescribeTransactionsResponse(transaction_states=[self.transaction])
            case _:
                offset = ListOffsetsPartitionResponse(offset=0, timestamp=SIMULATION_START_MS)
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[offset])])

    def examined(self) -> list[Sentence]:
        sentences: list[Sentence] = []

        async def story(cluster: Cluster) -> None:
            sentences.extend(await examine(cluster))

        told(FakeBroker(self.answer, self.served), story, default_api_timeout_ms="2000")
        return sentences

    def troubles(self) -> list[Sentence]:
        return [one for one in self.examined() if one.level != "ok"]


def test_a_sound_cluster_has_no_troubles() -> None:
    patient = Patient()
    sentences = patient.examined()
    assert {one.level for one in sentences} == {"ok"}
    assert len(sentences) == 9
    assert "--metrics HOST:PORT" in sentences[-1].text, "what the protocol does not tell is said"


def test_a_partition_without_a_leader() -> None:
    patient = Patient()
    patient.partition = MetadataResponsePartition(leader_id=-1, replica_nodes=[1])
    assert patient.troubles() == [
        ("problem", "1 partition without a leader: t-0."),
        ("problem", "1 partition with replicas that are not in sync: t-0."),
    ]


def test_a_directory_that_is_offline_or_nearly_full() -> None:
    patient = Patient()
    patient.log_dir = DescribeLogDirsResult(log_dir="/data", error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    assert patient.troubles() == [
        ("problem", "The directory /data of broker 1 is offline (KAFKA_STORAGE_ERROR): see the broker's log.")
    ]
    patient.log_dir = DescribeLogDirsResult(log_dir="/data", total_bytes=100 << 30, usable_bytes=2 << 30)
    ((level, text),) = patient.troubles()
    assert (level, text.endswith("2.0 GiB (2%) are free.")) == ("problem", True)


def test_a_broker_that_announces_an_address_nobody_can_use() -> None:
    patient = Patient()
    patient.brokers = [MetadataResponseBroker(node_id=2, host="127.0.0.1", port=1)]
    patient.log_dir = DescribeLogDirsResult(log_dir="/data")
    level, text = next(one for one in patient.troubles())
    assert level == "problem"
    assert text.startswith("Broker 2 announces itself at 127.0.0.1:1, where this machine does not reach it: ")
    assert text.endswith("Check advertised.listeners.")


def test_an_old_producer_is_counted_and_a_hanging_transaction_is_wrong() -> None:
    patient = Patient()
    long_ago = SIMULATION_START_MS - 5 * HOUR_MS
    patient.producers = [ProducerState(producer_id=7, last_timestamp=long_ago, current_txn_start_offset=42)]
    sentences = patient.examined()
    assert any(
        f"the last records of 1 have timestamps over an hour old, the oldest of {time_text(long_ago)}: idle, or "
        in one.text
        for one in sentences
    )
    text = (
        "1 transaction that no coordinator will end: producer 7 from offset 42 of t-0. "
        "See 'semel txn find-hanging', end with 'semel txn abort'."
    )
    assert patient.troubles() == [("problem", text)]


@pytest.mark.parametrize(("minutes", "is_long"), [(14, False), (16, True)])
def test_a_transaction_is_old_by_the_clock_of_its_coordinator(minutes: int, is_long: bool) -> None:
    patient = Patient()
    long_ago = SIMULATION_START_MS - 5 * HOUR_MS
    patient.producers = [ProducerState(producer_id=7, last_timestamp=long_ago, current_txn_start_offset=42)]
    begun = SIMULATION_START_MS - minutes * 60_000
    patient.transaction = TransactionState(
        transactional_id="shop",
        transaction_state="Ongoing",
        producer_id=7,
        transaction_start_time_ms=begun,
        topics=[TopicData(topic="t", partitions=[0])],
    )
    old = [("problem", f"1 transaction open for over 15 minutes: shop for {minutes} min.")]
    assert patient.troubles() == (old if is_long else [])


def test_a_transaction_that_ended_while_the_doctor_asked_does_not_hang() -> None:
    """Its records are old, and the coordinator has forgotten it: the partition, asked again, has closed it."""
    patient = Patient()
    long_ago = SIMULATION_START_MS - 5 * HOUR_MS
    patient.producers = [ProducerState(producer_id=7, last_timestamp=long_ago, current_txn_start_offset=42)]
    patient.producers_after_listing = [ProducerState(producer_id=7, last_timestamp=long_ago)]
    assert patient.troubles() == []


def test_settings_without_effect_are_named() -> None:
    """Made by someone, and without the sentence the broker has for everything it acts on."""
    static, default = 4, 5
    patient = Patient()
    patient.settings = [
        DescribeConfigsResourceResult(name="num.partitions", config_source=static, documentation="Known."),
        DescribeConfigsResourceResult(name="num.io.threads", config_source=static, documentation=None),
        DescribeConfigsResourceResult(name="broker.rack", config_source=default, documentation=None),
    ]
    assert patient.troubles() == [
        ("warning", "Broker 1 keeps settings and does not act on them: num.io.threads.")
    ]
    patient.settings = patient.settings[1:]
    assert patient.troubles() == [], "a broker that describes nothing says nothing by it"


@pytest.mark.mission("GUIDE-10")
def test_three_replicas_of_which_one_is_enough_are_warned_of() -> None:
    patient = Patient()
    patient.partition = MetadataResponsePartition(leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3])
    patient.topic_settings = [DescribeConfigsResourceResult(name="min.insync.replicas", value="1")]
    ((level, text),) = patient.troubles()
    assert level == "warning"
    assert text.startswith(
        "min.insync.replicas=1 with 3 replicas on t: while the others are away, acks=all waits "
    )
    assert text.endswith("Set 2: semel configs set --topic t min.insync.replicas=2.")
    patient.topic_settings = [DescribeConfigsResourceResult(name="min.insync.replicas", value="2")]
    assert patient.troubles() == []
    patient.partition = SOUND
    patient.topic_settings = [DescribeConfigsResourceResult(name="min.insync.replicas", value="1")]
    assert patient.troubles() == [], "with one replica it decides nothing"


def test_an_old_broker_is_named_as_one() -> None:
    patient = Patient()
    patient.served = (ServedApi(ApiKey.METADATA, 0, 5), ServedApi(ApiKey.LIST_OFFSETS, 0, 7))
    levels = [one.level for one in patient.troubles()]
    texts = "\n".join(one.text for one in patient.troubles())
    assert "does not serve Produce, Fetch, InitProducerId, CreateTopics: use a newer one." in texts
    assert "One thing could not be looked at: " in texts
    assert levels.count("problem") == 1
