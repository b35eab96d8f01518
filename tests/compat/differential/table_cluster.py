"""The part of the table about a cluster of one: quotas, users, features, elections, moves, groups' settings, no authorizer."""

from collections.abc import Sequence
from typing import Final

from compat.differential.asking import Ask, always
from compat.differential.exchange import Side
from semel.core.wire.message import Message
from semel.core.wire.messages import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_user_scram_credentials,
    elect_leaders,
    incremental_alter_configs,
    list_config_resources,
    list_partition_reassignments,
    update_features,
)

_GROUP: Final = 32
_LOGGER: Final = 8
_Entity = Sequence[tuple[str, str | None]]

# Quotas


def _quota(
    title: str, *entries: tuple[_Entity, Sequence[tuple[str, float | None]]], dry: bool = False
) -> Ask:
    message = alter_client_quotas.AlterClientQuotasRequest(
        entries=[
            alter_client_quotas.EntryData(
                entity=[
                    alter_client_quotas.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
                ops=[
                    alter_client_quotas.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in ops
                ],
            )
            for entity, ops in entries
        ],
        validate_only=dry,
    )
    return Ask(f"alter client quotas: {title}", (0, 1), always(message), changes=True)


def _quotas(title: str, *parts: tuple[str, int, str | None], strict: bool = False) -> Ask:
    message = describe_client_quotas.DescribeClientQuotasRequest(
        components=[
            describe_client_quotas.ComponentData(entity_type=kind, match_type=match, match=name)
            for kind, match, name in parts
        ],
        strict=strict,
    )
    return Ask(f"describe client quotas: {title}", (0, 1), always(message))


_ALICE: Final = (("user", "alice"),)
_RATE: Final = "producer_byte_rate"
QUOTAS: Final = (
    _quotas("when there are none"),
    _quota("of a user", (_ALICE, [(_RATE, 1000.0), ("request_percentage", 12.5)])),
    _quota("of everyone else", ((("user", None),), [(_RATE, 500.0)])),
    _quota("of a client", ((("client-id", "app"),), [("consumer_byte_rate", 7.0)])),
    _quota("of both", ((("user", "alice"), ("client-id", "app")), [("controller_mutation_rate", 2.5)])),
    _quota("of an address", ((("ip", "127.0.0.9"),), [("connection_creation_rate", 3.0)])),
    _quota("several at once", (_ALICE, [("consumer_byte_rate", 9.0)]), ((("user", "bob"),), [(_RATE, 1.0)])),
    _quota("only validated", ((("user", "carol"),), [(_RATE, 1.0)]), dry=True),
    _quota("one removed", (_ALICE, [("request_percentage", None)])),
    _quota("what is not there removed", ((("user", "dave"),), [(_RATE, None)])),
    _quota("nobody", ((), [(_RATE, 1.0)])),
    _quota("an unknown kind", ((("planet", "mars"),), [(_RATE, 1.0)])),
    _quota("an empty name", ((("user", ""),), [(_RATE, 1.0)])),
    _quota("an address and a user", ((("ip", "1.2.3.4"), ("user", "x")), [(_RATE, 1.0)])),
    _quota("a bad address", ((("ip", "1.2.3.4.5"),), [("connection_creation_rate", 1.0)])),
    _quota("an unknown key", (_ALICE, [("happiness", 1.0)])),
    _quota("a key of another kind", (_ALICE, [("connection_creation_rate", 1.0)])),
    _quota("nothing", (_ALICE, [(_RATE, 0.0)])),
    _quota("less than nothing", (_ALICE, [(_RATE, -1.0)])),
    _quota("half a byte", (_ALICE, [(_RATE, 0.5)])),
    _quota(
        "a good one beside a bad one", (_ALICE, [("happiness", 1.0)]), ((("user", "erin"),), [(_RATE, 4.0)])
    ),
    _quotas("all"),
    _quotas("a user", ("user", 0, "alice")),
    _quotas("a user and nothing else", ("user", 0, "alice"), strict=True),
    _quotas("everyone else", ("user", 1, None), strict=True),
    _quotas("any user", ("user", 2, None)),
    _quotas("any user and nothing else", ("user", 2, None), strict=True),
    _quotas("any user with any client", ("user", 2, None), ("client-id", 2, None)),
    _quotas("an address", ("ip", 0, "127.0.0.9")),
    _quotas("an address and a user", ("ip", 2, None), ("user", 2, None)),
    _quotas("the same kind twice", ("user", 0, "alice"), ("user", 0, "bob")),
    _quotas("an unknown kind", ("planet", 0, "mars")),
    _quotas("an empty kind", ("", 0, "mars")),
    _quotas("an unknown match", ("user", 9, "alice")),
    _quotas("exactly nobody", ("user", 0, None)),
    _quotas("any by name", ("user", 2, "alice")),
    _quotas("nobody's", ("user", 0, "nobody")),
)

# Users


def _users(title: str, *names: str, all_of_them: bool = False) -> Ask:
    users = [describe_user_scram_credentials.UserName(name=name) for name in names]
    message = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
        users=None if all_of_them else users
    )
    return Ask(f"describe users: {title}", (0,), always(message))


def _scram(
    title: str,
    *upsertions: tuple[str, int, int],
    deletions: Sequence[tuple[str, int]] = (),
    salt: bytes = b"salt",
    password: bytes = b"p" * 32,
) -> Ask:
    message = alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        deletions=[
            alter_user_scram_credentials.ScramCredentialDeletion(name=name, mechanism=mechanism)
            for name, mechanism in deletions
        ],
        upsertions=[
            alter_user_scram_credentials.ScramCredentialUpsertion(
                name=name,
                mechanism=mechanism,
                iterations=iterations,
                salt=salt,
                salted_password=password,
            )
            for name, mechanism, iterations in upsertions
        ],
    )
    return Ask(f"alter users: {title}", (0,), always(message), changes=True)


USERS: Final = (
    _users("when there are none", all_of_them=True),
    _scram("two mechanisms at once", ("alice", 1, 4096), ("alice", 2, 16384)),
    _scram("a first one", ("alice", 1, 4096)),
    _scram("one for another mechanism", ("alice", 2, 16384)),
    _scram("another", ("bob", 1, 8192)),
    _scram("too few iterations", ("carol", 1, 4095)),
    _scram("too many iterations", ("carol", 1, 16385)),
    _scram("an unknown mechanism", ("carol", 3, 4096)),
    _scram("no name", ("", 1, 4096)),
    _scram("the same twice", ("carol", 1, 4096), ("carol", 1, 5000)),
    _scram("set and deleted", ("bob", 1, 5000), deletions=[("bob", 1)]),
    _scram("good beside bad", ("dave", 1, 4096), ("carol", 1, 1)),
    _scram("good and bad of one user", ("erin", 1, 4096), ("erin", 2, 1)),
    _scram("nobody deleted", deletions=[("nobody", 1)]),
    _scram("a mechanism nobody has deleted", deletions=[("bob", 2)]),
    _scram("nothing"),
    _users("all", all_of_them=True),
    _users("all by naming none"),
    _users("some", "bob", "nobody", "alice"),
    _users("the same twice", "bob", "bob"),
    _scram("one deleted", deletions=[("alice", 1)]),
    _users("after deletion", "alice"),
)

# Features


def _update(
    title: str, *updates: tuple[str, int, int], dry: bool = False, versions: tuple[int, ...] = (0, 1, 2)
) -> Ask:
    def build(_side: Side, version: int) -> Message:
        return update_features.UpdateFeaturesRequest(
            feature_updates=[
                update_features.FeatureUpdateKey(
                    feature=name,
                    max_version_level=level,
                    allow_downgrade=version == 0 and kind > 1,
                    upgrade_type=kind if version else 1,
                )
                for name, level, kind in updates
            ],
            validate_only=dry,
        )

    return Ask(f"update features: {title}", versions, build, changes=True)


FEATURES: Final = (
    _update("to where it is", ("group.version", 1, 1)),
    _update("down to where it is", ("group.version", 1, 2)),
    _update("too high", ("group.version", 2, 1)),
    _update("an unknown one", ("nope.version", 1, 1)),
    _update("down by an upgrade", ("group.version", 0, 1)),
    _update("below nothing", ("group.version", -1, 1)),
    _update("of no kind", ("group.version", 1, 9), versions=(1, 2)),
    _update("none"),
    _update("one bad of two", ("group.version", 0, 2), ("transaction.version", 9, 1), versions=(1, 2)),
    _update("only validated", ("group.version", 0, 2), dry=True, versions=(1, 2)),
    _update("down", ("group.version", 0, 2), versions=(1, 2)),
    _update("up again", ("group.version", 1, 1), versions=(1, 2)),
)

# Elections and moves


def _elect(title: str, *places: tuple[str, list[int]], everywhere: bool = False, kind: int = 0) -> Ask:
    def build(_side: Side, version: int) -> Message:
        named = [elect_leaders.TopicPartitions(topic=topic, partitions=list(ids)) for topic, ids in places]
        return elect_leaders.ElectLeadersRequest(
            election_type=kind if version else 0,
            topic_partitions=None if everywhere else named,
            timeout_ms=10_000,
        )

    return Ask(f"elect leaders: {title}", (0, 1, 2), build, changes=True)


def _move(title: str, *places: tuple[str, int, list[int] | None], same_factor: bool = False) -> Ask:
    def build(_side: Side, version: int) -> Message:
        topics: dict[str, alter_partition_reassignments.ReassignableTopic] = {}
        for topic, index, replicas in places:
            made = topics.setdefault(topic, alter_partition_reassignments.ReassignableTopic(name=topic))
            made.partitions.append(
                alter_partition_reassignments.ReassignablePartition(partition_index=index, replicas=replicas)
            )
        return alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            timeout_ms=10_000,
            allow_replication_factor_change=not (same_factor and version),
            topics=list(topics.values()),
        )

    return Ask(f"move partitions: {title}", (0, 1), build, changes=True)


def _moving(title: str, *places: tuple[str, list[int]], everywhere: bool = False) -> Ask:
    message = list_partition_reassignments.ListPartitionReassignmentsRequest(
        topics=None
        if everywhere
        else [
            list_partition_reassignments.ListPartitionReassignmentsTopics(name=name, partition_indexes=ids)
            for name, ids in places
        ]
    )
    return Ask(f"list moves: {title}", (0,), always(message))


def _directory(title: str, path: str, *places: tuple[str, list[int]]) -> Ask:
    message = alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=[
            alter_replica_log_dirs.AlterReplicaLogDir(
                path=path,
                topics=[
                    alter_replica_log_dirs.AlterReplicaLogDirTopic(name=name, partitions=ids)
                    for name, ids in places
                ],
            )
        ]
    )
    return Ask(f"alter replica log dirs: {title}", (1, 2), always(message), changes=True)


MOVES: Final = (
    _elect("not needed", ("orders", [0, 1])),
    _elect("of any replica", ("orders", [0]), kind=1),
    _elect("everywhere", everywhere=True),
    _elect("nowhere"),
    _elect("a partition that is not there", ("orders", [7])),
    _elect("a topic that is not there", ("nowhere", [0])),
    _move("to where it is", ("orders", 0, [1])),
    _move("to where it is, as many", ("orders", 0, [1]), same_factor=True),
    _move("to a broker that is not there", ("orders", 0, [2])),
    _move("to one more", ("orders", 0, [1, 2])),
    _move("to one more, as many", ("orders", 0, [1, 2]), same_factor=True),
    _move("to the same twice", ("orders", 0, [1, 1])),
    _move("to nobody", ("orders", 0, [])),
    _move("to less than a broker", ("orders", 0, [-1])),
    _move("stopped", ("orders", 0, None)),
    _move("a partition that is not there", ("orders", 7, [1])),
    _move("a topic that is not there", ("nowhere", 0, [1])),
    _move("some good, some not", ("orders", 0, [1]), ("orders", 1, [3]), ("nowhere", 0, None)),
    _move("nothing"),
    _moving("everywhere", everywhere=True),
    _moving("of one", ("orders", [0, 7]), ("nowhere", [0])),
    _directory("one that is not there", "/nowhere", ("orders", [0]), ("nowhere", [3])),
    _directory("one that is no path", "nowhere", ("orders", [0])),
)

# Groups' settings and levels of the log


def _settings(title: str, kind: int, name: str, *keys: str) -> Ask:
    message = describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
            )
        ],
        include_synonyms=True,
    )
    return Ask(f"describe configs: {title}", (1, 4), always(message))


def _change(title: str, kind: int, name: str, *changes: tuple[str, int, str | None]) -> Ask:
    message = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(name=key, config_operation=how, value=value)
                    for key, how, value in changes
                ],
            )
        ]
    )
    return Ask(f"change configs: {title}", (0, 1), always(message), changes=True)


_SET, _DELETE, _APPEND = 0, 1, 2
_SESSION: Final = "consumer.session.timeout.ms"
_HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
SETTINGS: Final = (
    _settings("a group nobody set", _GROUP, "quiet"),
    _settings("a group without a name", _GROUP, ""),
    _change("of a group", _GROUP, "team", (_SESSION, _SET, "50000"), (_HEARTBEAT, _SET, "6000")),
    _settings("of that group", _GROUP, "team"),
    _settings("one of that group", _GROUP, "team", _SESSION),
    _change("of a group: too short", _GROUP, "team", (_SESSION, _SET, "1000")),
    _change("of a group: too long", _GROUP, "team", (_SESSION, _SET, "90000")),
    _change("of a group: no number", _GROUP, "team", (_SESSION, _SET, "soon")),
    _change("of a group: nothing", _GROUP, "team", (_SESSION, _SET, "0")),
    _change("of a group: too rare", _GROUP, "team", (_HEARTBEAT, _SET, "99999")),
    _change("of a group: unknown", _GROUP, "team", ("nope", _SET, "1")),
    _change("of a group: appended", _GROUP, "team", (_SESSION, _APPEND, "1")),
    _change("of no group", _GROUP, "", (_SESSION, _SET, "50000")),
    _change("of a group: an isolation nobody knows", _GROUP, "team", ("share.isolation.level", _SET, "x")),
    _change("of a group: others", _GROUP, "team", ("share.record.lock.duration.ms", _SET, "20000")),
    _change("of a group: standbys", _GROUP, "team", ("streams.num.standby.replicas", _SET, "3")),
    _change("of a group: deleted", _GROUP, "team", (_HEARTBEAT, _DELETE, None)),
    _settings("of that group, after deletion", _GROUP, "team"),
    Ask(
        "list config resources: groups",
        (1,),
        always(list_config_resources.ListConfigResourcesRequest(resource_types=[_GROUP, _LOGGER])),
    ),
    _settings("a level of the log", _LOGGER, "1", "root"),
    _settings("levels of another broker", _LOGGER, "2"),
    _settings("levels of no broker", _LOGGER, ""),
    _change("a level: nobody's", _LOGGER, "1", ("no.such.logger", _SET, "DEBUG")),
    _change("a level: unknown", _LOGGER, "1", ("root", _SET, "LOUD")),
    _change("a level: appended", _LOGGER, "1", ("root", _APPEND, "DEBUG")),
    _change("a level: the root's removed", _LOGGER, "1", ("root", _DELETE, None)),
    _change("a level: of another broker", _LOGGER, "2", ("root", _SET, "DEBUG")),
    _change("a level: of no broker", _LOGGER, "x", ("root", _SET, "DEBUG")),
)

# Access control, where there is none

ACCESS: Final = (
    Ask(
        "describe acls",
        (1, 2, 3),
        always(
            describe_acls.DescribeAclsRequest(
                resource_type_filter=1,
                resource_name_filter=None,
                pattern_type_filter=1,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ),
    ),
    Ask(
        "create acls",
        (1, 2, 3),
        always(
            create_acls.CreateAclsRequest(
                creations=[
                    create_acls.AclCreation(
                        resource_type=2,
                        resource_name=name,
                        principal="User:alice",
                        host="*",
                        operation=3,
                        permission_type=3,
                    )
                    for name in ("orders", "small")
                ]
            )
        ),
        changes=True,
    ),
    Ask(
        "delete acls",
        (1, 2, 3),
        always(
            delete_acls.DeleteAclsRequest(
                filters=[
                    delete_acls.DeleteAclsFilter(
                        resource_type_filter=1,
                        resource_name_filter=None,
                        pattern_type_filter=1,
                        principal_filter=None,
                        host_filter=None,
                        operation=1,
                        permission_type=1,
                    )
                ]
            )
        ),
        changes=True,
    ),
)

CLUSTER: Final = (*QUOTAS, *USERS, *FEATURES, *MOVES, *SETTINGS, *ACCESS)
