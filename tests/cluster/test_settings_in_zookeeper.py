"""A member has the settings that ZooKeeper has: those at its start, every change in order, through whatever happens.

Method: a store in a simulated world, where another client writes settings and notifications as Kafka's tools do; ZooKeeper loses
answers, dies, and ends sessions.
"""

import asyncio
import json
import logging
import uuid

import pytest

from semel.cluster.store import ChangeRefusedError, MetadataAwayError, NotControllerError, UnservedChangeError
from semel.core.cluster import documents, paths
from semel.core.cluster.documents import encode_configs
from semel.core.metadata.deltas import BrokerConfigured, TopicConfigured
from semel.core.metadata.image import DEFAULT_BROKER
from semel.core.metadata.partition_state import alone
from semel.core.metadata.rows import (
    BrokerConfigRow,
    ClientQuotaRow,
    GroupConfigRow,
    ScramRow,
    TopicConfigRow,
    TopicGoneRow,
    TopicRow,
    TopicStatesRow,
)
from semel.core.security.scram_credentials import Credential, Mechanism
from support.cluster.member_kit import Noted, World, until

ONE = uuid.UUID(int=1)


def test_everything_is_read_at_the_start() -> None:
    async def story(world: World) -> None:
        await world.put("topics/orders", {"retention.ms": "1000"})
        await world.put("brokers/<default>", {"log.cleaner.threads": "2"})
        await world.put("brokers/1", {"log.cleaner.threads": "3"})
        await world.put("brokers/2", {"log.cleaner.threads": "4"})
        await world.put(
            "users/ann%20b",
            {
                "producer_byte_rate": "1024",
                "SCRAM-SHA-256": "salt=YWI=,stored_key=Y2Q=,server_key=ZWY=,iterations=4096",
            },
        )
        await world.put("users/<default>/clients/app", {"request_percentage": "50.0"})
        await world.put("clients/<default>", {"consumer_byte_rate": "2048"})
        await world.put("ips/10.0.0.1", {"connection_creation_rate": "5"})
        image = (await world.started()).image
        assert image.topic_configs("orders") == {"retention.ms": "1000"}
        assert image.broker_configs(DEFAULT_BROKER) == {"log.cleaner.threads": "2"}
        assert image.broker_configs("1") == {"log.cleaner.threads": "3"}
        assert image.broker_configs("2") == {}
        assert image.client_quotas == {
            (("user", "ann b"),): {"producer_byte_rate": 1024.0},
            (("client-id", "app"), ("user", None)): {"request_percentage": 50.0},
            (("client-id", None),): {"consumer_byte_rate": 2048.0},
            (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
        }
        assert image.scram == {("ann b", Mechanism.SHA_256): Credential(4096, b"ab", b"cd", b"ef")}

    World().run(story)


def test_a_change_takes_effect_when_it_is_told() -> None:
    async def story(world: World) -> None:
        store, noted = await world.started(), Noted()
        await store.tell([TopicStatesRow("orders", ONE, dict(enumerate(alone(1, 1))))])
        await store.feed(noted)
        await world.put("topics/orders", {"retention.ms": "1"})
        await until(lambda: store.image.topic_configs("orders") == {"retention.ms": "1"})
        await world.put("brokers/1", {"log.cleaner.threads": "3"})
        await until(lambda: store.image.broker_configs("1"))
        assert [type(one) for one in noted.deltas[-2:]] == [TopicConfigured, BrokerConfigured]
        await world.put("topics/orders", {})
        await until(lambda: not store.image.topic_configs("orders"))
        old = json.dumps({"version": 1, "entity_type": "topics", "entity_name": "orders"}).encode()
        await world.put("topics/orders", {"retention.ms": "2"}, told=False)
        await world.kafka.create(paths.CONFIG_CHANGE_PREFIX, old, flags=2)
        await until(lambda: store.image.topic_configs("orders") == {"retention.ms": "2"})

    World().run(story)


def test_unreadable_nodes_are_named_once_and_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        await world.put("topics/good", {"retention.ms": "1"})
        await world.put("topics/mixed", {"retention.ms": "2", "made.up": "x", "segment.ms": "never"})
        await world.put("topics/broken", {"retention.ms": "3"})
        store = await world.started()
        await world.kafka.set("/config/topics/broken", b"{")
        for _ in range(2):
            await world.tell("topics/broken")
        await world.kafka.create(paths.CONFIG_CHANGE_PREFIX, b"no json", flags=2)
        await world.tell("planets/mars")
        await world.put("topics/good", {"retention.ms": "4"})
        await until(lambda: store.image.topic_configs("good") == {"retention.ms": "4"})
        assert store.image.topic_configs("broken") == {"retention.ms": "3"}
        assert store.image.topic_configs("mixed") == {"retention.ms": "2"}

    with caplog.at_level(logging.ERROR):
        World().run(story)
    said = [record.getMessage() for record in caplog.records]
    assert len([one for one in said if "/config/topics/broken" in one]) == 1
    assert (
        len(
            [
                one
                for one in said
                if "/config/topics/mixed" in one and "made.up" in one and "segment.ms" in one
            ]
        )
        == 1
    )
    assert len([one for one in said if "/config/changes/config_change_" in one]) == 2
    assert len(said) == 4


def test_nothing_is_missed_while_the_session_is_lost() -> None:
    async def story(world: World) -> None:
        await world.put("topics/gone", {"retention.ms": "1"})
        store = await world.started()
        world.simulation.network.partition("broker1", "zookeeper")
        world.ensemble.expire(store.member.client.session_id)
        await world.put("topics/orders", {"retention.ms": "5"})
        await world.kafka.delete("/config/topics/gone")
        for name in await world.kafka.children(paths.CONFIG_CHANGES) or ():
            await world.kafka.delete(f"{paths.CONFIG_CHANGES}/{name}")  # As after fifteen minutes.
        world.simulation.network.heal()
        await until(lambda: store.image.topic_configs("orders"))
        await until(lambda: not store.image.topic_configs("gone"))
        await world.put("topics/orders", {"retention.ms": "6"})
        await until(lambda: store.image.topic_configs("orders") == {"retention.ms": "6"})

    World().run(story)


@pytest.mark.parametrize("lost", range(3))
def test_a_change_is_written_and_told_whichever_answer_is_lost(lost: int) -> None:
    """`lost` writes are answered, and the answer to the one after them is not."""

    async def story(world: World) -> None:
        await world.elect()
        store, other = await world.started(1), await world.started(2)
        await store.tell([TopicStatesRow("orders", ONE, dict(enumerate(alone(1, 1))))])
        row = store.image.topic("orders")
        assert row is not None
        world.ensemble.machine.to_answer = lost
        await store.commit([TopicRow("orders", ONE, row.states, {"retention.ms": "7"})])
        assert world.ensemble.machine.to_answer < 0  # It was lost.
        assert store.image.topic_configs("orders") == {"retention.ms": "7"}
        assert documents.decode_configs("", world.data("/config/topics/orders")) == {"retention.ms": "7"}
        await until(lambda: other.image.topic_configs("orders") == {"retention.ms": "7"})

    World(lost).run(story)


def test_settings_of_others_stay() -> None:
    """Two brokers change one topic at the same moment, and neither has heard of the other."""

    async def story(world: World) -> None:
        await world.elect()
        stores = [await world.started(number) for number in (1, 2)]
        for store in stores:
            await store.tell([TopicStatesRow("orders", ONE, dict(enumerate(alone(1, 1))))])
        await world.put("topics/orders", {"made.up": "of Kafka's"}, told=False)
        changes = ({"retention.ms": "1"}, {"segment.ms": "2"})
        await asyncio.gather(
            *(
                store.commit([TopicConfigRow("orders", configs)])
                for store, configs in zip(stores, changes, strict=True)
            )
        )
        wanted = {"retention.ms": "1", "segment.ms": "2"}
        found = documents.decode_configs("", world.data("/config/topics/orders"))
        assert found == {**wanted, "made.up": "of Kafka's"}
        for store in stores:
            await until(lambda store=store: store.image.topic_configs("orders") == wanted)  # type: ignore[misc]

    World().run(story)


def test_quotas_come_and_their_empty_nodes_go() -> None:
    async def story(world: World) -> None:
        await world.elect()
        store = await world.started()
        both = (("client-id", "app"), ("user", "ann"))
        await store.commit([ClientQuotaRow(both, {"producer_byte_rate": 10.0, "request_percentage": 0.5})])
        found = documents.decode_configs("", world.data("/config/users/ann/clients/app"))
        assert found == {"producer_byte_rate": "10", "request_percentage": "0.5"}
        await world.put(
            "users/ann", {"SCRAM-SHA-512": "salt=YWI=,stored_key=Y2Q=,server_key=ZWY=,iterations=4096"}
        )
        await until(lambda: store.image.scram)
        await store.commit([ClientQuotaRow((("user", "ann"),), {"consumer_byte_rate": 5.0})])
        await store.commit([ClientQuotaRow((("user", "ann"),)), ClientQuotaRow(both)])
        assert not world.has("/config/users/ann/clients")
        assert "SCRAM-SHA-512" in documents.decode_configs("", world.data("/config/users/ann"))
        assert store.image.client_quotas == {}
        await store.commit([ClientQuotaRow((("ip", "10.0.0.1"),), {"connection_creation_rate": 3.0})])
        await store.commit([ClientQuotaRow((("ip", "10.0.0.1"),))])
        assert not world.has("/config/ips/10.0.0.1")

    World().run(story)


def test_what_a_member_may_not_decide_is_refused() -> None:
    async def story(world: World) -> None:
        store = await world.started()
        await store.tell([TopicStatesRow("orders", ONE, dict(enumerate(alone(1, 1))))])
        for row in (
            TopicRow("new", ONE, alone(1, 1)),
            TopicRow("orders", ONE, alone(1, 2)),
            TopicGoneRow("orders"),
        ):
            with pytest.raises(NotControllerError, match="controller"):
                await store.commit([row])
        with pytest.raises(UnservedChangeError, match="group g"):
            await store.commit([GroupConfigRow("g", {"consumer.session.timeout.ms": "1"})])
        with pytest.raises(UnservedChangeError, match="secrets"):
            await store.commit([BrokerConfigRow("1", {"ssl.key.password": "x"})])
        with pytest.raises(NotControllerError, match="no controller"):
            await store.commit([BrokerConfigRow("1", {"log.cleaner.threads": "2"})])
        await world.kafka.create(
            paths.CONTROLLER, b'{"version":2,"brokerid":3000,"timestamp":"0","kraftControllerEpoch":4}'
        )
        with pytest.raises(NotControllerError, match="KRaft"):
            await store.commit([BrokerConfigRow("1", {"log.cleaner.threads": "2"})])
        assert not world.has("/config/brokers/1")

    World().run(story)


@pytest.mark.parametrize("lost", range(4))
def test_credentials_are_the_controllers_to_write(lost: int) -> None:
    """Beside the quotas of their user, and whatever answer of ZooKeeper is lost."""

    async def story(world: World) -> None:
        await world.elect()
        store, other = await world.started(1), await world.started(2)
        credential = Credential(4096, b"ab", b"cd", b"ef")
        made = ScramRow("ann b", Mechanism.SHA_512, credential)
        with pytest.raises(NotControllerError, match="controller"):
            await store.commit([made])
        store.controls = lambda: True
        await store.commit([ClientQuotaRow((("user", "ann b"),), {"consumer_byte_rate": 5.0})])
        world.ensemble.machine.to_answer = lost
        await store.commit([made])
        assert documents.decode_configs("", world.data("/config/users/ann%20b")) == {
            "SCRAM-SHA-512": "salt=YWI=,stored_key=Y2Q=,server_key=ZWY=,iterations=4096",
            "consumer_byte_rate": "5",
        }
        assert store.image.scram == {("ann b", Mechanism.SHA_512): credential}
        await until(lambda: other.image.scram == store.image.scram)
        await store.commit([ScramRow("ann b", Mechanism.SHA_512, None)])
        assert documents.decode_configs("", world.data("/config/users/ann%20b")) == {
            "consumer_byte_rate": "5"
        }
        await until(lambda: other.image.scram == {})
        await store.commit([ClientQuotaRow((("user", "ann b"),))])
        assert not world.has("/config/users/ann%20b")

    World(lost).run(story)


def test_without_zookeeper_a_change_is_refused_in_time_and_reads_go_on() -> None:
    async def story(world: World) -> None:
        await world.elect()
        await world.put("topics/orders", {"retention.ms": "1"})
        store = await world.started()
        world.ensemble.kill(pause=60)
        begun = store.member.runtime.clock.monotonic()
        await until(lambda: not store.member.client.is_connected)
        with pytest.raises(MetadataAwayError, match="nothing was changed"):
            await store.commit([BrokerConfigRow("1", {"log.cleaner.threads": "2"})])
        await store.load_topic_configs(["later"])
        assert store.member.runtime.clock.monotonic() - begun < 30
        assert store.image.topic_configs("orders") == {"retention.ms": "1"}
        await until(lambda: store.member.client.is_connected)
        await world.put("topics/later", {"retention.ms": "2"}, told=False)
        await store.load_topic_configs(["later"], anew=True)
        assert store.image.topic_configs("later") == {"retention.ms": "2"}
        await store.commit([BrokerConfigRow("1", {"log.cleaner.threads": "2"})])

    World().run(story)


def test_a_topic_made_again_has_the_settings_of_its_new_life() -> None:
    async def story(world: World) -> None:
        await world.put("topics/orders", {"retention.ms": "1"})
        store = await world.started()
        await store.tell([TopicStatesRow("orders", ONE, dict(enumerate(alone(1, 1))))])
        await world.kafka.set("/config/topics/orders", encode_configs({"retention.ms": "2"}))
        await store.tell([TopicStatesRow("orders", uuid.UUID(int=2), dict(enumerate(alone(1, 1))))])
        await store.load_topic_configs(["orders"])
        assert store.image.topic_configs("orders") == {"retention.ms": "2"}

    World().run(story)


def test_old_notifications_are_removed_by_whoever_comes_first() -> None:
    async def story(world: World) -> None:
        store = await world.started()
        await world.put("topics/a", {"retention.ms": "1"})
        await asyncio.sleep(901)
        await world.put("topics/b", {"retention.ms": "1"})
        await until(lambda: len(world.ensemble.machine.tree.node(paths.CONFIG_CHANGES).children) == 1)
        assert store.image.topic_configs("b")

    World().run(story)


def test_a_closed_store_answers_at_once() -> None:
    async def story(world: World) -> None:
        store = await world.started()
        world.ensemble.kill(pause=1000)
        await store.close()
        with pytest.raises(ChangeRefusedError, match="closed"):
            await store.commit([BrokerConfigRow("1", {"log.cleaner.threads": "2"})])

    World().run(story)
