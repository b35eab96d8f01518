"""What a client measures of itself must be true: rates, latencies and errors that are known beforehand.

Method: the real producer and broker in a simulation, where time and the network's delay are given; a blocking producer for
what programs read from its metrics.
"""

from pathlib import Path
from typing import Final

import pytest

from semel import MetricName, NewTopic, Producer
from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.client.admin.client import AsyncAdmin
from semel.client.metrics import prometheus_text
from semel.client.producer.producer import AsyncProducer
from semel.exceptions import RecordTooLargeException
from semel.runtime.bundle import Runtime
from semel.runtime.memory_network import Link
from support.compat.compat_kit import ThreadBroker
from support.net.net_worlds import in_simulation

ADDRESS: Final = "127.0.0.1:9092"
RECORDS: Final = 50
PAUSE_S: Final = 0.25
STEPS: Final = 480  # Two minutes: Java's windows are full after one.


async def broker_with_topic(runtime: Runtime, **configs: str) -> Broker:
    """A broker that has the topic t, on the runtime of the test."""
    broker = Broker(BrokerConfig.of({"listeners": f"PLAINTEXT://{ADDRESS}", "log.dirs": "/data"}), runtime)
    await broker.start()
    async with AsyncAdmin(bootstrap_servers=ADDRESS, client_id="a", runtime=runtime) as admin:
        given = {key.replace("_", "."): value for key, value in configs.items()}
        await admin.create_topics(NewTopic("t", configs=given))
    return broker


@pytest.mark.mission("MET-03")
def test_the_rate_of_records_sent_is_the_one_they_are_sent_at() -> None:
    async def story(runtime: Runtime) -> None:
        broker = await broker_with_topic(runtime)
        async with AsyncProducer(bootstrap_servers=ADDRESS, client_id="p", runtime=runtime) as producer:
            for _ in range(STEPS):
                for number in range(RECORDS):
                    await producer.send("t", value=b"%d" % number)
                await runtime.tasks.sleep(PAUSE_S)
            shown = producer.metrics()
            assert shown[MetricName("record-send-rate", "producer-metrics")] == pytest.approx(
                RECORDS / PAUSE_S, rel=0.05
            )
            assert shown["record-send-total"] == RECORDS * STEPS
            assert shown["record-error-rate"] == 0
        await broker.stop()

    in_simulation(story)


@pytest.mark.mission("MET-04")
@pytest.mark.parametrize("delay_s", [0.02, 0.3])
def test_the_latency_of_requests_is_the_networks_delay(delay_s: float) -> None:
    async def story(runtime: Runtime) -> None:
        broker = await broker_with_topic(runtime)
        async with AsyncProducer(bootstrap_servers=ADDRESS, client_id="p", runtime=runtime) as producer:
            for _ in range(100):
                await (await producer.send("t", value=b"v"))
            shown = producer.metrics()
            assert shown["request-latency-avg"] == pytest.approx(2 * delay_s * 1000, rel=0.1)
            assert shown["request-latency-max"] == pytest.approx(2 * delay_s * 1000, rel=0.1)
        await broker.stop()

    in_simulation(story, link=Link(latency_seconds=(delay_s, delay_s)))


@pytest.mark.mission("MET-01")
def test_records_that_fail_show_as_errors_here_and_for_prometheus() -> None:
    async def story(runtime: Runtime) -> None:
        broker = await broker_with_topic(runtime, max_message_bytes="200")
        async with AsyncProducer(bootstrap_servers=ADDRESS, client_id="p", runtime=runtime) as producer:
            await (await producer.send("t", value=b"fits"))
            assert producer.metrics()["record-error-rate"] == 0
            sent = await producer.send("t", value=b"x" * 1000)
            with pytest.raises(RecordTooLargeException):
                await sent
            shown = producer.metrics()
            assert shown["record-error-rate"] > 0
            assert shown["record-error-total"] == 1
            topics = MetricName("record-error-total", "producer-topic-metrics", (("topic", "t"),))
            assert shown[topics] == 1
            text = prometheus_text(shown, client_id="p")
            assert 'kafka_producer_producer_metrics_record_error_total{client_id="p"} 1\n' in text
            rate = next(
                line
                for line in text.splitlines()
                if line.startswith("kafka_producer_producer_metrics_record_error_rate{")
            )
            assert float(rate.split()[1]) > 0
        await broker.stop()

    in_simulation(story)


@pytest.mark.mission("CFG-28", "R-12")
def test_a_program_finds_the_settings_in_the_metrics_and_in_the_configuration() -> None:
    with Producer(bootstrap_servers="127.0.0.1:1") as producer:
        wanted = {
            "enable.idempotence": True,
            "retries": 2147483647,
            "acks": "-1",
            "max.in.flight.requests.per.connection": 5,
        }
        metrics = producer.metrics()
        assert {key: metrics.get(key) for key in wanted} == wanted
        assert {key: producer.config[key] for key in wanted} == wanted


def test_a_blocking_producer_measures_its_waits(tmp_path: Path) -> None:
    """For the topic, with the first record; and for memory, when the second does not fit beside it."""
    size = 20_000
    with (
        ThreadBroker(tmp_path) as broker,
        Producer(
            bootstrap_servers=broker.bootstrap, batch_size=100, linger_ms=10, buffer_memory=int(1.5 * size)
        ) as producer,
    ):
        for _ in range(100):
            producer.send("t", bytes(size))
        producer.flush()
        shown = producer.metrics()
        assert shown["metadata-wait-time-ns-total"] > 0
        assert shown["bufferpool-wait-time-ns-total"] > 0
