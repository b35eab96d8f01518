"""GET /metrics of a real broker in a simulation: what was done to it stands there, under Kafka's names.

Method: clients that speak the protocol by hand do known things, the page is scraped as Prometheus does and read by a strict
reader of its format.
"""

import re
import struct
import zipfile

import pytest

from semel.broker.metrics.counts import GAPS_MAX
from semel.broker.metrics.text import read_gaps
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.peers.kafka import KafkaHome
from support.broker.admin_kit import PORT
from support.broker.metrics_kit import Watched, watched
from support.broker.prometheus_kit import of, read_page
from support.net.net_worlds import frame, raw_client

BATCHES = 10
ERRORS = "kafka_network_requestmetrics_errorspersec"
HOUR_S = 3600.0


@pytest.mark.mission("MET-02")
def test_errors_are_counted_per_request_and_error_code() -> None:
    async def story(client: Watched) -> None:
        await client.create("t")
        for sequence in range(BATCHES):
            assert await client.send("t", sequence=sequence) is ErrorCode.NONE
        assert await client.send("t", sequence=BATCHES - 1) is ErrorCode.NONE, "a duplicate is a success"
        assert await client.send("t", sequence=50) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await client.send("missing") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        far = [ListOffsetsPartition(partition_index=9, timestamp=-1)]
        await client.ask(
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=far)]), 7
        )
        await client.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
        await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        page = await client.page()
        assert of(page, ERRORS, request="Produce", error="NONE") == BATCHES + 1
        assert of(page, ERRORS, request="Produce", error="DUPLICATE_SEQUENCE_NUMBER") == 1
        assert of(page, ERRORS, request="Produce", error="OUT_OF_ORDER_SEQUENCE_NUMBER") == 1
        assert of(page, ERRORS, request="Produce", error="UNKNOWN_TOPIC_OR_PARTITION") == 1
        assert of(page, ERRORS, request="Produce", error="KAFKA_STORAGE_ERROR") == 0, (
            "what alerts look at is there"
        )
        assert of(page, ERRORS, request="ListOffsets", error="UNKNOWN_TOPIC_OR_PARTITION") == 1
        assert of(page, ERRORS, request="CreateTopics", error="NONE") == 1
        assert [one for one in page[ERRORS] if ("request", "Heartbeat") in one], "a refused group request"
        requests = page["kafka_network_requestmetrics_requestspersec"]
        assert requests[frozenset({("request", "Produce"), ("version", "12")})] == BATCHES + 3

    watched(story)


@pytest.mark.mission("MET-06")
def test_sequence_anomalies_are_counted_per_topic() -> None:
    async def story(client: Watched) -> None:
        await client.create("odd", "even", partitions=2)
        for topic in ("odd", "even"):
            for sequence in range(3):
                await client.send(topic, sequence=sequence, epoch=1)
        for _ in range(4):
            await client.send("odd", sequence=2, epoch=1)  # Duplicates.
        for sequence in (7, 9):
            await client.send("odd", sequence=sequence, epoch=1)  # Gaps.
        await client.send("odd", sequence=3, epoch=0)  # Fenced.
        page = await client.page()
        anomalies = {
            "semel_sequence_duplicates_total": 4,
            "semel_sequence_out_of_order_total": 2,
            "semel_sequence_fenced_total": 1,
            "semel_producer_ids_expired_total": 0,
        }
        for name, count in anomalies.items():
            assert of(page, name, topic="odd") == count, name
            assert of(page, name, topic="even") == 0, name
        assert of(page, "kafka_server_brokertopicmetrics_totalproducerequestspersec", topic="odd") == 3 + 7
        assert of(page, "kafka_server_brokertopicmetrics_failedproducerequestspersec", topic="odd") == 3
        assert of(page, "kafka_server_replicamanager_produceridcount") == 2
        await client.runtime.tasks.sleep(2 * HOUR_S)
        page = await client.page()
        assert of(page, "semel_producer_ids_expired_total", topic="odd") == 1
        assert of(page, "semel_producer_ids_expired_total", topic="even") == 1
        assert of(page, "kafka_server_replicamanager_produceridcount") == 0

    watched(story, producer_id_expiration_ms="3600000", producer_id_expiration_check_interval_ms="60000")


def test_a_version_nobody_knows_is_counted_though_it_has_no_route() -> None:
    async def story(client: Watched) -> None:
        raw = await raw_client(client.runtime, ("127.0.0.1", PORT))
        raw.transport.write(frame(struct.pack(">hhihB", ApiKey.API_VERSIONS, 99, 1, -1, 0)))
        await raw.take_frame()
        raw.transport.close()
        page = await client.page()
        assert of(page, ERRORS, request="ApiVersions", error="UNSUPPORTED_VERSION") == 1
        assert "kafka_network_requestmetrics_requestspersec" not in page, "a client cannot make up series"

    watched(story)


def test_the_last_gaps_name_their_producers_and_are_bounded() -> None:
    async def story(client: Watched) -> None:
        await client.create("t", partitions=2)
        for partition in (0, 1):
            await client.send("t", sequence=0, producer_id=40, partition=partition)
        for sequence in range(100, 100 + 3 * GAPS_MAX):
            await client.send("t", sequence=sequence, producer_id=40, epoch=0, partition=1)
        await client.send("t", sequence=5, producer_id=40, epoch=3)  # A new epoch begins with 0.
        text = await client.page_text()
        read_page(text)
        gaps = read_gaps(text)
        assert len(gaps) == GAPS_MAX
        assert gaps[-2][:6] == ("t", 1, 40, 0, 1, 100 + 3 * GAPS_MAX - 1)
        assert gaps[-1][:6] == ("t", 0, 40, 3, 0, 5)
        assert 0 <= client.runtime.clock.now_ms() - gaps[-1].time_ms < 60_000

    watched(story)


@pytest.mark.mission("MET-05", "R-44")
def test_the_produce_request_rate_has_both_of_its_names() -> None:
    """Twenty requests per second for two minutes, then none."""

    async def story(client: Watched) -> None:
        await client.create("t")
        begun = client.runtime.clock.monotonic()
        sent = 0
        while client.runtime.clock.monotonic() < begun + 120:
            await client.send("t")
            sent += 1
            await client.runtime.tasks.sleep(max(0.0, begun + sent / 20 - client.runtime.clock.monotonic()))
        page = await client.page()
        rate = of(page, "kafka_server_server_metrics_produce_request_rate")
        assert rate == pytest.approx(20, rel=0.05)
        counted = of(page, "kafka_network_requestmetrics_requestspersec", request="Produce", version="12")
        assert counted == sent
        await client.runtime.tasks.sleep(120)
        assert of(await client.page(), "kafka_server_server_metrics_produce_request_rate") == 0

    watched(story)


def test_traffic_sizes_and_connections() -> None:
    async def story(client: Watched) -> None:
        await client.create("t")
        for _ in range(BATCHES):
            await client.send("t", records=3)
        await client.send("t", acks=1)
        await client.send("t", acks=1)  # By the shortcut.
        size = client.partition("t").log.size_bytes
        wanted = FetchTopic(
            topic_id=client.partition("t").topic_id.bytes,
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
        )
        await client.ask(
            FetchRequest(max_bytes=1 << 20, max_wait_ms=0, session_epoch=-1, topics=[wanted]), 13
        )
        page = await client.page()
        topic = "kafka_server_brokertopicmetrics_"
        assert of(page, topic + "messagesinpersec", topic="t") == 3 * BATCHES + 2
        assert of(page, topic + "bytesinpersec", topic="t") == size
        assert of(page, topic + "bytesoutpersec", topic="t") == size
        assert of(page, "semel_batches_stored_total", topic="t") == BATCHES + 2
        assert of(page, "semel_batches_without_acks_all_total", topic="t") == 2
        assert of(page, "kafka_log_log_size", topic="t", partition="0") == size
        assert of(page, "kafka_log_log_logendoffset", topic="t", partition="0") == 3 * BATCHES + 2
        assert of(page, "kafka_cluster_partition_laststableoffsetlag", topic="t", partition="0") == 0
        here = {"listener": "PLAINTEXT", "networkProcessor": "0"}
        assert of(page, "kafka_server_socket_server_metrics_connection_count", **here) == 1
        assert of(page, "kafka_server_replicamanager_partitioncount") == 1
        assert (
            0
            < of(page, "semel_log_directory_usable_bytes", directory="data")
            < of(page, "semel_log_directory_bytes", directory="data")
        )
        await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
        page = await client.page()
        assert "kafka_log_log_size" not in page, "a deleted topic takes its counters with it"
        assert topic + "bytesinpersec" not in page

    watched(story)


@pytest.mark.java
def test_names_that_begin_with_kafka_are_kafkas(kafka_home: KafkaHome) -> None:
    """Each name is, in small letters, a name that stands in Kafka's classes."""
    known: set[str] = set()
    for jar in sorted((kafka_home.path / "lib").glob("kafka*.jar")):
        if re.match(r"kafka(_|-server|-storage|-clients)", jar.name):
            with zipfile.ZipFile(jar) as archive:
                for name in archive.namelist():
                    if re.search(
                        r"(ReplicaManager|Metric\w*|SocketServer|Processor|UnifiedLog|Partition|Stats|Manager)\$?\.class$",
                        name,
                    ):
                        words = re.findall(rb"[A-Za-z][A-Za-z-]+", archive.read(name))
                        known |= {word.decode().lower().replace("-", "_") for word in words}

    async def story(client: Watched) -> None:
        await client.create("t")
        names = {name for name in await client.page() if name.startswith("kafka_")}
        assert len(names) > 20
        for name in names - {"kafka_server_server_metrics_produce_request_rate"}:  # a tutorial's.
            last = re.sub(r"^kafka_(server_socket_server_metrics|[a-z]+_[a-z]+)_", "", name)
            parts = {last, last.removesuffix("_total"), re.sub(r"_total$", "", last).replace("_", "")}
            assert parts & known, name

    watched(story)
