"""A consumer measures what it does, under the names of Java's consumer.

Method: the real broker and the real consumer in a simulation, where a second takes as long as it says.
"""

from typing import Any

import pytest

from semel.client.consumer.consumer import AsyncConsumer
from semel.client.metrics import MetricName
from semel.types import TopicPartition
from support.client.reading_kit import ADDRESS, ReadingWorld, take, told

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_is_read_committed_and_rebalanced_is_counted(protocol: str) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"x" * 100 for _ in range(300)])
        world.transact("t", 7, [b"aborted"], commit=False)
        async with world.consumer(
            group_id="g", group_protocol=protocol, enable_auto_commit=False
        ) as consumer:
            consumer.subscribe(["t"])
            consumer_began = world.runtime.clock.monotonic()
            await take(consumer, 300)
            for _ in range(10):
                await consumer.poll(1_000)
            await consumer.commit()
            metrics = consumer.metrics()
            assert metrics["records-consumed-total"] == 300
            assert metrics["bytes-consumed-total"] > 300 * 100
            assert metrics["records-consumed-rate"] > 0
            assert metrics["fetch-total"] >= 10
            assert metrics["fetch-latency-max"] >= 500, "an empty fetch waits for fetch.max.wait.ms"
            assert metrics["records-lag-max"] <= 2, "only what is hidden was left"
            assert metrics["commit-total"] == 1
            assert metrics["assigned-partitions"] == 1
            assert metrics["rebalance-total"] == 1
            assert metrics["heartbeat-total"] >= 1
            assert metrics["connection-count"] == 3, (
                "for answers, for records that are waited for, for the group"
            )
            assert metrics["connection-creation-total"] == 3
            assert metrics["request-total"] >= metrics["response-total"] > metrics["fetch-total"]
            assert 0 <= metrics["last-poll-seconds-ago"] < world.runtime.clock.monotonic() - consumer_began
            assert 0 < metrics["poll-idle-ratio-avg"] <= 1
            tags = (("partition", "0"), ("topic", "t"))
            lag = {one.name for one in metrics if isinstance(one, MetricName) and set(one.tags) == set(tags)}
            assert "records-lag" in lag

    told(story)


def test_reporters_are_given_the_metrics() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        heard: list[Any] = []
        settings = {"bootstrap_servers": ADDRESS, "metric_reporters": [heard.append], "client_id": "measured"}
        async with AsyncConsumer(settings, runtime=world.runtime) as consumer:
            consumer.assign([T0])
            await consumer.position(T0)
            await world.runtime.tasks.sleep(61)
        assert len(heard) == 2
        assert heard[0]["assigned-partitions"] == 1

    told(story)
