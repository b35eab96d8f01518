"""A broker is a member of the right cluster, under an id and endpoints that nobody else has, through all of its sessions.

Method: members in a simulated world, whose ZooKeeper loses answers, dies, ends sessions and keeps people out; what is written is
looked at in ZooKeeper's tree.
"""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from semel.cluster.config_nodes import ConfigNodes
from semel.cluster.finalized_features import UnsupportedFeatureError
from semel.cluster.member import NotPermittedError, OtherClusterError
from semel.cluster.registration import DuplicateBrokerIdError, EndpointTakenError
from semel.cluster.zookeeper.client import ZooKeeperUnreachableError
from semel.core.cluster import documents, paths
from semel.core.cluster.documents import ZnodeError
from semel.core.metadata.brokers import Endpoint
from semel.core.zookeeper.wire.messages import SetAcl
from semel.core.zookeeper.words import Acl
from semel.runtime.bundle import Runtime
from support.cluster.member_kit import SESSION_MS, World, broker, listening, until

READ_ONLY = (Acl(1, "world", "anyone"),)


def test_the_first_member_makes_the_tree_and_the_next_ones_find_it() -> None:
    async def story(world: World) -> None:
        members = [world.member(world.simulation.host(name).boot(), "/deep/down") for name in ("a", "b", "c")]
        for member in members:
            await member.connect()
        ids = await asyncio.gather(
            *(member.cluster_id(suggested) for member, suggested in zip(members, "xyz", strict=True))
        )
        assert len(set(ids)) == 1
        assert world.data("/deep/down/cluster/id") == documents.encode_cluster_id(ids[0])
        assert all(world.has(f"/deep/down{path}") for path in paths.PERSISTENT)
        assert await members[0].cluster_id("other", known=ids[0]) == ids[0]
        numbers = await asyncio.gather(*(member.generated_broker_id(1000) for member in members))
        assert sorted(numbers) == [1001, 1002, 1003]

    World().run(story)


def test_a_wrong_chroot_is_refused_and_left_as_it_is() -> None:
    async def story(world: World) -> None:
        known = world.member(world.simulation.host("a").boot(), "/right")
        await known.connect()
        await known.cluster_id("mine")
        lost = world.member(world.simulation.host("b").boot(), "/wrong")
        await lost.connect()
        with pytest.raises(
            OtherClusterError, match=r"no cluster is at .*zookeeper:2181/wrong.* cluster mine"
        ):
            await lost.cluster_id("suggested", known="mine")
        assert not world.has("/wrong")
        with pytest.raises(
            OtherClusterError, match=r"cluster mine is at .*/right.* belongs to cluster yours"
        ):
            await known.cluster_id("suggested", known="yours")
        await world.kafka.set("/right/cluster/id", b"{}")
        with pytest.raises(ZnodeError, match="/cluster/id"):
            await known.cluster_id("suggested")

    World().run(story)


def test_zookeeper_that_is_not_there_and_another_server_in_its_place() -> None:
    async def story(world: World) -> None:
        runtime = world.simulation.host("a").boot()
        world.ensemble.kill(pause=1000)
        with pytest.raises(
            ZooKeeperUnreachableError, match=r"zookeeper:2181 .*cannot be reached.*does it run"
        ):
            await world.member(runtime).connect()

    World().run(story)

    async def other(world: World) -> None:
        world.ensemble.kill(pause=1000)
        host = world.simulation.host("zookeeper").boot()
        async with listening(host, "zookeeper", 2181):
            with pytest.raises(ZooKeeperUnreachableError, match=r"was silent.*another server may listen"):
                await world.member(world.simulation.host("a").boot()).connect()

    World().run(other)


@pytest.mark.parametrize("path", ["/", "/kafka", "/kafka/brokers/ids", "/kafka/cluster"])
def test_nodes_that_may_not_be_written(path: str) -> None:
    """Where everything is made already nothing needs a right above the chroot."""

    async def story(world: World) -> None:
        if path != "/":
            first = world.member(world.simulation.host("a").boot(), "/kafka")
            await first.connect()
            await first.cluster_id("mine")
        await world.kafka.ask(SetAcl(path, READ_ONLY, -1))
        member = world.member(world.simulation.host("b").boot(), "/kafka")
        await member.connect()
        if path == "/":
            with pytest.raises(NotPermittedError, match=r"Create of /kafka: .*setAcl"):
                await member.cluster_id("mine")
            return
        assert await member.cluster_id("mine", known="mine") == "mine"
        store = world.store(member)
        await store.start()
        if path == "/kafka/brokers/ids":
            with pytest.raises(NotPermittedError, match=r"/kafka/brokers/ids/1"):
                await store.register(broker(1))
        else:
            await store.register(broker(1))

    World().run(story)


@pytest.mark.mission("ZK-03", "ZK-06")
@pytest.mark.parametrize("lost", [-1, 0, 1])
def test_a_broker_registers_as_kafka_does(lost: int) -> None:
    async def story(world: World) -> None:
        store = await world.started()
        world.ensemble.machine.to_answer = lost
        await store.register(broker(1, rack="r1"))
        node = world.ensemble.machine.tree.node("/brokers/ids/1")
        assert store.broker_epoch == node.stat().czxid
        assert node.stat().ephemeral_owner == store.member.client.session_id
        found = documents.decode_broker(1, node.data)
        assert found.endpoints == {"PLAINTEXT": Endpoint("broker1", 9092)}
        assert (found.rack, found.protocols) == ("r1", {"PLAINTEXT": "PLAINTEXT"})
        assert found.timestamp_ms > 0
        await store.close()
        assert not world.has("/brokers/ids/1")

    World().run(story)


def test_a_lost_session_is_followed_by_another_registration() -> None:
    async def story(world: World) -> None:
        store = await world.started()
        epochs: list[int] = []
        store.registration.on_epoch.append(epochs.append)
        await store.register(broker(1))
        first = store.broker_epoch
        for round_ in range(1, 4):
            world.ensemble.expire(store.member.client.session_id)
            await until(lambda: len(epochs) == round_)  # noqa: B023 - it is awaited here.
        assert sorted({first, *epochs}) == [first, *epochs]
        assert store.broker_epoch == world.ensemble.machine.tree.node("/brokers/ids/1").stat().czxid
        assert world.fatal == []

    World().run(story)


def test_a_broker_that_was_killed_comes_back_within_its_session(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        host = world.simulation.host("broker1")

        async def life(runtime: Runtime) -> int:
            member = world.member(runtime)
            await member.connect()
            store = world.store(member)
            await store.start()
            await store.register(broker(1))
            lives.append(store.broker_epoch)
            await asyncio.Event().wait()
            return 0

        lives: list[int] = []
        host.start(life)
        await until(lambda: len(lives) == 1)
        host.kill()
        begun = asyncio.get_running_loop().time()
        host.start(life)
        await until(lambda: len(lives) == 2)
        assert lives[1] > lives[0]
        assert asyncio.get_running_loop().time() - begun < SESSION_MS / 1000 + 2

    with caplog.at_level(logging.WARNING):
        World().run(story)
    assert "broker id 1 is registered in ZooKeeper already, by PLAINTEXT://broker1:9092" in caplog.text


@pytest.mark.mission("ZK-03")
def test_two_brokers_with_one_id() -> None:
    async def story(world: World) -> None:
        first = await world.started(1, host="a")
        await first.register(broker(1, host="a"))
        second = await world.started(1, host="b")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async with listening(first.member.runtime, "a", 9092):
            with pytest.raises(
                DuplicateBrokerIdError, match=r"id 1 .*PLAINTEXT://a:9092.*another broker\.id"
            ):
                await second.register(broker(1, host="b"))
        assert loop.time() - begun < 1  # It answers, so it lives.
        third = await world.started(1, host="c")
        begun = loop.time()
        with pytest.raises(DuplicateBrokerIdError):  # Nobody answers, and its session goes on.
            await third.register(broker(1, host="c"))
        assert SESSION_MS / 1000 < loop.time() - begun < SESSION_MS / 1000 + 20

    World().run(story)


def test_two_brokers_with_one_endpoint() -> None:
    async def story(world: World) -> None:
        await world.kafka.create("/brokers/ids/7", b"damaged")
        first, second = await world.started(1), await world.started(2)
        await first.register(broker(1, host="same"))
        with pytest.raises(
            EndpointTakenError, match=r"PLAINTEXT://same:9092 is registered by broker 1 .*broker 2"
        ):
            await second.register(broker(2, host="same"))
        await second.register(broker(2, host="same", port=9093))

    World().run(story)


def test_a_broker_whose_id_was_taken_while_it_was_away_is_told_to_stop() -> None:
    async def story(world: World) -> None:
        first = await world.started(1, host="a")
        await first.register(broker(1, host="a"))
        second = await world.started(1, host="b")
        async with listening(second.member.runtime, "b", 9092):
            world.simulation.network.partition("a", "zookeeper")
            await until(lambda: not world.has("/brokers/ids/1"))
            await second.register(broker(1, host="b"))
            world.simulation.network.heal()
            await until(lambda: world.fatal)
        assert isinstance(world.fatal[0], DuplicateBrokerIdError)

    World().run(story)


def test_a_feature_nobody_knows_stops_a_broker() -> None:
    async def story(world: World) -> None:
        store = await world.started(1)
        await world.kafka.create(paths.FEATURE, documents.encode_features({}))
        await until(lambda: store.features.epoch == 0)
        await world.kafka.set(paths.FEATURE, b"damaged")
        await world.kafka.set(
            paths.FEATURE, documents.encode_features({"transaction.version": 2}, enabled=False)
        )
        await until(lambda: store.features.epoch == 2)
        assert (store.features.levels, world.fatal) == ({}, [])
        await world.kafka.set(paths.FEATURE, documents.encode_features({"transaction.version": 2}))
        await until(lambda: world.fatal)
        assert "transaction.version 2" in str(world.fatal[0])
        with pytest.raises(UnsupportedFeatureError, match=r"/feature.*transaction.version 2"):
            await world.started(2)

    World().run(story)


def test_a_reading_that_breaks_is_begun_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody foresaw the error: the next change of settings is heard of all the same."""

    async def story(world: World) -> None:
        store = await world.started()
        read = ConfigNodes._read
        is_broken = True

        async def breaking(nodes: ConfigNodes, wanted: Sequence[str]) -> None:
            if is_broken:
                raise ZeroDivisionError("nobody foresaw it")
            await read(nodes, wanted)

        monkeypatch.setattr(ConfigNodes, "_read", breaking)
        await world.put("brokers/1", {"log.retention.ms": "77"})
        await until(lambda: "nobody foresaw it" in caplog.text)
        is_broken = False
        await until(lambda: store.image.broker_configs("1").get("log.retention.ms") == "77")
        assert not world.fatal

    World().run(story)


def test_a_client_of_zookeeper_that_breaks_ends_the_broker() -> None:
    """Nobody would renew its session: better no broker than one that takes itself for a member."""

    async def story(world: World) -> None:
        store = await world.started()
        await store.register(broker(1))

        async def broken() -> None:
            raise ZeroDivisionError("nobody foresaw it")

        store.member.before_session.append(broken)
        world.ensemble.expire(store.member.client.session_id)
        await until(lambda: world.fatal)
        (fatal,) = world.fatal
        assert "nobody foresaw it" in str(fatal)
        await until(lambda: not world.has(paths.broker(1)))

    World().run(story)
