"""Quotas, users, features, groups' settings and levels of the log: changed over the wire, and still so after a restart.

Method: stories with a broker on a simulated host, told again on what it left, after a clean stop and after a power cut. What each
request is answered is Kafka's business: see the differential test. Sleeps are seconds of the simulated clock.
"""

import asyncio
import logging

import pytest

from semel.core.metadata.config_types import ResourceType
from semel.core.wire.messages import (
    alter_client_quotas,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    describe_client_quotas,
    describe_configs,
    describe_user_scram_credentials,
    incremental_alter_configs,
    update_features,
)
from semel.core.wire.messages.api_versions import ApiVersionsRequest
from semel.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from semel.core.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.errors import ErrorCode
from support.broker.admin_kit import Client, told

SETTINGS = pytest.mark.parametrize("cut_power", [False, True])


async def quotas(client: Client) -> dict[str, dict[str, float]]:
    answer = await client.ask(describe_client_quotas.DescribeClientQuotasRequest())
    return {
        ",".join(f"{part.entity_type}={part.entity_name}" for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries or ()
    }


async def set_quota(client: Client, user: str | None, key: str, value: float | None) -> int:
    entry = alter_client_quotas.EntryData(
        entity=[alter_client_quotas.EntityData(entity_type="user", entity_name=user)],
        ops=[alter_client_quotas.OpData(key=key, value=value or 0.0, remove=value is None)],
    )
    answer = await client.ask(alter_client_quotas.AlterClientQuotasRequest(entries=[entry]))
    return answer.entries[0].error_code


@SETTINGS
def test_quotas_survive(cut_power: bool) -> None:
    async def make(client: Client) -> None:
        assert await set_quota(client, "alice", "producer_byte_rate", 1000.0) == ErrorCode.NONE
        assert await set_quota(client, None, "consumer_byte_rate", 10.0) == ErrorCode.NONE
        assert await set_quota(client, "bob", "consumer_byte_rate", 10.0) == ErrorCode.NONE
        assert await set_quota(client, "bob", "consumer_byte_rate", None) == ErrorCode.NONE
        assert await set_quota(client, "bob", "happiness", 1.0) == ErrorCode.INVALID_REQUEST

    async def look(client: Client) -> None:
        assert await quotas(client) == {
            "user=None": {"consumer_byte_rate": 10.0},
            "user=alice": {"producer_byte_rate": 1000.0},
        }

    async def change_and_look(client: Client) -> None:
        await make(client)
        await look(client)

    told(change_and_look, look, look, cut_power=cut_power)


@SETTINGS
def test_users_survive_and_no_password_is_kept(cut_power: bool) -> None:
    password = b"the salted password of alice"

    async def make(client: Client) -> None:
        upsertion = alter_user_scram_credentials.ScramCredentialUpsertion(
            name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=password
        )
        request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(upsertions=[upsertion])
        assert (await client.ask(request)).results[0].error_code == ErrorCode.NONE

    async def look(client: Client) -> None:
        request = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None)
        [user] = (await client.ask(request)).results
        assert (user.user, [(one.mechanism, one.iterations) for one in user.credential_infos]) == (
            "alice",
            [(1, 4096)],
        )
        path = f"data/__cluster_metadata-0/{0:020d}.log"
        if client.disk.exists(path):
            held = client.disk.open(path).read_at(0, 1 << 20)
            assert password not in held
            assert password.hex().encode() not in held

    async def remove(client: Client) -> None:
        deletion = alter_user_scram_credentials.ScramCredentialDeletion(name="alice", mechanism=1)
        request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=[deletion])
        assert (await client.ask(request)).results[0].error_code == ErrorCode.NONE

    async def look_in_vain(client: Client) -> None:
        request = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None)
        assert (await client.ask(request)).results == []

    told(make, look, remove, look_in_vain, cut_power=cut_power)


async def finalized(client: Client) -> tuple[int, dict[str, int]]:
    answer = await client.ask(
        ApiVersionsRequest(client_software_name="tests", client_software_version="1"), 4
    )
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    return answer.finalized_features_epoch, levels


@SETTINGS
def test_a_feature_that_is_switched_off_stays_off_and_its_epoch_rises(cut_power: bool) -> None:
    async def update(client: Client, name: str, level: int, kind: int) -> int:
        key = update_features.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        return (await client.ask(update_features.UpdateFeaturesRequest(feature_updates=[key]))).error_code

    async def switch_off(client: Client) -> None:
        assert await finalized(client) == (0, {"group.version": 1, "transaction.version": 2})
        assert await update(client, "group.version", 0, 1) == ErrorCode.INVALID_UPDATE_VERSION
        assert await update(client, "group.version", 0, 2) == ErrorCode.NONE
        assert await update(client, "transaction.version", 1, 2) == ErrorCode.NONE

    async def look(client: Client) -> None:
        assert await finalized(client) == (2, {"transaction.version": 1})
        beat = ConsumerGroupHeartbeatRequest(
            group_id="g", member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=["orders"]
        )
        assert (await client.ask(beat, 0)).error_code == ErrorCode.UNSUPPORTED_VERSION

    async def switch_on(client: Client) -> None:
        assert await update(client, "group.version", 1, 1) == ErrorCode.NONE
        assert await finalized(client) == (3, {"group.version": 1, "transaction.version": 1})

    told(switch_off, look, switch_on, cut_power=cut_power)


async def described(client: Client, kind: int, name: str) -> dict[str, str | None]:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    answer = await client.ask(describe_configs.DescribeConfigsRequest(resources=[resource]))
    return {one.name: one.value for one in answer.results[0].configs}


async def change(client: Client, kind: int, name: str, key: str, value: str | None) -> int:
    config = incremental_alter_configs.AlterableConfig(
        name=key, config_operation=0 if value is not None else 1, value=value
    )
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[config]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    return (await client.ask(request)).responses[0].error_code


@SETTINGS
def test_a_groups_settings_survive(cut_power: bool) -> None:
    session = "consumer.session.timeout.ms"

    async def make(client: Client) -> None:
        assert await change(client, ResourceType.GROUP, "team", session, "50000") == ErrorCode.NONE
        assert await change(client, ResourceType.GROUP, "gone", session, "50000") == ErrorCode.NONE
        assert await change(client, ResourceType.GROUP, "gone", session, None) == ErrorCode.NONE
        assert await change(client, ResourceType.GROUP, "team", session, "1") == ErrorCode.INVALID_CONFIG

    async def look(client: Client) -> None:
        assert (await described(client, ResourceType.GROUP, "team"))[session] == "50000"
        assert (await described(client, ResourceType.GROUP, "gone"))[session] == "45000"
        assert client.broker.parts.store.image.group_configs == {"team": {session: "50000"}}

    told(make, look, cut_power=cut_power)


def test_a_groups_settings_govern_its_members() -> None:
    """A member whose heartbeats end is removed when its group's own session timeout is over, not before."""
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"

    async def joined(client: Client, group: str) -> ConsumerGroupHeartbeatResponse:
        beat = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        answer = await client.ask(beat, 1)
        while answer.error_code in (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
        ):
            await asyncio.sleep(0.1)
            answer = await client.ask(beat, 1)
        return answer

    async def code(client: Client, group: str, epoch: int) -> int:
        beat = ConsumerGroupHeartbeatRequest(group_id=group, member_id="m", member_epoch=epoch)
        return (await client.ask(beat, 1)).error_code

    async def story(client: Client) -> None:
        await client.create("orders")
        await client.ask(FindCoordinatorRequest(coordinator_keys=["long", "short"]))
        assert await change(client, ResourceType.GROUP, "long", session, "60000") == ErrorCode.NONE
        assert await change(client, ResourceType.GROUP, "long", heartbeat, "7000") == ErrorCode.NONE
        long, short = await joined(client, "long"), await joined(client, "short")
        assert (long.heartbeat_interval_ms, short.heartbeat_interval_ms) == (7000, 5000)
        await asyncio.sleep(50)
        assert await code(client, "short", short.member_epoch) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await code(client, "long", long.member_epoch) == ErrorCode.NONE
        await asyncio.sleep(61)
        assert await code(client, "long", long.member_epoch) == ErrorCode.UNKNOWN_MEMBER_ID

    told(story)


def test_levels_of_the_log_are_read_and_set() -> None:
    name = "semel.broker.partitions"
    logger = logging.getLogger(name)
    before = logger.level

    async def story(client: Client) -> None:
        assert await change(client, ResourceType.BROKER_LOGGER, "1", name, "DEBUG") == ErrorCode.NONE
        assert logger.level == logging.DEBUG
        assert (await described(client, ResourceType.BROKER_LOGGER, "1"))[name] == "DEBUG"
        assert await change(client, ResourceType.BROKER_LOGGER, "1", name, "FATAL") == ErrorCode.NONE
        assert (await described(client, ResourceType.BROKER_LOGGER, "1"))[name] == "FATAL"
        assert await change(client, ResourceType.BROKER_LOGGER, "1", name, None) == ErrorCode.NONE
        assert logger.level == logging.NOTSET
        refused = await change(client, ResourceType.BROKER_LOGGER, "1", "nobody", "DEBUG")
        assert refused == ErrorCode.INVALID_CONFIG

    try:
        told(story)
    finally:
        logger.setLevel(before)


def test_a_replica_is_where_the_only_directory_is() -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        [directory] = (await client.ask(DescribeLogDirsRequest(topics=None))).results

        async def moved(path: str, topic: str, index: int) -> int:
            wanted = alter_replica_log_dirs.AlterReplicaLogDir(
                path=path,
                topics=[alter_replica_log_dirs.AlterReplicaLogDirTopic(name=topic, partitions=[index])],
            )
            request = alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[wanted])
            return (await client.ask(request)).results[0].partitions[0].error_code

        assert await moved(directory.log_dir, "orders", 0) == ErrorCode.NONE
        assert await moved(directory.log_dir + "/", "orders", 0) == ErrorCode.NONE
        assert await moved(directory.log_dir, "orders", 1) == ErrorCode.REPLICA_NOT_AVAILABLE
        assert await moved("/elsewhere", "orders", 0) == ErrorCode.LOG_DIR_NOT_FOUND

    told(story, log_dirs="/data")
