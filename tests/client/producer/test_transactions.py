"""Transactions of the public producer: on Semel by both protocols, and on Apache Kafka 4.3.1 and 3.9.2.

Method: the same stories on every broker; what is visible is asked of clients written elsewhere (`transaction_clients`).
"""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import semel
from semel import aio
from semel.broker.features import TRANSACTION_VERSION
from semel.client.cluster import Cluster
from semel.client.settings import AdminConfig
from semel.core.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from semel.runtime.bundle import real_runtime
from support.compat.compat_kit import ThreadBroker, eventually
from support.transactions.transaction_clients import committed_offset, read

_numbers = itertools.count()


class Peer(NamedTuple):
    """A broker the stories are told on."""

    bootstrap: str
    is_v2: bool


@pytest.fixture(
    scope="module",
    params=[
        "semel",
        "semel v1",
        pytest.param("kafka 4.3.1", marks=pytest.mark.java),
        pytest.param("kafka 3.9.2", marks=pytest.mark.java),
    ],
)
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    if request.param.startswith("kafka"):
        name = "kafka_broker" if request.param.endswith("4.3.1") else "old_kafka_broker"
        yield Peer(request.getfixturevalue(name).bootstrap, request.param.endswith("4.3.1"))
        return
    with ThreadBroker(tmp_path_factory.mktemp("data")) as running:
        if request.param == "semel v1":
            asyncio.run(_switch_to_v1(running.bootstrap))
        yield Peer(running.bootstrap, request.param == "semel")


async def _switch_to_v1(bootstrap: str) -> None:
    async with Cluster(real_runtime(), AdminConfig.of(bootstrap_servers=bootstrap)) as cluster:
        update = FeatureUpdateKey(feature=TRANSACTION_VERSION, max_version_level=1, upgrade_type=2)
        answer = await cluster.send(UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update]))
        assert answer.error_code == 0, answer


@pytest.fixture
def names() -> tuple[str, str]:
    """A transactional id and a topic no other test has."""
    number = next(_numbers)
    return f"id-{number}", f"topic-{number}"


def producer(peer: Peer, transactional_id: str, **settings: Any) -> semel.Producer:
    made = semel.Producer(bootstrap_servers=peer.bootstrap, transactional_id=transactional_id, **settings)
    made.init_transactions()
    return made


def visible(peer: Peer, topic: str, partition: int = 0) -> list[bytes]:
    return read(peer.bootstrap, topic, partition, committed=True)


def fail_in_a_transaction(sending: semel.Producer, topic: str) -> None:
    with sending.transaction():
        sending.send(topic, b"never").result(30)
        raise ZeroDivisionError


@pytest.mark.mission("TXN-15")
def test_what_is_committed_is_seen_and_what_is_aborted_is_not(peer: Peer, names: tuple[str, str]) -> None:
    transactional_id, topic = names
    with producer(peer, transactional_id) as sending:
        delivery = sending._engine.sender.delivery
        assert getattr(delivery, "v2", None) is peer.is_v2, "the protocol that is meant"
        with sending.transaction():
            futures = [sending.send(topic, b"c%d" % n) for n in range(3)]
        assert [future.result(0).offset for future in futures] == [0, 1, 2]
        with pytest.raises(ZeroDivisionError):
            fail_in_a_transaction(sending, topic)
        sending.begin_transaction()
        unsent = sending.send(topic, b"never either")
        sending.abort_transaction()
        assert unsent.exception(0) is None or isinstance(
            unsent.exception(0), semel.TransactionAbortedException
        )
        with sending.transaction():
            pass  # One that sends nothing.
        with sending.transaction():
            sending.send_arrow(topic, pa.table({"value": [b"a0", b"a1"]}))
            sending.send(topic, b"c3")
    eventually(
        lambda: visible(peer, topic) == [b"c0", b"c1", b"c2", b"a0", b"a1", b"c3"], "all that was committed"
    )


@pytest.mark.mission("TXN-06", "R-22")
def test_offsets_are_committed_with_the_transaction_or_not_at_all(peer: Peer, names: tuple[str, str]) -> None:
    transactional_id, topic = names
    group = f"group-of-{topic}"
    with producer(peer, transactional_id) as sending:
        with sending.transaction():
            sending.send(topic, b"1")
            sending.send_offsets_to_transaction({(topic, 0): 5}, group)
            sending.send_offsets_to_transaction({semel.TopicPartition(topic, 0): 7}, group)
            sending.send_offsets_to_transaction({}, group)
        eventually(lambda: committed_offset(peer.bootstrap, group, topic, 0) == 7, "the last offset")
        sending.begin_transaction()
        sending.send_offsets_to_transaction({(topic, 0): 9}, group)
        sending.abort_transaction()
        assert committed_offset(peer.bootstrap, group, topic, 0) == 7

        class Stale(NamedTuple):
            """A member the group has never had."""

            group_id: str = group
            generation_id: int = 3
            member_id: str = "nobody"
            group_instance_id: str | None = None

        sending.begin_transaction()
        with pytest.raises(semel.CommitFailedException, match="nobody") as refused:
            sending.send_offsets_to_transaction({(topic, 0): 11}, Stale())
        assert refused.value.abortable
        assert not refused.value.fatal
        with pytest.raises(semel.KafkaException, match="we are in an error state"):
            sending.commit_transaction()
        sending.abort_transaction()
        assert committed_offset(peer.bootstrap, group, topic, 0) == 7
        with sending.transaction():
            sending.send(topic, b"2")


@pytest.mark.mission("FEN-04", "FEN-06", "R-28")
def test_who_is_fenced_hears_so_from_every_call(peer: Peer, names: tuple[str, str]) -> None:
    transactional_id, topic = names
    old = producer(peer, transactional_id)
    old.begin_transaction()
    old.send(topic, b"old").result(30)
    new = producer(peer, transactional_id)
    with pytest.raises(semel.ProducerFencedException) as fenced:
        old.commit_transaction()
    text = str(fenced.value)
    assert (
        "Producer attempted an operation with an old epoch. Either there is a newer producer with the same "
        "transactionalId, or the producer's transaction has been expired by the broker." in text
    )
    identity = new._engine.sender.delivery
    assert (
        f"TransactionalId {transactional_id}, producer {getattr(identity, 'producer_id', None)}, own epoch"
        in text
    )
    assert f"current epoch {getattr(identity, 'producer_epoch', None)} " in text
    assert fenced.value.fatal
    for call in (
        old.begin_transaction,
        old.commit_transaction,
        old.abort_transaction,
        lambda: old.send(topic, b"x"),
        lambda: old.send_offsets_to_transaction({(topic, 0): 1}, "g"),
    ):
        with pytest.raises(semel.ProducerFencedException):
            call()
    with new.transaction():
        new.send(topic, b"new")
    old.close()
    new.close()
    eventually(lambda: visible(peer, topic) == [b"new"], "only what the new one wrote")


# What a block does after its producer was fenced, and whether it had sent something before.
_ZOMBIES: dict[str, tuple[bool, str]] = {
    "sends": (False, "send"),
    "sends again": (True, "send"),
    "waits for its record": (True, "result"),
    "sends, flushes and sends": (True, "flush"),
    "sends offsets": (True, "offsets"),
}


@pytest.mark.mission("FEN-04", "FEN-06")
@pytest.mark.parametrize("story", _ZOMBIES)
def test_who_is_fenced_inside_of_a_block_hears_so_from_the_block(
    peer: Peer, names: tuple[str, str], story: str
) -> None:
    transactional_id, topic = names
    has_sent, act = _ZOMBIES[story]

    def block() -> None:
        with producer(peer, transactional_id) as old, old.transaction():
            if has_sent:
                old.send(topic, b"before").result(30)
            producer(peer, transactional_id).close()
            if act == "offsets":
                old.send_offsets_to_transaction({(topic, 0): 1}, "g")
            sent = old.send(topic, b"after")
            if act == "result":
                sent.result(30)
            elif act == "flush":
                old.flush()
                old.send(topic, b"more")

    async def asynchronous_block() -> None:
        async with aio.Producer(bootstrap_servers=peer.bootstrap, transactional_id=transactional_id) as old:
            await old.init_transactions()
            try:
                async with old.transaction():
                    if has_sent:
                        await (await old.send(topic, b"before"))
                    await asyncio.to_thread(lambda: producer(peer, transactional_id).close())
                    if act == "offsets":
                        await old.send_offsets_to_transaction({(topic, 0): 1}, "g")
                    sent = await old.send(topic, b"after")
                    if act == "result":
                        await sent
                    elif act == "flush":
                        await old.flush()
                        await old.send(topic, b"more")
            finally:
                with pytest.raises(semel.ProducerFencedException):
                    await old.begin_transaction()

    for told in (block, lambda: asyncio.run(asynchronous_block())):
        with pytest.raises(semel.ProducerFencedException, match="old epoch") as fenced:
            told()
        assert fenced.value.fatal
        assert not fenced.value.abortable


def test_an_error_of_the_applications_own_is_not_hidden_by_a_fenced_producer(
    peer: Peer, names: tuple[str, str]
) -> None:
    transactional_id, topic = names
    with producer(peer, transactional_id) as old:

        def block() -> None:
            with old.transaction():
                old.send(topic, b"never").result(30)
                producer(peer, transactional_id).close()
                raise ValueError("mine")

        with pytest.raises(ValueError, match="mine") as raised:
            block()
        assert "old epoch" in raised.value.__notes__[0]
        with pytest.raises(semel.ProducerFencedException):
            old.begin_transaction()


def test_a_fatal_error_of_another_client_leaves_no_transaction_open(
    peer: Peer, names: tuple[str, str]
) -> None:
    transactional_id, topic = names
    with producer(peer, transactional_id) as sending:

        def block() -> None:
            with sending.transaction():
                sending.send(topic, b"never").result(30)
                raise semel.SaslAuthenticationException("another client's")

        with pytest.raises(semel.SaslAuthenticationException):
            block()
        with sending.transaction():
            sending.send(topic, b"seen")
    eventually(lambda: visible(peer, topic) == [b"seen"], "only what was committed")


def test_a_closed_producer_leaves_no_transaction_open(peer: Peer, names: tuple[str, str]) -> None:
    transactional_id, topic = names
    with producer(peer, transactional_id) as sending:
        sending.begin_transaction()
        sending.send(topic, b"never").result(30)
    with semel.Producer(bootstrap_servers=peer.bootstrap) as plain:
        plain.send(topic, b"seen").result(30)
    eventually(lambda: visible(peer, topic) == [b"seen"], "the end of the transaction")


@pytest.mark.mission("R-22")
def test_from_asyncio_with_javas_names(peer: Peer, names: tuple[str, str]) -> None:
    transactional_id, topic = names

    async def story() -> None:
        async with aio.Producer(
            bootstrap_servers=peer.bootstrap, transactional_id=transactional_id
        ) as sending:
            await sending.initTransactions()
            await sending.beginTransaction()
            await sending.send(topic, b"java")
            await sending.sendOffsetsToTransaction({(topic, 0): 1}, f"group-of-{topic}")
            await sending.commitTransaction()
            await sending.beginTransaction()
            await sending.send(topic, b"never")
            await sending.abortTransaction()
            async with sending.transaction():
                await sending.send(topic, b"python")

    asyncio.run(story())
    eventually(lambda: visible(peer, topic) == [b"java", b"python"], "both")
