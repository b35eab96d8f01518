"""`semel doctor --metrics` says what the protocol does not: whose sequences broke, whether batches are tiny, who does not wait.

Method: a real broker in a simulation is treated badly by clients that speak by hand, and examined.
"""

import pytest
from click.testing import CliRunner

from semel.broker.metrics.listener import MetricsListener
from semel.cli.main import cli
from semel.client.cluster import Cluster
from semel.client.config import ClientConfig
from semel.errors import DisconnectedError, ErrorCode
from semel.insight.doctor import examine
from semel.insight.scrape import scrape
from semel.insight.sentences import Sentence
from semel.runtime.bundle import Runtime
from support.broker.metrics_kit import METRICS_PORT, Watched, watched
from support.net.net_worlds import in_simulation

HOUR_S = 3600.0
SOUND = [
    "No batch was out of order since the broker started; no duplicate came.",
    "No topic is written in many tiny batches.",
    "Every producer waits for acks=all.",
]


async def _examined(runtime: Runtime, port: int = METRICS_PORT) -> list[Sentence]:
    settings = {"bootstrap.servers": "127.0.0.1:9092", "default.api.timeout.ms": "5000"}
    async with Cluster(runtime, ClientConfig.of(settings)) as cluster:
        return await examine(cluster, ("127.0.0.1", port))


async def _troubles(client: Watched) -> list[Sentence]:
    return [one for one in await _examined(client.runtime) if one.level != "ok"]


def test_a_sound_broker_has_nothing_to_complain_of() -> None:
    async def story(client: Watched) -> None:
        await client.create("t")
        await client.send("t", sequence=0)
        sentences = await _examined(client.runtime)
        assert [one.text for one in sentences[-3:]] == SOUND
        assert {one.level for one in sentences} == {"ok"}

    watched(story)


@pytest.mark.mission("GUIDE-07")
def test_a_gap_is_named_with_its_producer_what_was_expected_and_what_came() -> None:
    async def story(client: Watched) -> None:
        await client.create("orders")
        for sequence in range(5):
            await client.send("orders", sequence=sequence, producer_id=41)
        await client.send("orders", sequence=4, producer_id=41)
        assert (
            await client.send("orders", sequence=9, producer_id=41) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )
        await client.runtime.tasks.sleep(10)
        gap, summary = await _troubles(client)
        assert gap.level == "problem"
        assert gap.text.startswith(
            "Producer 41 (epoch 0) sent sequence 9 to orders-0, where 5 was expected, 10 s ago: "
            "4 records before it never came. It has not gone on since. Was it restarted?"
        )
        assert summary == (
            "warning",
            "1 batch was out of order since the broker started; 1 duplicate dropped, which is harmless.",
        )
        # It begins anew, as clients do that may: the gap stays known, and is not urgent for ever.
        await client.send("orders", sequence=0, epoch=1, producer_id=41)
        gap, _ = await _troubles(client)
        assert gap.text.endswith("It has begun anew since (epoch 1).")
        await client.runtime.tasks.sleep(2 * HOUR_S)
        gap, _ = await _troubles(client)
        assert gap.level == "warning"
        assert "2.0 h ago" in gap.text

    watched(story)


def test_what_became_of_a_gap_is_told() -> None:
    async def story(client: Watched) -> None:
        await client.create("orders", "payments")
        for topic in ("orders", "payments"):
            await client.send(topic, sequence=0, producer_id=41)
            await client.send(topic, sequence=2, producer_id=41)
        await client.send("orders", sequence=1, producer_id=41)
        await client.send("orders", sequence=2, producer_id=41)
        await client.runtime.tasks.sleep(1)
        orders, payments, _ = await _troubles(client)
        assert orders.text.endswith(
            "1 record before it never came. It has sent what was missing since and goes on."
        )
        assert "It has not gone on since." in payments.text
        await client.send("orders", sequence=1, producer_id=41, records=9)
        orders, *_ = [one for one in await _troubles(client) if "orders-0" in one.text]
        assert "where 3 was expected" in orders.text
        assert "that one has come already, too long ago to be told from another." in orders.text

    watched(story)


@pytest.mark.mission("GUIDE-08")
def test_many_tiny_batches_are_a_hint_to_tune_batching() -> None:
    async def story(client: Watched) -> None:
        await client.create("tiny", "full", "few")
        for _ in range(1000):
            await client.send("tiny")
            await client.send("full", records=20)
        await client.send("few")
        ((level, text),) = await _troubles(client)
        assert level == "warning"
        assert text.startswith(
            "tiny: 1000 batches hold 1.0 records and 70 bytes each. If its producers are too slow"
        )
        assert "linger.ms=10, batch.size=32768" in text

    watched(story)


@pytest.mark.mission("GUIDE-10")
def test_producers_that_do_not_wait_for_acks_all_are_warned_of() -> None:
    async def story(client: Watched) -> None:
        await client.create("safe", "risky")
        for acks, topic in ((-1, "safe"), (-1, "risky"), (1, "risky"), (1, "risky")):
            await client.send(topic, acks=acks)
        ((level, text),) = await _troubles(client)
        assert level == "warning"
        assert text.startswith("Producers do not wait for acks=all on risky (2 of 3 batches): ")

    watched(story)


def test_a_page_of_something_else_is_told_apart() -> None:
    async def page() -> bytes:
        return b"# TYPE kafka_server_replicamanager_partitioncount gauge\nkafka_server_replicamanager_partitioncount 3.0\n"

    async def story(client: Watched) -> None:
        other = MetricsListener(client.runtime, page)
        await other.start("127.0.0.1", 7071)
        troubles = [one for one in await _examined(client.runtime, 7071) if one.level != "ok"]
        assert [one.level for one in troubles] == ["warning"]
        assert troubles[0].text.startswith("http://127.0.0.1:7071/metrics is not a Semel broker's: ")
        other.close()

    watched(story)


def test_an_address_where_nobody_or_somebody_else_answers_is_no_end_of_the_examination() -> None:
    async def story(client: Watched) -> None:
        for port in (1, 9092):
            last = (await _examined(client.runtime, port))[-1]
            assert last.level == "warning"
            assert last.text.startswith(f"One thing could not be looked at: http://127.0.0.1:{port}/metrics ")

    watched(story)


def test_a_page_that_never_comes_is_not_waited_for() -> None:
    async def story(runtime: Runtime) -> None:
        async def never() -> bytes:
            await runtime.tasks.sleep(HOUR_S)
            return b""

        listener = MetricsListener(runtime, never)
        await listener.start("127.0.0.1", 80)
        with pytest.raises(DisconnectedError, match="did not answer within 10 s"):
            await scrape(runtime, "127.0.0.1", 80)
        listener.close()

    in_simulation(story)


def test_a_wrong_option_is_wrong_usage() -> None:
    done = CliRunner().invoke(cli, ["doctor", "--metrics", "9404"])
    assert done.exit_code == 2
    assert "expected HOST:PORT" in done.output
