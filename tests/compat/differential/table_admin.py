"""The admin half of the table: topics, partitions, records deleted, settings, and everything that describes."""

from typing import Final

from compat.differential.asking import Ask, always, create, described, learn_created, topic_id
from compat.differential.exchange import Side
from semel.core.wire.message import Message
from semel.core.wire.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    find_coordinator,
    incremental_alter_configs,
    list_config_resources,
    offset_for_leader_epoch,
)
from semel.core.wire.messages.create_topics import CreatableTopic

_CREATE: Final = (2, 4, 5, 6, 7)
_TOPIC: Final = 2
_BROKER: Final = 4


def _creating(*topics: CreatableTopic, validate_only: bool = False) -> Message:
    return create_topics.CreateTopicsRequest(
        topics=list(topics), validate_only=validate_only, timeout_ms=30_000
    )


def _refused(title: str, *topics: CreatableTopic, versions: tuple[int, ...] = (2, 7)) -> Ask:
    return Ask(f"create topics: {title}", versions, always(_creating(*topics)), changes=True)


CREATING: Final = (
    Ask(
        "create topics: what the stories use",
        (7,),
        always(
            _creating(
                create("orders", 2),
                create("stamped", 1, configs=[("message.timestamp.type", "LogAppendTime")]),
                create("compacted", 1, configs=[("cleanup.policy", "compact")]),
                create("small", 1, configs=[("max.message.bytes", "500")]),
                create("zstd", 1, configs=[("compression.type", "zstd")]),
                create("quiet", 3),
                create("odd", 1),
            )
        ),
        learn_created,
        changes=True,
    ),
    Ask(
        "create topics: a good one in every version",
        _CREATE,
        lambda _side, version: _creating(create(f"made-by-{version}", 2)),
        changes=True,
    ),
    Ask(
        "create topics: defaults by -1",
        (4, 5, 7),
        lambda _side, version: _creating(create(f"defaults-{version}", -1, -1)),
        changes=True,
    ),
    Ask(
        "create topics: settings of its own",
        (5, 7),
        lambda _side, version: _creating(
            create(
                f"tuned-{version}",
                configs=[
                    ("retention.ms", "1000"),
                    ("cleanup.policy", "compact,delete"),
                    ("min.cleanable.dirty.ratio", "0.25"),
                    ("max.message.bytes", " 2000 "),
                    ("compression.type", "lz4"),
                    ("preallocate", "TRUE"),
                ],
            )
        ),
        changes=True,
    ),
    Ask(
        "create topics: replicas by hand",
        (2, 7),
        lambda _side, version: _creating(
            create(f"by-hand-{version}", -1, -1, assignments=[(1, [1]), (0, [1])])
        ),
        changes=True,
    ),
    Ask(
        "create topics: only validated",
        _CREATE,
        always(_creating(create("never", 3), validate_only=True)),
        changes=True,
    ),
    _refused("one that exists", create("orders")),
    _refused("the same twice", create("twice"), create("twice"), create("beside-twice")),
    _refused("the same thrice", create("thrice"), create("thrice"), create("thrice")),
    _refused("an empty name", create("")),
    _refused("a dot", create(".")),
    _refused("two dots", create("..")),
    _refused("a space", create("a b")),
    _refused("a letter beyond ASCII", create("é")),
    _refused("a name of 250", create("n" * 250)),
    _refused("the cluster's metadata", create("__cluster_metadata")),
    _refused("names that differ in dot and underscore", create("dotted.name"), versions=(7,)),
    _refused("a name that collides", create("dotted_name")),
    _refused("two new names that collide", create("new.name"), create("new_name"), versions=(7,)),
    _refused("no partitions", create("bad", 0)),
    _refused("-2 partitions", create("bad", -2)),
    _refused("no replicas", create("bad", 1, 0)),
    _refused("-2 replicas", create("bad", 1, -2)),
    _refused("no partitions and no replicas", create("bad", 0, 0)),
    _refused("more replicas than brokers", create("bad", 1, 2)),
    _refused("too many partitions", create("bad", 10_001), create("good-beside-too-many")),
    _refused("replicas by hand and partitions", create("bad", 1, -1, assignments=[(0, [1])])),
    _refused("replicas by hand and a factor", create("bad", -1, 1, assignments=[(0, [1])])),
    _refused("a replica on nobody", create("bad", -1, -1, assignments=[(0, [9])])),
    _refused("a replica twice", create("bad", -1, -1, assignments=[(0, [1, 1])])),
    _refused("an empty replica list", create("bad", -1, -1, assignments=[(0, [])])),
    _refused("a partition twice", create("bad", -1, -1, assignments=[(0, [1]), (0, [1])])),
    _refused("a partition left out", create("bad", -1, -1, assignments=[(0, [1]), (2, [1])])),
    _refused("partitions not from 0", create("bad", -1, -1, assignments=[(1, [1])])),
    _refused("a setting nobody knows", create("bad", configs=[("no.such.setting", "1")])),
    _refused("a setting without a value", create("bad", configs=[("retention.ms", None)])),
    _refused("a setting that is not a number", create("bad", configs=[("retention.ms", "soon")])),
    _refused("a setting below its bound", create("bad", configs=[("segment.bytes", "1")])),
    _refused("a word that is none of these", create("bad", configs=[("cleanup.policy", "shred")])),
    _refused(
        "lags that contradict",
        create("bad", configs=[("min.compaction.lag.ms", "2"), ("max.compaction.lag.ms", "1")]),
    ),
    _refused("remote storage", create("bad", configs=[("remote.storage.enable", "true")])),
    _refused("a flaw in name and shape", create("a b", 0, 0, configs=[("no.such.setting", "1")])),
    _refused("a flaw in settings and shape", create("bad", 0, 9, configs=[("no.such.setting", "1")])),
    _refused("one that exists, with a flaw", create("orders", 0)),
    Ask(
        "metadata: what was created",
        (0, 1, 4, 5, 7, 8, 9, 10, 11, 12, 13),
        described(allow_auto_topic_creation=True),
    ),
)


def _growing(
    *topics: tuple[str, int], assignments: list[list[int]] | None = None, validate_only: bool = False
) -> Message:
    return create_partitions.CreatePartitionsRequest(
        topics=[
            create_partitions.CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if assignments is None
                else [create_partitions.CreatePartitionsAssignment(broker_ids=ids) for ids in assignments],
            )
            for name, count in topics
        ],
        timeout_ms=30_000,
        validate_only=validate_only,
    )


def _grow(title: str, message: Message, versions: tuple[int, ...] = (0, 3)) -> Ask:
    return Ask(f"create partitions: {title}", versions, always(message), changes=True)


GROWING: Final = (
    Ask(
        "create partitions: one more",
        (0, 1, 2, 3),
        lambda _side, version: _growing((f"made-by-{(2, 4, 5, 6)[version]}", 3)),
        changes=True,
    ),
    _grow("on this broker by hand", _growing(("made-by-7", 4), assignments=[[1], [1]]), (3,)),
    _grow("only validated", _growing(("quiet", 9), validate_only=True)),
    _grow("as many as there are", _growing(("quiet", 3))),
    _grow("fewer", _growing(("quiet", 2))),
    _grow("none", _growing(("quiet", 0))),
    _grow("a negative number", _growing(("quiet", -1))),
    _grow("of a topic nobody made", _growing(("nowhere", 4))),
    _grow("of an impossible name", _growing(("a b", 4))),
    _grow("the same twice", _growing(("quiet", 4), ("quiet", 5), ("nowhere", 1))),
    _grow("too many", _growing(("quiet", 20_000), validate_only=True)),
    _grow("by hand, too few", _growing(("quiet", 5), assignments=[[1]])),
    _grow("by hand, nobody", _growing(("quiet", 4), assignments=[[7]])),
    _grow("by hand, empty", _growing(("quiet", 4), assignments=[[]])),
    _grow("by hand, twice", _growing(("quiet", 4), assignments=[[1, 1]])),
    Ask("metadata: after growing", (12,), described("made-by-2", "made-by-7", "quiet")),
)


def _settings(kind: int, name: str, keys: list[str] | None = None, *, synonyms: bool = False) -> Message:
    return describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
        ],
        include_synonyms=synonyms,
    )


def _altering(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> Message:
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=key, config_operation=operation, value=value
                    )
                    for key, operation, value in changes
                ],
            )
        ],
        validate_only=validate_only,
    )


def _replacing(
    kind: int, name: str, *changes: tuple[str, str | None], validate_only: bool = False
) -> Message:
    return alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[alter_configs.AlterableConfig(name=key, value=value) for key, value in changes],
            )
        ],
        validate_only=validate_only,
    )


_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3


def _alter(title: str, message: Message) -> Ask:
    return Ask(f"incremental alter configs: {title}", (0, 1), always(message), changes=True)


def _replace(title: str, message: Message) -> Ask:
    return Ask(f"alter configs: {title}", (0, 2), always(message), changes=True)


CONFIGURING: Final = (
    Ask("describe configs: a topic", (1, 2, 3, 4), always(_settings(_TOPIC, "stamped"))),
    Ask(
        "describe configs: a topic, with synonyms",
        (1, 4),
        always(_settings(_TOPIC, "compacted", synonyms=True)),
    ),
    Ask(
        "describe configs: two keys",
        (1, 4),
        always(_settings(_TOPIC, "orders", ["retention.ms", "segment.bytes"])),
    ),
    Ask("describe configs: a key nobody knows", (1, 4), always(_settings(_TOPIC, "orders", ["no.such"]))),
    Ask("describe configs: no keys", (1, 4), always(_settings(_TOPIC, "orders", []))),
    Ask("describe configs: a topic nobody made", (1, 4), always(_settings(_TOPIC, "nowhere"))),
    Ask("describe configs: an impossible name", (1, 4), always(_settings(_TOPIC, "a b"))),
    Ask("describe configs: another broker", (1, 4), always(_settings(_BROKER, "9"))),
    Ask("describe configs: a broker that is not a number", (1, 4), always(_settings(_BROKER, "one"))),
    Ask("describe configs: a resource nobody knows", (1, 4), always(_settings(77, "x"))),
    Ask(
        "describe configs: the broker, some keys",
        (1, 4),
        always(
            _settings(_BROKER, "1", ["num.partitions", "log.retention.hours", "log.segment.bytes", "node.id"])
        ),
    ),
    Ask("describe configs: every broker's", (1, 4), always(_settings(_BROKER, ""))),
    _alter("set", _altering(_TOPIC, "quiet", ("retention.ms", _SET, "5000"))),
    _alter("append", _altering(_TOPIC, "quiet", ("cleanup.policy", _APPEND, "compact"))),
    _alter("subtract", _altering(_TOPIC, "quiet", ("cleanup.policy", _SUBTRACT, "delete"))),
    Ask("describe configs: after changes", (4,), always(_settings(_TOPIC, "quiet"))),
    _alter(
        "delete",
        _altering(_TOPIC, "quiet", ("retention.ms", _DELETE, None), ("cleanup.policy", _DELETE, None)),
    ),
    Ask("describe configs: after deletions", (4,), always(_settings(_TOPIC, "quiet"))),
    _alter("only validated", _altering(_TOPIC, "quiet", ("retention.ms", _SET, "7"), validate_only=True)),
    _alter("a key nobody knows", _altering(_TOPIC, "quiet", ("no.such", _SET, "7"))),
    _alter("a bad value", _altering(_TOPIC, "quiet", ("retention.ms", _SET, "soon"))),
    _alter("a value out of bounds", _altering(_TOPIC, "quiet", ("segment.bytes", _SET, "1"))),
    _alter("no value", _altering(_TOPIC, "quiet", ("retention.ms", _SET, None))),
    _alter("append to what is not a list", _altering(_TOPIC, "quiet", ("retention.ms", _APPEND, "7"))),
    _alter("an operation nobody knows", _altering(_TOPIC, "quiet", ("retention.ms", 9, "7"))),
    _alter(
        "a key twice", _altering(_TOPIC, "quiet", ("retention.ms", _SET, "7"), ("retention.ms", _SET, "8"))
    ),
    _alter("a topic nobody made", _altering(_TOPIC, "nowhere", ("retention.ms", _SET, "7"))),
    _alter("a resource nobody knows", _altering(77, "x", ("retention.ms", _SET, "7"))),
    _alter("another broker", _altering(_BROKER, "9", ("log.cleaner.threads", _SET, "2"))),
    _alter("a broker's fixed setting", _altering(_BROKER, "1", ("node.id", _SET, "2"))),
    _replace("replace", _replacing(_TOPIC, "quiet", ("retention.bytes", "5000"))),
    _replace("only validated", _replacing(_TOPIC, "quiet", ("retention.ms", "5000"), validate_only=True)),
    Ask("describe configs: after replacing", (4,), always(_settings(_TOPIC, "quiet"))),
    _replace("by nothing", _replacing(_TOPIC, "quiet")),
    Ask("describe configs: after emptying", (4,), always(_settings(_TOPIC, "quiet"))),
    _replace("a key nobody knows", _replacing(_TOPIC, "quiet", ("no.such", "7"))),
    _replace("a bad value", _replacing(_TOPIC, "quiet", ("retention.ms", "soon"))),
    _replace("no value", _replacing(_TOPIC, "quiet", ("retention.ms", None))),
    _replace("a topic nobody made", _replacing(_TOPIC, "nowhere", ("retention.ms", "7"))),
    Ask("list config resources", (0,), always(list_config_resources.ListConfigResourcesRequest())),
    Ask(
        "list config resources: every kind", (1,), always(list_config_resources.ListConfigResourcesRequest())
    ),
    Ask(
        "list config resources: one kind",
        (1,),
        always(list_config_resources.ListConfigResourcesRequest(resource_types=[_TOPIC])),
    ),
    Ask(
        "list config resources: a kind nobody knows",
        (1,),
        always(list_config_resources.ListConfigResourcesRequest(resource_types=[77])),
    ),
)


def _paged(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Message:
    return describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=[describe_topic_partitions.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None
        if cursor is None
        else describe_topic_partitions.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def _page(title: str, message: Message) -> Ask:
    return Ask(f"describe topic partitions: {title}", (0,), always(message))


def _located(*topics: tuple[str, list[int]]) -> Message:
    return describe_log_dirs.DescribeLogDirsRequest(
        topics=[
            describe_log_dirs.DescribableLogDirTopic(topic=name, partitions=indexes)
            for name, indexes in topics
        ]
    )


def _epoch(topic: str, partition: int, epoch: int, current: int = -1) -> Message:
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    offset_for_leader_epoch.OffsetForLeaderPartition(
                        partition=partition, leader_epoch=epoch, current_leader_epoch=current
                    )
                ],
            )
        ]
    )


def _ended(title: str, message: Message) -> Ask:
    return Ask(f"offset for leader epoch: {title}", (2, 3, 4), always(message))


def _producers(*topics: tuple[str, list[int]]) -> Message:
    return describe_producers.DescribeProducersRequest(
        topics=[
            describe_producers.TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics
        ]
    )


DESCRIBING: Final = (
    Ask("describe cluster", (0, 1, 2), always(describe_cluster.DescribeClusterRequest())),
    Ask(
        "describe cluster: operations",
        (0, 2),
        always(describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)),
    ),
    Ask(
        "describe cluster: with fenced brokers",
        (2,),
        always(describe_cluster.DescribeClusterRequest(include_fenced_brokers=True)),
    ),
    Ask(
        "describe cluster: controllers",
        (1, 2),
        always(describe_cluster.DescribeClusterRequest(endpoint_type=2)),
    ),
    Ask(
        "describe cluster: neither", (1, 2), always(describe_cluster.DescribeClusterRequest(endpoint_type=7))
    ),
    _page("all", _paged()),
    _page("some", _paged("quiet", "orders")),
    _page("the same twice", _paged("quiet", "quiet")),
    _page("a page of 1", _paged("quiet", "orders", limit=1)),
    _page("a page of 0", _paged("quiet", "orders", limit=0)),
    _page("a page that ends with a topic", _paged("quiet", "orders", limit=2)),
    _page("the last page", _paged("quiet", "orders", limit=2, cursor=("quiet", 1))),
    _page("all from a cursor", _paged(limit=2, cursor=("orders", 1))),
    _page("a cursor behind the last partition", _paged("quiet", "small", cursor=("quiet", 3))),
    _page("a cursor far behind", _paged("quiet", "small", cursor=("quiet", 9))),
    _page("all from a topic nobody made", _paged(limit=2, cursor=("p", 0))),
    _page("a cursor that is not asked for", _paged("quiet", cursor=("orders", 0))),
    _page("a negative cursor", _paged("quiet", cursor=("quiet", -1))),
    _page("all from a negative cursor", _paged(cursor=("quiet", -1))),
    _page("what is not there", _paged("nowhere", "a b", "quiet")),
    _page("pages count what is there", _paged("nowhere", "orders", "quiet", limit=2)),
    Ask(
        "describe log dirs: all",
        (1, 2, 3, 4, 5),
        always(describe_log_dirs.DescribeLogDirsRequest(topics=None)),
    ),
    Ask(
        "describe log dirs: some",
        (1, 5),
        always(_located(("orders", [0, 1]), ("quiet", [2, 9]), ("nowhere", [0]))),
    ),
    Ask("describe log dirs: none", (1, 5), always(_located())),
    Ask("describe log dirs: only what is not there", (1, 5), always(_located(("nowhere", [0])))),
    Ask(
        "describe producers", (0,), always(_producers(("orders", [0, 1, 7]), ("nowhere", [0]), ("a b", [0])))
    ),
    Ask("describe producers: no partitions", (0,), always(_producers(("orders", []), ("nowhere", [])))),
    _ended("the one there is", _epoch("orders", 0, 0)),
    _ended("the one there is, empty log", _epoch("quiet", 0, 0)),
    _ended("one to come", _epoch("orders", 0, 5)),
    _ended("none", _epoch("orders", 0, -1)),
    _ended("the leader as known", _epoch("orders", 0, 0, current=0)),
    _ended("the leader to come", _epoch("orders", 0, 0, current=4)),
    _ended("a partition nobody made", _epoch("orders", 9, 0)),
    _ended("a topic nobody made", _epoch("nowhere", 0, 0)),
)


def _deleting(*topics: tuple[str, list[tuple[int, int]]]) -> Message:
    return delete_records.DeleteRecordsRequest(
        topics=[
            delete_records.DeleteRecordsTopic(
                name=name,
                partitions=[
                    delete_records.DeleteRecordsPartition(partition_index=index, offset=offset)
                    for index, offset in partitions
                ],
            )
            for name, partitions in topics
        ],
        timeout_ms=30_000,
    )


def _delete(title: str, message: Message) -> Ask:
    return Ask(f"delete records: {title}", (0, 1, 2), always(message), changes=True)


DELETING_RECORDS: Final = (
    _delete("up to 2", _deleting(("orders", [(0, 2)]))),
    _delete("less than is gone", _deleting(("orders", [(0, 1)]))),
    _delete("none", _deleting(("orders", [(0, 0)]))),
    _delete("beyond the end", _deleting(("orders", [(0, 100_000)]))),
    _delete("a negative offset", _deleting(("orders", [(0, -2)]))),
    _delete("of a topic nobody made", _deleting(("nowhere", [(0, 0)]))),
    _delete("of a partition nobody made", _deleting(("orders", [(9, 0)]))),
    _delete("of a compacted topic", _deleting(("compacted", [(0, 0)]))),
    _delete("some good, some not", _deleting(("quiet", [(0, 0), (8, 0)]), ("nowhere", [(1, -1)]))),
    _delete("a partition twice", _deleting(("orders", [(0, 1), (0, 3)]))),
    _ended("after deletion", _epoch("orders", 0, 0)),
    Ask("describe log dirs: after deletion", (5,), always(_located(("orders", [0, 1])))),
    _delete("all", _deleting(("orders", [(0, -1)]), ("quiet", [(0, -1)]))),
    _ended("after deleting all", _epoch("orders", 0, 0)),
    Ask("describe producers: after deleting all", (0,), always(_producers(("orders", [0])))),
)


def _by_name(*names: str) -> Message:
    return delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(name=name) for name in names], timeout_ms=30_000
    )


def _by_old_name(*names: str) -> Message:
    return delete_topics.DeleteTopicsRequest(topic_names=list(names), timeout_ms=30_000)


def _by_id(*names: str, also: tuple[str, ...] = ()) -> Ask:
    def build(side: Side, _version: int) -> Message:
        by_id = [delete_topics.DeleteTopicState(topic_id=topic_id(side, name)) for name in names]
        by_name = [delete_topics.DeleteTopicState(name=name) for name in also]
        return delete_topics.DeleteTopicsRequest(topics=by_id + by_name, timeout_ms=30_000)

    return Ask(f"delete topics: by id {names} {also}", (6,), build, changes=True)


def _both_ways(side: Side, _version: int) -> Message:
    return delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(name="small", topic_id=topic_id(side, "small"))],
        timeout_ms=30_000,
    )


DELETING_TOPICS: Final = (
    Ask(
        "delete topics: by name",
        (1, 3, 4, 5),
        lambda _side, version: _by_old_name(
            {1: "made-by-2", 3: "made-by-4", 4: "made-by-5", 5: "made-by-6"}[version]
        ),
        changes=True,
    ),
    Ask("delete topics: by name in a list", (6,), always(_by_name("made-by-7")), changes=True),
    Ask(
        "delete topics: the same twice",
        (1, 5),
        always(_by_old_name("small", "small", "nowhere")),
        changes=True,
    ),
    Ask("delete topics: the same twice in a list", (6,), always(_by_name("small", "small")), changes=True),
    Ask("delete topics: an impossible name", (1, 5), always(_by_old_name("a b", "")), changes=True),
    Ask("delete topics: an impossible name in a list", (6,), always(_by_name("a b", "")), changes=True),
    Ask(
        "delete topics: neither name nor id",
        (6,),
        always(delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState()])),
        changes=True,
    ),
    Ask("delete topics: name and id", (6,), _both_ways, changes=True),
    _by_id("small", "small"),
    _by_id("small", also=("small",)),
    _by_id("nowhere"),
    _by_id("small", also=("zstd",)),
    Ask(
        "metadata: after deletion",
        (4, 12),
        described("small", "zstd", "made-by-2", allow_auto_topic_creation=False),
    ),
)


def _coordinator(kind: int) -> Ask:
    def build(_side: Side, version: int) -> Message:
        keys = ["someone", "someone else"]
        kept = kind if version else 0
        if version < 4:
            return find_coordinator.FindCoordinatorRequest(key=keys[0], key_type=kept)
        return find_coordinator.FindCoordinatorRequest(coordinator_keys=keys, key_type=kept)

    versions = (0, 1, 2, 3, 4, 5, 6) if kind < 2 else (1, 3, 4, 6)
    return Ask(f"find coordinator: of kind {kind}", versions, build, begins=kind < 2)


FINDING_COORDINATORS: Final = (_coordinator(7), _coordinator(2), _coordinator(0), _coordinator(1))
