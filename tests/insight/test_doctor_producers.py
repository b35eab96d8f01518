"""Too many producers remembered: the doctor counts them and says how old their records are, and a lower expiry lets them go.

Method: the real broker, producers and doctor in a simulation, over hours of its clock.
"""

import pytest

from semel import ConfigResource, ConfigResourceType, NewTopic
from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.client.admin.client import AsyncAdmin
from semel.client.cluster import Cluster
from semel.client.config import ClientConfig
from semel.client.producer.producer import AsyncProducer
from semel.insight.doctor import examine
from semel.insight.sentences import time_text
from semel.runtime.bundle import Runtime
from support.net.net_worlds import in_simulation

ADDRESS = "127.0.0.1:9092"
PRODUCERS = 12
HOUR_S = 3600
CHECK_S = 60


async def _told_of_producers(runtime: Runtime) -> str:
    async with Cluster(runtime, ClientConfig.of({"bootstrap.servers": ADDRESS})) as cluster:
        (told,) = [one.text for one in await examine(cluster) if one.text.startswith("Partitions remember")]
    return told


@pytest.mark.mission("GUIDE-09")
def test_idle_producers_are_counted_and_a_lower_expiry_lets_them_go_while_the_broker_runs() -> None:
    async def story(runtime: Runtime) -> None:
        settings = {
            "listeners": f"PLAINTEXT://{ADDRESS}",
            "log.dirs": "/data",
            "producer.id.expiration.check.interval.ms": str(CHECK_S * 1000),
        }
        broker = Broker(BrokerConfig.of(settings), runtime)
        await broker.start()
        async with AsyncAdmin(bootstrap_servers=ADDRESS, runtime=runtime) as admin:
            await admin.create_topics(NewTopic("t"))
        for number in range(PRODUCERS):
            async with AsyncProducer(bootstrap_servers=ADDRESS, runtime=runtime) as producer:
                await producer.send("t", value=b"%d" % number)
        await runtime.tasks.sleep(3 * HOUR_S)
        told = await _told_of_producers(runtime)
        assert told.startswith(f"Partitions remember {PRODUCERS} producers in {PRODUCERS} entries; ")
        assert f"the last records of {PRODUCERS} have timestamps over an hour old, the oldest of " in told
        assert "producer.id.expiration.ms" in told
        async with AsyncAdmin(bootstrap_servers=ADDRESS, runtime=runtime) as admin:
            everywhere = ConfigResource(ConfigResourceType.BROKER, "")
            lower = {"producer.id.expiration.ms": str(HOUR_S * 1000)}
            await admin.incremental_alter_configs({everywhere: lower})
        await runtime.tasks.sleep(2 * CHECK_S)
        assert (await _told_of_producers(runtime)) == "Partitions remember 0 producers in 0 entries."
        await broker.stop()

    in_simulation(story)


def test_a_record_with_an_old_timestamp_makes_no_producer_idle_and_no_transaction_hang() -> None:
    """Events of last year, written just now, and by a transaction that is open since just now."""

    async def story(runtime: Runtime) -> None:
        broker = Broker(
            BrokerConfig.of({"listeners": f"PLAINTEXT://{ADDRESS}", "log.dirs": "/data"}), runtime
        )
        await broker.start()
        names = {"bootstrap.servers": ADDRESS}
        last_year_ms = runtime.clock.now_ms() - 7712 * HOUR_S * 1000
        async with (
            AsyncProducer(names, runtime=runtime) as plain,
            AsyncProducer({**names, "transactional.id": "backfill"}, runtime=runtime) as producer,
        ):
            await plain.send("t", value=b"old", timestamp=last_year_ms)
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send("t", value=b"older", timestamp=last_year_ms)
            await producer.flush()
            async with Cluster(runtime, ClientConfig.of(names)) as cluster:
                sentences = await examine(cluster)
            (told,) = [one.text for one in sentences if one.text.startswith("Partitions remember")]
            assert told == (
                "Partitions remember 2 producers in 2 entries; the last records of 2 have timestamps over an hour old, the oldest "
                f"of {time_text(last_year_ms)}: idle, or with times of their own (producer.id.expiration.ms forgets them)."
            )
            assert not [one for one in sentences if "transaction" in one.text]
            await producer.abort_transaction()
        await broker.stop()

    in_simulation(story)
