"""A client's metrics must be Java's: the same numbers from the same events, under the same names.

Method: random events at random times go to our statistics and to Kafka's own, and both are asked in between. Names are
compared with those a Java producer and consumer have.
"""

import asyncio
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from semel.client.client_metrics import ConsumerMetrics, ProducerMetrics
from semel.client.metrics import Avg, Max, MetricName, Metrics, Rate, report
from semel.client.settings import ConsumerConfig, ProducerConfig
from semel.peers.kafka import KafkaHome
from semel.runtime.tasks import RealTasks
from semel.types import TopicPartition

WINDOWS: Final = str(Path(__file__).parents[1] / "java" / "MetricWindows.java")
NAMES: Final = str(Path(__file__).parents[1] / "java" / "MetricNames.java")
WITHOUT_MEANING: Final = (
    "authentication",
    "reauthentication",
    "io-",
    "select-",
    "network-io-",
    "-byte-",
    "request-size",
    "connection-close",
    "bufferpool-wait-ratio",
    "last-rebalance-seconds-ago",
)
"""Java's selector, its logins, and what is not counted here."""


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.mark.java
@pytest.mark.parametrize(("samples", "window_ms", "seed"), [(2, 30_000, 1), (5, 250, 3)])
def test_windows_are_javas(kafka_home: KafkaHome, samples: int, window_ms: int, seed: int) -> None:
    dice = random.Random(seed)
    rate, avg, highest = Rate(samples, window_ms), Avg(samples, window_ms), Max(samples, window_ms)
    asked: list[str] = []
    ours: list[tuple[float, float, float]] = []
    now_ms = 1_000_000
    for _ in range(400):
        now_ms += int(dice.expovariate(1) * window_ms * dice.choice((0.01, 0.3, 2.5)))
        if dice.random() < 0.3 and asked:  # Java begins its window when it is first touched.
            asked.append(f"{now_ms} ?")
            ours.append((rate.measure(now_ms), avg.measure(now_ms), highest.measure(now_ms)))
        else:
            value = float(dice.randrange(1, 1000))
            asked.append(f"{now_ms} {value}")
            for stat in (rate, avg, highest):
                stat.record(value, now_ms)
    answer = kafka_home.run(WINDOWS, str(samples), str(window_ms), stdin="\n".join(asked) + "\n")
    theirs = [tuple(map(float, line.split())) for line in answer.splitlines()]
    assert len(theirs) == len(ours)
    assert len(theirs) > 50
    for number, (mine, javas) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == pytest.approx(javas, nan_ok=True), number


@pytest.mark.java
def test_names_are_javas(kafka_home: KafkaHome) -> None:
    theirs = {MetricName(name, group) for group, name in map(str.split, kafka_home.run(NAMES).splitlines())}
    watch = Watch()
    producer = ProducerMetrics(ProducerConfig.of(bootstrap_servers="a:1"), watch)
    producer.watch(
        buffer_total_bytes=lambda: 1,
        buffer_available_bytes=lambda: 1,
        waiting_threads=lambda: 0,
        requests_in_flight=lambda: 0,
        metadata_age_s=lambda: 0,
    )
    consumer = ConsumerMetrics(ConsumerConfig.of(bootstrap_servers="a:1", group_id="g"), watch)
    ours = {*producer.snapshot(), *consumer.snapshot()}
    assert ours <= theirs
    left_out = {
        one
        for one in theirs - ours
        if one.group not in ("app-info", "kafka-metrics-count")
        and not any(word in one.name for word in WITHOUT_MEANING)
    }
    assert left_out == set()


def test_a_steady_rate_is_shown_within_five_percent() -> None:
    watch = Watch()
    metrics = ProducerMetrics(ProducerConfig.of(bootstrap_servers="a:1"), watch)
    for _ in range(900):  # 90 seconds of a batch of 250 records every 100 ms.
        watch.now_ms += 100
        metrics.batch_sent(
            "t", records=250, size_bytes=9, uncompressed_bytes=9, queued_ms=1, record_max_bytes=1
        )
    assert metrics.snapshot()["record-send-rate"] == pytest.approx(2500, rel=0.05)
    assert metrics.snapshot()["record-send-total"] == 250 * 900
    topics = MetricName("record-send-total", "producer-topic-metrics", (("topic", "t"),))
    assert metrics.snapshot()[topics] == 250 * 900


def test_a_latency_is_averaged_and_its_greatest_kept() -> None:
    watch = Watch()
    metrics = ProducerMetrics(ProducerConfig.of(bootstrap_servers="a:1"), watch)
    assert math.isnan(metrics.snapshot()["request-latency-avg"])
    for latency_ms in (10, 20, 60):
        watch.now_ms += 500
        metrics.produce_answered(latency_ms=latency_ms)
    shown = metrics.snapshot()
    assert shown["request-latency-avg"] == 30
    assert shown[MetricName("request-latency-max", "producer-metrics")] == 60
    watch.now_ms += 120_000
    assert math.isnan(metrics.snapshot()["request-latency-avg"])


def test_settings_are_answered_beside_the_metrics() -> None:
    metrics = ProducerMetrics(ProducerConfig.of(bootstrap_servers="a:1"), Watch()).snapshot()
    asked = ("enable.idempotence", "retries", "acks", "max.in.flight.requests.per.connection")
    assert [metrics.get(key) for key in asked] == [True, 2147483647, "-1", 5]
    assert "acks" in metrics
    assert metrics.get("no.such.thing", "nothing") == "nothing"
    assert not {str(key) for key in metrics} & set(asked)  # Answered, and not listed among the metrics.
    with pytest.raises(KeyError):
        metrics[7]


def test_what_a_consumer_reads_and_how_far_behind_it_is() -> None:
    watch = Watch()
    metrics = ConsumerMetrics(ConsumerConfig.of(bootstrap_servers="a:1", group_id="g"), watch)
    first = TopicPartition("t", 0)
    metrics.assigned(1)
    metrics.fetched(latency_ms=5, size_bytes=1000, records=10)
    metrics.position(first, lag=40, lead=10)
    metrics.position(first, lag=30, lead=20)
    metrics.polled(idle_ms=0)
    watch.now_ms += 1000
    metrics.polled(idle_ms=250)
    shown = metrics.snapshot()
    lag = MetricName("records-lag", "consumer-fetch-manager-metrics", (("partition", "0"), ("topic", "t")))
    assert (shown["records-lag-max"], shown["records-lead-min"], shown[lag]) == (40, 10, 30)
    assert (shown["records-consumed-total"], shown["bytes-consumed-total"]) == (10, 1000)
    assert (shown["poll-idle-ratio-avg"], shown["time-between-poll-avg"]) == (0.25, 1000)
    assert (shown["fetch-total"], shown["fetch-latency-avg"], shown["assigned-partitions"]) == (1, 5, 1)
    metrics.released(first)
    assert lag not in metrics.snapshot()


def test_text_for_prometheus() -> None:
    metrics = Metrics(Watch(), client_id='a"b')
    metrics.sensor("producer-metrics").meter("record-error").record(3)
    metrics.gauge("records-lag", "consumer-fetch-manager-metrics", lambda: 1.5, topic="t")
    assert metrics.prometheus() == (
        "# TYPE kafka_consumer_consumer_fetch_manager_metrics_records_lag gauge\n"
        'kafka_consumer_consumer_fetch_manager_metrics_records_lag{client_id="a\\"b",topic="t"} 1.5\n'
        "# TYPE kafka_producer_producer_metrics_record_error_rate gauge\n"
        'kafka_producer_producer_metrics_record_error_rate{client_id="a\\"b"} 0.1\n'
        "# TYPE kafka_producer_producer_metrics_record_error_total counter\n"
        'kafka_producer_producer_metrics_record_error_total{client_id="a\\"b"} 3\n'
    )


def test_a_table_for_notebooks() -> None:
    metrics = Metrics(Watch(), client_id="c")
    metrics.gauge("<name>", "group", lambda: 2.0)
    assert "<td>&lt;name&gt;</td><td></td><td>2</td>" in metrics.snapshot()._repr_html_()


def test_reporters_are_called_and_one_that_fails_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics(Watch(), client_id="c")
    metrics.gauge("one", "group", lambda: 1.0)
    seen: list[Mapping[Any, float]] = []

    async def story() -> None:
        enough = asyncio.Event()

        def good(values: Mapping[Any, float]) -> None:
            seen.append(values)
            if len(seen) == 2:
                enough.set()

        def bad(_values: Mapping[Any, float]) -> None:
            raise ValueError("broken")

        tasks = RealTasks(threads_max=1)
        tasks.spawn(report(metrics, (bad, good), tasks, interval_ms=1), name="report")
        await enough.wait()
        await tasks.close()

    asyncio.run(story())
    assert seen[0]["one"] == 1.0
    assert "metric reporter" in caplog.text
