"""Mistakes in administration: topics, settings, groups, offsets and transactions that are not there or cannot be.

Method: a table; every row is one call of an admin client on a real broker.
"""

from typing import Any

from semel import Admin, ConfigResource, ConfigResourceType, NewTopic, OffsetSpec
from semel.exceptions import (
    GroupIdNotFoundException,
    IllegalArgumentException,
    IllegalStateException,
    InvalidConfigurationException,
    InvalidPartitionsException,
    InvalidReplicationFactorException,
    InvalidTopicException,
    InvalidTxnStateException,
    NetworkException,
    OffsetOutOfRangeException,
    TopicExistsException,
    TransactionalIdNotFoundException,
    UnknownMemberIdException,
    UnknownTopicOrPartitionException,
)
from support.client.mistakes_kit import DEAD, IMPATIENT_MS, TOPIC, Mistake, World, judge, rows

WRONG = IllegalArgumentException
ABSENT = UnknownTopicOrPartitionException


def new(w: World, partitions: Any, replicas: int = 1, **configs: str) -> object:
    return w.admin().create_topics(
        NewTopic(
            "new",
            partitions,
            replicas,
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
    )


def dead(w: World, bootstrap: str = DEAD) -> Admin:
    return w.admin(
        bootstrap_servers=bootstrap, default_api_timeout_ms=IMPATIENT_MS, request_timeout_ms=IMPATIENT_MS // 2
    )


@rows(
    Mistake("a topic that exists", lambda w: w.admin().create_topics(TOPIC), TopicExistsException, ("'orders'",), "already exists"),
    Mistake("a topic with a space", lambda w: w.admin().create_topics("my topic!"), InvalidTopicException, ("'my topic!'",), "ASCII alphanumerics"),
    Mistake("an empty topic", lambda w: w.admin().create_topics(""), WRONG, ("topics=''",), "a topic's name, a NewTopic"),
    Mistake("a topic that is a number", lambda w: w.admin().create_topics(5), WRONG, ("topics=5",), "a topic's name, a NewTopic"),  # type: ignore[arg-type]
    Mistake("no partitions", lambda w: new(w, 0), InvalidPartitionsException, ("'new'", "partitions"), "non-positive"),
    Mistake("minus two partitions", lambda w: new(w, -2), InvalidPartitionsException, ("'new'", "partitions"), "non-positive"),
    Mistake("partitions in text", lambda w: new(w, "3"), WRONG, ("new: num_partitions='3'",), "a whole number"),
    Mistake("a misnamed argument", lambda w: NewTopic("new", partitions=3), TypeError, ("'partitions'",), "unexpected keyword"),  # type: ignore[call-arg]
    Mistake("more replicas than brokers", lambda w: new(w, 1, 3), InvalidReplicationFactorException, ("'new'", "3 time(s)"), "only 1 broker(s)"),
    Mistake("a misspelled setting", lambda w: new(w, 1, retention_sm="1"), InvalidConfigurationException, ("'new'",), "retention.sm"),
    Mistake("a time in words", lambda w: new(w, 1, retention_ms="week"), InvalidConfigurationException, ("week", "retention.ms"), "a number"),
    Mistake("an unknown policy", lambda w: new(w, 1, cleanup_policy="compress"), InvalidConfigurationException, ("compress", "cleanup.policy"), "compact, delete"),
    Mistake("delete what is not there", lambda w: w.admin().delete_topics("absent"), ABSENT, ("absent",), "semel topics list"),
    Mistake("describe what is not there", lambda w: w.admin().describe_topics("absent"), ABSENT, ("'absent'",), "semel topics list"),
    Mistake("fewer partitions", lambda w: w.admin().create_partitions({TOPIC: 1}), InvalidPartitionsException, ("orders", "2 partition(s)"), "would not be an increase"),
    Mistake("as many partitions", lambda w: w.admin().create_partitions({TOPIC: 2}), InvalidPartitionsException, ("'orders'",), "already has 2 partition(s)"),
    Mistake("partitions of what is not there", lambda w: w.admin().create_partitions({"absent": 2}), ABSENT, ("'absent'",), "semel topics list"),
    Mistake("delete records that are not there", lambda w: w.admin().delete_records({(TOPIC, 0): 999}), OffsetOutOfRangeException, ("orders-0", "999"), "semel topics describe"),
    Mistake("delete records of a partition that is not there", lambda w: w.admin().delete_records({(TOPIC, 9): 0}), ABSENT, ("orders", "not 9"), "partitions 0 to 1"),
    Mistake("offsets of a partition that is not there", lambda w: w.admin().list_offsets({(TOPIC, 9): OffsetSpec.latest()}), ABSENT, ("orders", "not 9"), "partitions 0 to 1"),
    Mistake("an offset's kind in words", lambda w: w.admin().list_offsets({(TOPIC, 0): "latest"}), WRONG, ("specs[orders-0]='latest'",), "OffsetSpec.latest()"),  # type: ignore[dict-item]
    Mistake("settings of what is not there", lambda w: w.admin().describe_configs([ConfigResource(ConfigResourceType.TOPIC, "absent")]), ABSENT, ("absent",), "semel topics list"),
    Mistake("delete a group that is not there", lambda w: w.admin().delete_consumer_groups("nope"), GroupIdNotFoundException, ("nope",), "semel groups list"),
    Mistake("describe a group that is not there", lambda w: w.admin().describe_consumer_groups("nope"), GroupIdNotFoundException, ("nope",), "semel groups list"),
    Mistake("groups in a state that is none", lambda w: w.admin().list_consumer_groups(states=["Happy"]), WRONG, ("'Happy'",), "Stable"),
    Mistake("groups in a state, not a list", lambda w: w.admin().list_consumer_groups(states="Stable"), WRONG, ("states='Stable'",), "a list of"),
    Mistake("groups of a type that is none", lambda w: w.admin().list_groups(types=["modern"]), WRONG, ("'modern'",), "classic, consumer"),
    Mistake("a group's offset below zero", lambda w: w.admin().alter_consumer_group_offsets("g", {(TOPIC, 0): -5}), WRONG, ("offsets[orders-0]", "-5"), "the first one is 0"),
    Mistake("a group's offset of a partition that is not there", lambda w: w.admin().alter_consumer_group_offsets("g", {(TOPIC, 9): 5}), ABSENT, ("orders-9",), "semel offsets show g"),
    Mistake("remove a member that is not there", lambda w: w.admin().remove_members_from_consumer_group("nope", group_instance_ids=["x"]), UnknownMemberIdException, ("nope", "x"), "semel groups describe nope"),
    Mistake("abort what is not open", lambda w: w.admin().abort_transaction((TOPIC, 0), 0), InvalidTxnStateException, ("orders-0", "offset 0"), "semel txn find-hanging"),
    Mistake("describe a transaction that is not there", lambda w: w.admin().describe_transactions("nope"), TransactionalIdNotFoundException, ("nope",), "semel txn list"),
    Mistake("asked after the end", lambda w: w.closed(w.admin()).list_topics(), IllegalStateException, ("closed",), "make a new one"),
    Mistake("nobody listens: list", lambda w: dead(w).list_topics(), NetworkException, (DEAD,), "start one with 'semel broker'", seconds=3),
    Mistake("nobody listens: create", lambda w: dead(w).create_topics("new"), NetworkException, (DEAD,), "start one with 'semel broker'", seconds=3),
    Mistake("a host that is not known", lambda w: dead(w, "no-such-host.invalid:9092").list_topics(), NetworkException, ("no-such-host.invalid:9092",), "bootstrap.servers", seconds=5),
)  # fmt: skip
def test_a_mistake_in_administration(mistake: Mistake, world: World) -> None:
    judge(mistake, world)
