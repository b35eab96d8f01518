"""Data directories with something of everything, kept as earlier versions of the broker left them.

Run as a program, `python -m support.broker.earlier_directory` plays the story below with the code it is run with, and keeps what it
leaves as `tests/broker/earlier/VERSION/clean.tar.xz` and `killed.tar.xz`: `make release` calls it, once per release. A directory that is
kept is never written anew. `before-replicas` was written at commit e0201f3, when metadata rows knew neither replicas nor the leader
epochs of single partitions.
"""

import io
import re
import tarfile
from functools import partial
from pathlib import Path
from typing import Final

from semel._version import __version__
from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.core.metadata.config_types import ResourceType
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from semel.core.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from semel.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from semel.core.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.core.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.core.wire.messages.end_txn import EndTxnRequest
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.core.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from semel.net.connection import connect
from semel.runtime.bundle import Runtime
from semel.runtime.files import Files, join, read_whole
from semel.runtime.simulation import Simulation
from support.broker.admin_kit import PORT, SETTINGS, Client, Story
from support.groups.offsets_kit import BY_NAME, commit_request

KEPT: Final = Path(__file__).parents[2] / "broker" / "earlier"
ENDINGS: Final = ("clean", "killed")
EARLIER_SETTINGS: Final = {
    **SETTINGS,
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
COMMITTED, OPEN = "committed", "open"
_TIMEOUT_MS: Final = 600_000


async def first_life(client: Client) -> None:
    """Everything is made; orders-1 has a transaction that nobody ends."""
    topics = [
        CreatableTopic(
            name="orders",
            num_partitions=3,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="retention.ms", value="-1")],
        ),
        CreatableTopic(name="bills", num_partitions=1, replication_factor=1),
        CreatableTopic(name="passing", num_partitions=1, replication_factor=1),
    ]
    answer = await client.ask(CreateTopicsRequest(topics=topics))
    assert [one.error_code for one in answer.topics] == [0, 0, 0]
    for index in range(3):
        await client.produce("orders", index, [b"first", b"second"])
    await client.produce("bills")
    await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="passing")]))
    features = [FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)]
    assert (await client.ask(UpdateFeaturesRequest(feature_updates=features))).error_code == 0
    changed = [
        (ResourceType.TOPIC, "bills", "max.message.bytes", "2000000"),
        (ResourceType.BROKER, "", "log.retention.ms", "1234567890"),
        (ResourceType.BROKER, "1", "log.cleaner.threads", "2"),
        (ResourceType.GROUP, "readers", "consumer.session.timeout.ms", "50000"),
    ]
    configs = [
        AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[AlterableConfig(name=key, value=value)]
        )
        for kind, name, key, value in changed
    ]
    altered = await client.ask(IncrementalAlterConfigsRequest(resources=configs))
    assert [one.error_code for one in altered.responses] == [0] * 4
    quota = EntryData(
        entity=[EntityData(entity_type="user", entity_name="anna")],
        ops=[OpData(key="producer_byte_rate", value=1000.0)],
    )
    assert (await client.ask(AlterClientQuotasRequest(entries=[quota]))).entries[0].error_code == 0
    user = ScramCredentialUpsertion(
        name="anna", mechanism=1, iterations=4096, salt=b"salt", salted_password=bytes(32)
    )
    scram = await client.ask(AlterUserScramCredentialsRequest(upsertions=[user]))
    assert scram.results[0].error_code == 0
    await client.ask(FindCoordinatorRequest(coordinator_keys=["readers"], key_type=0), 5)
    await client.ask(commit_request("readers", {("orders", 0): 2, ("bills", 0): 1}, metadata="m"), BY_NAME)
    await client.ask(FindCoordinatorRequest(coordinator_keys=[COMMITTED, OPEN], key_type=1), 5)
    for transactional_id, index in ((COMMITTED, 0), (OPEN, 1)):
        await _write_in_transaction(client, transactional_id, index, commit=transactional_id == COMMITTED)


async def _write_in_transaction(client: Client, transactional_id: str, index: int, *, commit: bool) -> None:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
    )
    given = await client.ask(request, 4)
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=given.producer_id,
        v3_and_below_producer_epoch=given.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[index])],
    )
    await client.ask(adding, 3)
    batch = build_batch(
        [RecordInput(b"k", transactional_id.encode(), 1)],
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=index, records=batch)])
    produced = await client.ask(
        ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=[data]), 11
    )
    assert produced.responses[0].partition_responses[0].error_code == 0
    if commit:
        ending = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            committed=True,
        )
        assert (await client.ask(ending, 3)).error_code == 0


async def second_life(client: Client) -> None:
    """After an unclean stop everything is led in epoch 1; a topic and a partition are made since."""
    assert client.partition("orders").leader_epoch == 1
    assert await client.create("later") == [0]
    grown = await client.ask(
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="bills", count=2, assignments=None)])
    )
    assert grown.results[0].error_code == 0
    for topic, index in (("orders", 0), ("orders", 2), ("later", 0), ("bills", 1)):
        assert (await client.produce(topic, index, [b"third"])).error_code == 0


def made(ending: str) -> dict[str, bytes]:
    """The files of a directory that was left cleanly, or by a kill."""
    simulation = Simulation(1)

    async def live(runtime: Runtime, *, stop: bool, story: Story) -> None:
        broker = Broker(BrokerConfig.of(EARLIER_SETTINGS), runtime)
        await broker.start()
        connection = await connect(runtime, "127.0.0.1", PORT)
        await story(Client(broker, host.disk, connection))
        if stop:
            connection.close()
            await broker.stop()

    async def main() -> dict[str, bytes]:
        await host.start(partial(live, stop=False, story=first_life))
        host.kill()
        await host.start(partial(live, stop=ending == "clean", story=second_life))
        host.kill()
        return dict(_files(host.boot().files, "data"))

    host = simulation.host("127.0.0.1")
    return simulation.run(main())


def _files(files: Files, path: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for name in files.list_directory(path):
        inner = join(path, name)
        found += _files(files, inner) if files.is_directory(inner) else [(inner, read_whole(files, inner))]
    return found


def versions() -> list[str]:
    """The versions whose directories are kept."""
    return sorted(one.name for one in KEPT.iterdir() if one.is_dir())


def missing(changelog: str) -> list[str]:
    """The released versions of a changelog that have no directory here."""
    released = re.findall(r"^## (\d\S*)", changelog, re.MULTILINE)
    return [version for version in released if version not in versions()]


def kept(version: str, ending: str) -> dict[str, bytes]:
    """The files that this version left."""
    with tarfile.open(KEPT / version / f"{ending}.tar.xz") as archive:
        members = [(one.name, archive.extractfile(one)) for one in archive if one.isfile()]
        return {name: content.read() for name, content in members if content is not None}


def keep(directory: Path) -> None:
    """Keep what the code of this tree leaves; refuses to do it twice."""
    directory.mkdir(parents=True)
    for ending in ENDINGS:
        with tarfile.open(directory / f"{ending}.tar.xz", "w:xz", preset=9) as archive:
            for path, content in made(ending).items():
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    if "dev" in __version__:
        raise SystemExit(f"{__version__} is no release: write its version into src/semel/_version.py first")
    keep(KEPT / __version__)
