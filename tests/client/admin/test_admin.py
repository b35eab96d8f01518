"""The admin client against Semel, Apache Kafka and an older Apache Kafka: the same calls, the same answers.

Method: every call is made with real brokers and its effect looked at through another call. Where a broker cannot do
something, the exception says so under Java's name.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import semel
import semel.aio
from semel import (
    Admin,
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    Consumer,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    OpType,
    Producer,
    QuotaEntry,
    TopicPartition,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from semel.client.values.administration import AclBindingFilter, ScramMechanism
from semel.exceptions import (
    GroupIdNotFoundException,
    GroupNotEmptyException,
    IllegalArgumentException,
    IllegalStateException,
    InvalidConfigurationException,
    InvalidPartitionsException,
    KafkaException,
    LogDirNotFoundException,
    NetworkException,
    OffsetOutOfRangeException,
    ProducerFencedException,
    ResourceNotFoundException,
    SecurityDisabledException,
    TopicExistsException,
    TransactionalIdNotFoundException,
    UnknownTopicOrPartitionException,
    UnstableOffsetCommitException,
)
from semel.peers.kafka import KafkaHome

_numbers: Final = itertools.count()


@pytest.fixture
def admin(any_bootstrap: str) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": any_bootstrap}) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin) -> Iterator[str]:
    """A topic of two partitions that only this test has."""
    name = f"admin-{next(_numbers)}"
    admin.create_topics(NewTopic(name, num_partitions=2, replication_factor=1))
    until(lambda: name in names(admin))
    yield name
    admin.delete_topics(name)


def fill(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            producer.send(topic, value=str(number), partition=partition, timestamp=1_000 * (number + 1))
        producer.flush()


def until(is_so: Callable[[], bool]) -> None:
    """Kafka's brokers hear of a change a moment after it was answered: look again until it is so."""
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)


def names(admin: Admin) -> set[str]:
    return {one.name for one in admin.list_topics()}


# Topics


def test_topics_come_and_go(admin: Admin) -> None:
    plain, shaped = f"admin-{next(_numbers)}", f"admin-{next(_numbers)}"
    made = admin.create_topics(
        [plain, NewTopic(shaped, num_partitions=3, replication_factor=1, configs={"retention.ms": "5000"})]
    )
    assert (made[shaped].num_partitions, made[shaped].replication_factor) == (3, 1)
    assert made[shaped].configs["retention.ms"] == "5000"
    until(lambda: {plain, shaped} <= names(admin))
    described = admin.describe_topics([plain, shaped])
    assert [one.partition for one in described[shaped].partitions] == [0, 1, 2]
    assert described[shaped].topic_id == made[shaped].topic_id
    assert all(one.leader in one.isr for one in described[shaped].partitions)
    admin.delete_topics([plain, shaped])
    until(lambda: not {plain, shaped} & names(admin))


def test_a_refusal_names_every_thing_that_was_refused(admin: Admin, topic: str) -> None:
    fresh = f"admin-{next(_numbers)}"
    with pytest.raises(TopicExistsException, match="already exists") as caught:
        admin.create_topics([topic, fresh])
    assert caught.value.errors == {topic: caught.value}
    until(lambda: fresh in names(admin))
    admin.delete_topics(fresh)
    until(lambda: fresh not in names(admin))
    with pytest.raises(UnknownTopicOrPartitionException, match=fresh):
        admin.delete_topics(fresh)
    with pytest.raises(UnknownTopicOrPartitionException, match=fresh):
        admin.describe_topics(fresh)


def test_a_topic_that_is_only_validated_is_not_made(admin: Admin) -> None:
    name = f"admin-{next(_numbers)}"
    assert admin.create_topics(NewTopic(name, 4, 1), validate_only=True)[name].num_partitions == 4
    assert name not in names(admin)


def test_a_topic_grows_and_never_shrinks(admin: Admin, topic: str) -> None:
    admin.create_partitions({topic: 3})
    until(lambda: len(admin.describe_topics(topic)[topic].partitions) == 3)
    with pytest.raises(InvalidPartitionsException):
        admin.create_partitions({topic: NewPartitions(2)})


def test_replicas_are_placed_by_hand(admin: Admin) -> None:
    name = f"admin-{next(_numbers)}"
    broker = admin.describe_cluster().nodes[0].id
    admin.create_topics(NewTopic(name, replicas_assignments={0: [broker], 1: [broker]}))
    until(lambda: name in names(admin))
    assert [one.replicas for one in admin.describe_topics(name)[name].partitions] == [(broker,)] * 2
    assert admin.list_partition_reassignments([(name, 0)]) == {}
    assert admin.elect_leaders([(name, 0)]) == {}
    admin.alter_partition_reassignments({TopicPartition(name, 0): [broker]})
    admin.delete_topics(name)


# Settings


def test_settings_are_shown_and_changed(admin: Admin, topic: str) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    before = admin.describe_configs(resource)[resource]["retention.ms"]
    assert (before.value, before.is_default) == ("604800000", True)
    admin.incremental_alter_configs({resource: {"retention.ms": "1000", "cleanup.policy": "compact"}})
    admin.incremental_alter_configs({resource: [AlterConfigOp("cleanup.policy", "delete", OpType.APPEND)]})
    keys = ["retention.ms", "cleanup.policy"]

    def shown() -> dict[str, tuple[str | None, bool]]:
        entries = admin.describe_configs([resource], keys=keys)[resource]
        return {name: (entry.value, entry.is_default) for name, entry in entries.items()}

    changed = {"cleanup.policy": ("compact,delete", False), "retention.ms": ("1000", False)}
    until(lambda: shown() == changed)
    admin.incremental_alter_configs({resource: {"retention.ms": None}})
    until(lambda: shown() == {**changed, "retention.ms": ("604800000", True)})
    with pytest.raises(InvalidConfigurationException):
        admin.incremental_alter_configs({resource: {"retention.ms": "soon"}})


def test_a_broker_answers_for_its_own_settings(admin: Admin) -> None:
    broker = admin.describe_cluster().nodes[0].id
    resource = ConfigResource(ConfigResourceType.BROKER, str(broker))
    assert "log.retention.hours" in admin.describe_configs(resource)[resource]
    with pytest.raises(IllegalArgumentException, match="is not a broker"):
        admin.describe_configs(ConfigResource(ConfigResourceType.BROKER, "first"))


# Records and offsets


def test_offsets_of_a_partition_and_records_deleted_before_one(
    admin: Admin, any_bootstrap: str, topic: str
) -> None:
    # Its records are of 1970.
    admin.incremental_alter_configs({ConfigResource(ConfigResourceType.TOPIC, topic): {"retention.ms": "-1"}})
    fill(any_bootstrap, topic, 10)
    first = TopicPartition(topic, 0)
    shown = {
        name: admin.list_offsets({first: spec})[first]
        for name, spec in {
            "earliest": OffsetSpec.earliest(),
            "latest": OffsetSpec.latest(),
            "at 4 s": OffsetSpec.for_timestamp(3_500),
            "after all": OffsetSpec.for_timestamp(60_000),
            "newest": OffsetSpec.max_timestamp(),
        }.items()
    }
    assert {name: one.offset for name, one in shown.items()} == {
        "earliest": 0,
        "latest": 10,
        "at 4 s": 3,
        "after all": None,
        "newest": 9,
    }
    assert shown["at 4 s"].timestamp == 4_000
    assert admin.delete_records({first: 4})[first].low_watermark == 4
    assert admin.list_offsets({(topic, 0): OffsetSpec.earliest()})[first].offset == 4
    with pytest.raises(OffsetOutOfRangeException):
        admin.delete_records({first: 99})
    assert admin.delete_records({first: -1})[first].low_watermark == 10
    with pytest.raises(UnknownTopicOrPartitionException, match="partitions 0 to 1, not 7"):
        admin.list_offsets({(topic, 7): OffsetSpec.latest()})
    with pytest.raises(IllegalArgumentException, match="use read_uncommitted or read_committed"):
        admin.list_offsets({first: OffsetSpec.latest()}, isolation_level="serializable")


# Groups


def test_a_groups_offsets_are_set_shown_and_deleted(admin: Admin, topic: str) -> None:
    group = f"group-{next(_numbers)}"
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.alter_consumer_group_offsets(group, {first: 3, second: OffsetAndMetadata(5, "by hand")})
    assert admin.list_consumer_group_offsets(group) == {
        first: OffsetAndMetadata(3),
        second: OffsetAndMetadata(5, "by hand"),
    }
    assert admin.list_consumer_group_offsets(group, [first]) == {first: OffsetAndMetadata(3)}
    assert group in {one.group_id for one in admin.list_consumer_groups()}
    assert group in {one.group_id for one in admin.list_groups(states=["Empty"])}
    admin.delete_consumer_group_offsets(group, [first])
    assert admin.list_consumer_group_offsets(group) == {second: OffsetAndMetadata(5, "by hand")}
    admin.delete_consumer_groups(group)
    with pytest.raises(GroupIdNotFoundException, match=group):
        admin.delete_consumer_groups(group)


def test_an_offset_in_an_open_transaction(admin: Admin, any_bootstrap: str, topic: str) -> None:
    """Who names the partition and wants a stable answer waits for the end; who asks for all of them is told of none, as in Java."""
    group, where = f"group-{next(_numbers)}", TopicPartition(topic, 0)
    with Producer(bootstrap_servers=any_bootstrap, transactional_id=group) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({where: 7}, group)
        assert admin.list_consumer_group_offsets(group) == {}
        with (
            Admin(bootstrap_servers=any_bootstrap, retries=0) as impatient,
            pytest.raises(UnstableOffsetCommitException, match=f"{topic}-0"),
        ):
            impatient.list_consumer_group_offsets(group, [where], require_stable=True)
        producer.commit_transaction()
    assert admin.list_consumer_group_offsets(group, [where], require_stable=True) == {
        where: OffsetAndMetadata(7)
    }


def test_a_group_with_a_member(admin: Admin, any_bootstrap: str, topic: str) -> None:
    group = f"group-{next(_numbers)}"
    fill(any_bootstrap, topic, 1)
    with Consumer(bootstrap_servers=any_bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        while not consumer.poll(timeout_ms=200):
            pass
        described = admin.describe_consumer_groups(group)[group]
        assert (described.state, described.partition_assignor) == ("Stable", "range")
        (member,) = described.members
        assert member.topics == (topic,)
        assert set(member.assignment) == {(topic, 0), (topic, 1)}
        with pytest.raises(GroupNotEmptyException, match="has members"):
            admin.delete_consumer_groups(group)
        admin.remove_members_from_consumer_group(group)
        assert admin.describe_consumer_groups(group)[group].members == ()
    with pytest.raises(GroupIdNotFoundException):
        admin.describe_consumer_groups("nobody")


# Transactions


def test_a_transaction_is_shown_and_its_producer_fenced(admin: Admin, any_bootstrap: str, topic: str) -> None:
    name = f"txn-{next(_numbers)}"
    with pytest.raises(TransactionalIdNotFoundException, match=name):
        admin.describe_transactions(name)
    with Producer(bootstrap_servers=any_bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value="x", partition=0).result(30)
        shown = admin.describe_transactions(name)[name]
        assert (shown.state, shown.topic_partitions) == ("Ongoing", ((topic, 0),))
        assert [one.state for one in admin.list_transactions(producer_ids=[shown.producer_id])] == ["Ongoing"]
        (state,) = admin.describe_producers([(topic, 0)])[TopicPartition(topic, 0)]
        assert (state.producer_id, state.current_transaction_start_offset) == (shown.producer_id, 0)
        assert admin.find_hanging_transactions(topic) == []
        first = TopicPartition(topic, 0)
        end = {first: OffsetSpec.latest()}
        assert admin.list_offsets(end)[first].offset == 0
        assert admin.list_offsets(end, isolation_level="read_uncommitted")[first].offset == 1
        fenced = admin.fence_producers(name)[name]
        assert fenced.producer_epoch > shown.producer_epoch
        with pytest.raises(KafkaException) as caught:
            producer.commit_transaction()
        assert isinstance(caught.value, ProducerFencedException) or caught.value.fatal
    assert admin.describe_transactions(name)[name].state in ("CompleteAbort", "Empty")


def test_a_transaction_is_ended_on_its_partition(admin: Admin, any_bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=any_bootstrap, transactional_id=f"txn-{next(_numbers)}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value="x", partition=0).result(30)
        admin.abort_transaction((topic, 0), 0)
        (state,) = admin.describe_producers([(topic, 0)])[TopicPartition(topic, 0)]
        assert state.current_transaction_start_offset is None
        with pytest.raises(KafkaException, match="no transaction is open from offset 0"):
            admin.abort_transaction((topic, 0), 0)
        producer.abort_transaction()


# Cluster, quotas, users, access


def test_the_cluster_its_disks_and_its_features(admin: Admin, any_bootstrap: str, topic: str) -> None:
    cluster = admin.describe_cluster()
    (node,) = cluster.nodes
    assert (f"{node.host}:{node.port}", cluster.controller) == (any_bootstrap, node)
    assert cluster.cluster_id
    fill(any_bootstrap, topic, 3)
    (directory,) = admin.describe_log_dirs()[node.id].values()
    assert directory.replica_infos[TopicPartition(topic, 0)].size_bytes > 0
    assert admin.describe_log_dirs([node.id]).keys() == {node.id}
    (path,) = admin.describe_log_dirs()[node.id]
    (replica,) = admin.describe_replica_log_dirs([(topic, 0, node.id)]).values()
    assert (replica.current_replica_log_dir, replica.future_replica_log_dir) == (path, None)
    admin.alter_replica_log_dirs({(topic, 0, node.id): path})  # Where it is already.
    with pytest.raises(LogDirNotFoundException):
        admin.alter_replica_log_dirs({(topic, 0, node.id): "/nowhere"})
    features = admin.describe_features()
    assert features.supported_features.keys() >= features.finalized_features.keys() != set()


def test_quotas(admin: Admin) -> None:
    user = {"user": f"user-{next(_numbers)}"}
    admin.alter_client_quotas(QuotaEntry(user, {"producer_byte_rate": 1000.0, "consumer_byte_rate": 5.0}))
    entry = QuotaEntry(user, {"producer_byte_rate": 1000.0, "consumer_byte_rate": 5.0})
    until(lambda: admin.describe_client_quotas(user) == [entry])
    assert entry in admin.describe_client_quotas(["user"])
    admin.alter_client_quotas(QuotaEntry(user, {"producer_byte_rate": None, "consumer_byte_rate": None}))
    until(lambda: admin.describe_client_quotas(user) == [])


def test_users(admin: Admin) -> None:
    user, mechanism = f"user-{next(_numbers)}", ScramMechanism.SCRAM_SHA_256
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, "secret", mechanism)])
    until(lambda: user in admin.describe_user_scram_credentials())
    (info,) = admin.describe_user_scram_credentials(user)[user]
    assert (info.mechanism, info.iterations) == (mechanism, 4096)
    admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, mechanism)])
    until(lambda: user not in admin.describe_user_scram_credentials())
    with pytest.raises(ResourceNotFoundException):
        admin.describe_user_scram_credentials(user)
    with pytest.raises(ResourceNotFoundException):
        admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, mechanism)])
    with pytest.raises(IllegalArgumentException, match="at least 4096"):
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, "secret", iterations=1)])


def test_access_is_refused_where_nobody_keeps_it(admin: Admin) -> None:
    with pytest.raises(SecurityDisabledException):
        admin.describe_acls()
    with pytest.raises(SecurityDisabledException):
        admin.delete_acls(AclBindingFilter())


# The client itself


def test_the_same_calls_with_await(any_bootstrap: str) -> None:
    name = f"admin-{next(_numbers)}"

    async def story() -> None:
        async with semel.aio.Admin(bootstrap_servers=any_bootstrap) as admin:
            await admin.create_topics(name)
            async with asyncio.timeout(30):
                while name not in {one.name for one in await admin.listTopics()}:
                    await asyncio.sleep(0.02)
            assert name in await admin.describe_topics([name])
            with pytest.raises(TopicExistsException):
                await admin.createTopics(name)
            await admin.deleteTopics([name])
        with pytest.raises(IllegalStateException, match="has been closed"):
            await admin.list_topics()

    asyncio.run(story())


def test_it_counts_its_requests(semel_broker: semel.Broker) -> None:
    with Admin(bootstrap_servers=semel_broker.bootstrap) as admin:
        assert admin.metrics()["request-total"] == 0
        admin.list_topics()
        shown = admin.metrics()
        assert (shown["request-total"], shown["response-total"], shown["connection-count"]) == (1, 1, 1)
        assert shown["default.api.timeout.ms"] == admin.config["default.api.timeout.ms"] == 60_000
    assert admin.metrics()["connection-count"] == 0


def test_reporters_are_told(semel_broker: semel.Broker) -> None:
    told = threading.Event()
    with Admin(
        bootstrap_servers=semel_broker.bootstrap,
        metrics_sample_window_ms=10,
        metric_reporters=[lambda values: told.set() if values["request-total"] else None],
    ) as admin:
        admin.list_topics()
        assert told.wait(30)


def test_a_client_nobody_closes_is_reported_and_ends(semel_broker: semel.Broker) -> None:
    held = [Admin(bootstrap_servers=semel_broker.bootstrap)]
    held[0].list_topics()  # There is an open connection now.
    thread = held[0]._thread
    with pytest.warns(ResourceWarning, match="unclosed admin client"):
        held.clear()
    assert not thread.is_open


def test_nobody_listens() -> None:
    with (
        Admin(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=1000, request_timeout_ms=500) as admin,
        pytest.raises(NetworkException, match=r"nobody listens at 127\.0\.0\.1:1"),
    ):
        admin.list_topics()


def test_answers_are_tables_in_a_notebook(semel_broker: semel.Broker) -> None:
    with Admin(bootstrap_servers=semel_broker.bootstrap) as admin:
        name = f"admin-{next(_numbers)}"
        admin.create_topics(name)
        listed = admin.list_topics()._repr_html_()
        assert "<th>name</th><th>topic_id</th><th>is_internal</th>" in listed
        assert f"<td>{name}</td>" in listed
        assert "<th>leader_epoch</th>" in admin.describe_topics(name)._repr_html_()
        assert admin.list_groups()._repr_html_().startswith("<table>")


NOT_SERVED: Final = {
    "KRaft": {"addRaftVoter", "removeRaftVoter", "describeMetadataQuorum", "unregisterBroker"},
    "delegation tokens": {
        "createDelegationToken",
        "describeDelegationToken",
        "expireDelegationToken",
        "renewDelegationToken",
    },
    "share groups": {
        "alterShareGroupOffsets",
        "deleteShareGroupOffsets",
        "deleteShareGroups",
        "describeShareGroups",
        "listShareGroupOffsets",
    },
    "Kafka Streams' groups": {
        "alterStreamsGroupOffsets",
        "deleteStreamsGroupOffsets",
        "deleteStreamsGroups",
        "describeStreamsGroups",
        "listStreamsGroupOffsets",
    },
    "metrics pushed to brokers": {
        "clientInstanceId",
        "registerMetricForSubscription",
        "unregisterMetricFromSubscription",
    },
    "a constructor": {"create"},
}
"""What Java's client has and this one has not: nothing Semel's broker serves."""


@pytest.mark.java
def test_every_call_of_javas_client_is_here_under_its_name(kafka_home: KafkaHome) -> None:
    program = Path(__file__).parents[2] / "java" / "AdminCalls.java"
    theirs = set(kafka_home.run(str(program)).split())
    assert theirs - set(dir(Admin)) == set().union(*NOT_SERVED.values())


def test_every_call_of_one_client_is_in_the_other() -> None:
    blocking = {name for name in dir(Admin) if not name.startswith("_")} - {"CLOSED", "KIND"}
    awaited = {name for name in dir(semel.aio.Admin) if not name.startswith("_")} - {"give_up"}
    assert blocking == awaited
