"""Where partitions are at a time: at their beginning, at their end, at the first record from then on.

Method: the real broker in a simulation, with records of known times.
"""

from net_worlds import in_simulation
from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.client import admin
from semel.client.cluster import Cluster
from semel.client.config import ClientConfig
from semel.client.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP, list_offsets, offsets_at
from semel.client.producer.producer import AsyncProducer
from semel.runtime.bundle import Runtime

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
            await admin.create_topic(cluster, "t", partitions=2)
            topic = await cluster.topic("t")
            now = runtime.clock.now_ms()
            for step in (0, 10, 20):
                await producer.send("t", b"x", partition=0, timestamp=now + step)
            await producer.flush()
            assert await offsets_at(cluster, topic, [0, 1], EARLIEST) == {0: 0, 1: 0}
            assert await offsets_at(cluster, topic, [0, 1], LATEST) == {0: 3, 1: 0}
            assert await offsets_at(cluster, topic, [0, 1], now + 5) == {0: 1, 1: 0}
            assert await offsets_at(cluster, topic, [0, 1], now + 50) == {0: 3, 1: 0}
            (newest,) = (await list_offsets(cluster, topic, [0], MAX_TIMESTAMP)).values()
            assert (newest.offset, newest.timestamp) == (2, now + 20)
        await broker.stop()

    in_simulation(story)
