"""A data directory that an earlier version left is opened, and everything in it is there.

Method: the directories in `earlier`, of each version one stopped cleanly and one killed, on the simulated disk of a broker of this
version, which is asked as a client asks, and lives three times: a later life reads the rows that an earlier one wrote. So is what this
version leaves, which the next one will find.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.features import TRANSACTION_VERSION, level
from semel.core.metadata.config_types import ResourceType
from semel.core.records.batch import headers
from semel.core.records.build import iter_records
from semel.core.wire.messages import describe_configs
from semel.core.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from semel.core.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.core.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from semel.core.wire.messages.end_txn import EndTxnRequest
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.core.wire.messages.metadata import MetadataRequest
from semel.core.wire.messages.offset_fetch import OffsetFetchRequest
from semel.errors import ErrorCode
from semel.net.connection import connect
from semel.runtime.bundle import Runtime
from semel.runtime.files import join
from semel.runtime.simulation import Simulation
from support.broker.admin_kit import PORT, Client
from support.broker.earlier_directory import (
    COMMITTED,
    EARLIER_SETTINGS,
    ENDINGS,
    OPEN,
    keep,
    kept,
    made,
    missing,
    versions,
)
from support.groups.offsets_kit import fetch_group

RECORDS = {
    ("orders", 0): [b"first", b"second", COMMITTED.encode(), b"third"],
    ("orders", 1): [b"first", b"second"],
    ("orders", 2): [b"first", b"second", b"third"],
    ("bills", 0): [b"v"],
    ("bills", 1): [b"third"],
    ("later", 0): [b"third"],
}


async def values(client: Client, topic: str, index: int) -> list[bytes | None]:
    """The values that a reader of committed records gets."""
    found: list[bytes | None] = []
    offset = 0
    while True:
        asked = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        wanted = FetchTopic(topic=topic, partitions=[asked])
        answer = await client.ask(FetchRequest(isolation_level=1, max_bytes=1 << 20, topics=[wanted]), 11)
        (one,) = answer.responses[0].partitions
        assert one.error_code == ErrorCode.NONE
        data = bytes(one.records or b"")
        if not data:
            return found
        for position, header in headers(data):
            offset = header.next_offset
            if not header.is_control:
                found += [record.value for record in iter_records(data, position, header)]


async def config(client: Client, kind: ResourceType, name: str, key: str) -> str | None:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[key]
    )
    answer = await client.ask(describe_configs.DescribeConfigsRequest(resources=[resource]))
    (found,) = answer.results[0].configs
    return found.value


async def state_of(client: Client, transactional_id: str) -> str:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    return (await client.ask(request)).transaction_states[0].transaction_state


async def look(client: Client, *, least_epoch: int) -> None:
    """Everything the story of `earlier_directory` made."""
    metadata = await client.ask(MetadataRequest(topics=None))
    assert {topic.name: len(topic.partitions) for topic in metadata.topics} == {
        "__consumer_offsets": 2,
        "__transaction_state": 2,
        "bills": 2,
        "later": 1,
        "orders": 3,
    }
    assert (metadata.controller_id, [one.node_id for one in metadata.brokers]) == (1, [1])
    for topic in metadata.topics:
        for one in topic.partitions:
            assert (one.error_code, one.leader_id, one.replica_nodes, one.isr_nodes) == (0, 1, [1], [1])
            assert one.leader_epoch >= least_epoch
            partition = client.partition(topic.name or "", one.partition_index)
            assert one.leader_epoch == partition.leader_epoch
            assert one.leader_epoch >= partition.log.leader_epochs.latest
    for (name, index), written in RECORDS.items():
        assert await values(client, name, index) == written
    assert await config(client, ResourceType.TOPIC, "orders", "retention.ms") == "-1"
    assert await config(client, ResourceType.TOPIC, "bills", "max.message.bytes") == "2000000"
    assert await config(client, ResourceType.TOPIC, "later", "retention.ms") == "1234567890"
    assert await config(client, ResourceType.BROKER, "1", "log.cleaner.threads") == "2"
    assert await config(client, ResourceType.GROUP, "readers", "consumer.session.timeout.ms") == "50000"
    (quota,) = (await client.ask(DescribeClientQuotasRequest())).entries or []
    assert (quota.entity[0].entity_name, quota.values[0].value) == ("anna", 1000.0)
    (user,) = (await client.ask(DescribeUserScramCredentialsRequest(users=None))).results
    assert (user.user, user.credential_infos[0].iterations) == ("anna", 4096)
    assert level(client.broker.parts.store.image, TRANSACTION_VERSION) == 1
    offsets = await client.ask(OffsetFetchRequest(groups=[fetch_group("readers")]), 9)
    found = {
        (topic.name, one.partition_index): (one.committed_offset, one.metadata)
        for topic in offsets.groups[0].topics
        for one in topic.partitions
    }
    assert found == {("orders", 0): (2, "m"), ("bills", 0): (1, "m")}
    assert await state_of(client, COMMITTED) == "CompleteCommit"
    assert await state_of(client, OPEN) == "Ongoing"


async def go_on(client: Client) -> None:
    """The open transaction can be committed, and new producer ids collide with none."""
    window = client.partition("orders", 1).log.producers
    (producer_id,) = window.producers
    ending = EndTxnRequest(transactional_id=OPEN, producer_id=producer_id, producer_epoch=0, committed=True)
    assert (await client.ask(ending, 3)).error_code == ErrorCode.NONE
    assert await values(client, "orders", 1) == [b"first", b"second", OPEN.encode()]
    given = await client.broker.parts.coordinators.producer_ids.next()
    assert given is not None
    assert given >= 1000
    assert (await client.produce("later")).error_code == ErrorCode.NONE


CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_release_has_a_directory_that_is_kept() -> None:
    assert missing(CHANGELOG) == []
    assert missing("# Changelog\n\n## Unreleased\n\n## 9.9.0 (2030-01-01)\n") == ["9.9.0"]


def test_a_directory_is_kept_once_and_holds_what_was_left(tmp_path: Path) -> None:
    keep(tmp_path / "1.0")
    assert sorted(one.name for one in (tmp_path / "1.0").iterdir()) == ["clean.tar.xz", "killed.tar.xz"]
    with pytest.raises(FileExistsError):
        keep(tmp_path / "1.0")


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("version", versions())
def test_everything_an_earlier_version_left_is_there(version: str, ending: str) -> None:
    play(kept(version, ending), ending)


@pytest.mark.parametrize("ending", ENDINGS)
def test_everything_this_version_leaves_is_there_for_the_next(ending: str) -> None:
    play(made(ending), ending)


def play(files: dict[str, bytes], ending: str) -> None:
    simulation = Simulation(1)
    host = simulation.host("127.0.0.1")
    epoch = 1 if ending == "clean" else 2

    async def unpack(runtime: Runtime) -> None:
        for path, content in files.items():
            parts = path.split("/")
            for depth in range(1, len(parts)):
                runtime.files.make_directory(join(*parts[:depth]))
            file = runtime.files.open(path, create=True)
            file.write_at(0, content)
            file.sync()
            file.close()
            runtime.files.sync_directory(join(*parts[:-1]))

    async def live(runtime: Runtime, story: Callable[[Client], Awaitable[None]]) -> None:
        broker = Broker(BrokerConfig.of(EARLIER_SETTINGS), runtime)
        await broker.start()
        connection = await connect(runtime, "127.0.0.1", PORT)
        await story(Client(broker, host.disk, connection))

    async def main() -> None:
        await host.start(unpack)
        host.kill()
        await host.start(partial(live, story=partial(look, least_epoch=epoch)))
        host.cut_power()
        await host.start(partial(live, story=partial(look, least_epoch=epoch + 1)))
        host.kill()
        await host.start(partial(live, story=go_on))

    simulation.run(main())
