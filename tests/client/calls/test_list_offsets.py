"""Where partitions are at a time: at their beginning, at their end, at the first record from then on.

Method: the real broker in a simulation, with records of known times.
"""

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.client.calls.create_topics import create_topic
from semel.client.calls.list_offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    FoundOffset,
    list_offsets,
    offsets_at,
)
from semel.client.cluster import Cluster
from semel.client.config import ClientConfig
from semel.client.producer.producer import AsyncProducer
from semel.errors import RefusedError
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from support.net.net_worlds import in_simulation

ADDRESS = "127.0.0.1:9092"


def test_places_in_time() -> None:
    async def story(runtime: Runtime) -> None:
        broker = Broker(
            BrokerConfig.of({"listeners": f"PLAINTEXT://{ADDRESS}", "log.dirs": "/data"}), runtime
        )
        await broker.start()
        async with (
            Cluster(runtime, ClientConfig.of({"bootstrap.servers": ADDRESS})) as cluster,
            AsyncProducer(bootstrap_servers=ADDRESS, runtime=runtime) as producer,
        ):
            await create_topic(cluster, "t", partitions=2)
            first, second = TopicPartition("t", 0), TopicPartition("t", 1)
            now = runtime.clock.now_ms()
            for step in (0, 10, 20):
                await producer.send("t", b"x", partition=0, timestamp=now + step)
            await producer.flush()
            assert await offsets_at(cluster, {first: EARLIEST, second: EARLIEST}) == {first: 0, second: 0}
            assert await offsets_at(cluster, {first: LATEST, second: LATEST}) == {first: 3, second: 0}
            assert await offsets_at(cluster, {first: now + 5, second: now + 5}) == {first: 1, second: 0}
            assert await offsets_at(cluster, {first: now + 50, second: EARLIEST}) == {first: 3, second: 0}
            (newest,) = (await list_offsets(cluster, {first: MAX_TIMESTAMP})).values()
            assert isinstance(newest, FoundOffset)
            assert (newest.offset, newest.timestamp) == (2, now + 20)
            beyond = TopicPartition("t", 2)
            with pytest.raises(RefusedError, match=r"topic t at .* has partitions 0 to 1, not 2"):
                await offsets_at(cluster, {first: LATEST, beyond: LATEST})
        await broker.stop()

    in_simulation(story)
