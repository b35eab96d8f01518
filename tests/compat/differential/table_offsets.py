"""Requests about committed offsets and about groups that have nothing but offsets, good and bad."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from compat.differential.asking import Ask, Build, always, create, described, produced, records, topic_id
from compat.differential.exchange import Side
from semel.core.wire.message import Message
from semel.core.wire.messages import (
    create_topics,
    delete_groups,
    delete_topics,
    describe_groups,
    find_coordinator,
    incremental_alter_configs,
    list_groups,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
)

Place = tuple[str, int]
_COMMITS: Final = (2, 3, 4, 5, 6, 7, 8, 9, 10)
_FETCHES: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)


def committed(
    group: str,
    *places: tuple[str, int, int],
    metadata: str | None = "note",
    leader_epoch: int = -1,
    retention_ms: int = -1,
    **who: Any,
) -> Build:
    """An OffsetCommit of (topic, partition, offset)."""

    def build(side: Side, version: int) -> Message:
        topics: dict[str, offset_commit.OffsetCommitRequestTopic] = {}
        for name, partition, offset in places:
            topic = topics.setdefault(
                name, offset_commit.OffsetCommitRequestTopic(name=name, topic_id=topic_id(side, name))
            )
            topic.partitions.append(
                offset_commit.OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                )
            )
        if version < 7:
            who.pop("group_instance_id", None)
        return offset_commit.OffsetCommitRequest(
            group_id=group, topics=list(topics.values()), retention_time_ms=retention_ms, **who
        )

    return build


def fetched(groups: Mapping[str, Iterable[Place] | None], *, stable: bool = False, **who: Any) -> Build:
    """An OffsetFetch of these places of each group, or of all it has."""

    def build(side: Side, version: int) -> Message:
        if version < 8:
            group_id, places = next(iter(groups.items()))
            named: dict[str, offset_fetch.OffsetFetchRequestTopic] = {}
            for name, partition in places or ():
                topic = named.setdefault(name, offset_fetch.OffsetFetchRequestTopic(name=name))
                topic.partition_indexes.append(partition)
            return offset_fetch.OffsetFetchRequest(
                group_id=group_id,
                topics=None if places is None else list(named.values()),
                require_stable=stable and version >= 7,
            )
        return offset_fetch.OffsetFetchRequest(
            groups=[_group(side, group_id, places, who) for group_id, places in groups.items()],
            require_stable=stable,
        )

    return build


def _group(
    side: Side, group_id: str, places: Iterable[Place] | None, who: Mapping[str, Any]
) -> offset_fetch.OffsetFetchRequestGroup:
    topics: dict[str, offset_fetch.OffsetFetchRequestTopics] = {}
    for name, partition in places or ():
        topic = topics.setdefault(
            name, offset_fetch.OffsetFetchRequestTopics(name=name, topic_id=topic_id(side, name))
        )
        topic.partition_indexes.append(partition)
    return offset_fetch.OffsetFetchRequestGroup(
        group_id=group_id, topics=None if places is None else list(topics.values()), **who
    )


def forgotten(group: str, places: Mapping[str, Sequence[int]]) -> Build:
    return always(
        offset_delete.OffsetDeleteRequest(
            group_id=group,
            topics=[
                offset_delete.OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[
                        offset_delete.OffsetDeleteRequestPartition(partition_index=index) for index in indexes
                    ],
                )
                for name, indexes in places.items()
            ],
        )
    )


def listed(states: Sequence[str] = (), types: Sequence[str] = ()) -> Build:
    def build(_side: Side, version: int) -> Message:
        return list_groups.ListGroupsRequest(
            states_filter=list(states) if version >= 4 else [],
            types_filter=list(types) if version >= 5 else [],
        )

    return build


def described_groups(*groups: str, operations: bool = False) -> Build:
    def build(_side: Side, version: int) -> Message:
        return describe_groups.DescribeGroupsRequest(
            groups=list(groups), include_authorized_operations=operations and version >= 3
        )

    return build


def _coordinator(key: str) -> Build:
    def build(_side: Side, version: int) -> Message:
        if version < 4:
            return find_coordinator.FindCoordinatorRequest(key=key)
        return find_coordinator.FindCoordinatorRequest(coordinator_keys=[key, key])

    return build


def _learn_ids(side: Side, answer: metadata.MetadataResponse) -> None:
    side.topic_ids |= {topic.name or "": topic.topic_id for topic in answer.topics if any(topic.topic_id)}


_EVERYTHING: Final = (("orders", 0), ("orders", 1), ("orders", 9), ("quiet", 0), ("nowhere", 0))

BEFORE: Final = (
    Ask("list groups: before there are any", (0, 1, 2, 3, 4, 5), listed()),
    Ask(
        "create topics: to commit for",
        (4,),
        always(
            create_topics.CreateTopicsRequest(topics=[create("orders", 2), create("quiet"), create("gone")])
        ),
        changes=True,
    ),
    Ask("metadata: of what was created", (12,), described("orders", "quiet", "gone"), learn=_learn_ids),
    Ask("find coordinator: of a group", (0, 1, 2, 3, 4, 5, 6), _coordinator("group"), begins=True),
    Ask("find coordinator: of the group without a name", (0, 3, 6), _coordinator("")),
    Ask(
        "produce: to the topic of offsets",
        (3, 8, 12),
        produced(records(1), "__consumer_offsets", 0),
        changes=True,
    ),
)
COMMITTING: Final = (
    Ask("offset fetch: of a group nobody knows", _FETCHES, fetched({"nobody": _EVERYTHING})),
    Ask("offset fetch: all of a group nobody knows", _FETCHES[1:], fetched({"nobody": None})),
    Ask("offset commit: the first", _COMMITS, committed("group", ("orders", 0, 5), ("quiet", 0, 7))),
    Ask(
        "offset commit: with a leader epoch",
        _COMMITS,
        committed("group", ("orders", 1, 5), leader_epoch=3, metadata=None),
    ),
    Ask(
        "offset commit: known and unknown partitions",
        _COMMITS,
        committed("group", ("orders", 0, 6), ("orders", 9, 6), ("orders", -1, 6), ("nowhere", 0, 6)),
    ),
    Ask("offset commit: only unknown ones, by nobody", _COMMITS, committed("group", ("nowhere", 0, 6))),
    Ask("offset commit: an offset below zero", _COMMITS, committed("odd", ("orders", 0, -7))),
    Ask("offset commit: nothing at all", _COMMITS, committed("group")),
    Ask(
        "offset commit: a note too long", _COMMITS, committed("group", ("orders", 0, 6), metadata="x" * 4097)
    ),
    Ask(
        "offset commit: a note just short enough",
        (9,),
        committed("odd", ("orders", 0, 6), metadata="x" * 4096),
    ),
    Ask(
        "offset commit: a note of wide letters, too long",
        (9,),
        committed("odd", ("orders", 0, 6), metadata="\U0001f600" * 2049),
    ),
    Ask(
        "offset commit: a note of wide letters",
        (9,),
        committed("odd", ("orders", 0, 6), metadata="\U0001f600" * 2048),
    ),
    Ask(
        "offset commit: by a member nobody knows",
        _COMMITS,
        committed(
            "group", ("orders", 0, 6), ("nowhere", 0, 6), generation_id_or_member_epoch=1, member_id="m"
        ),
    ),
    Ask(
        "offset commit: in a generation nobody had",
        _COMMITS,
        committed("group", ("orders", 0, 6), generation_id_or_member_epoch=1),
    ),
    Ask(
        "offset commit: by name, without generation",
        _COMMITS,
        committed("group", ("orders", 0, 6), member_id="m"),
    ),
    Ask(
        "offset commit: by a static member nobody knows",
        (7, 8, 9, 10),
        committed("group", ("orders", 0, 6), group_instance_id="i"),
    ),
    Ask(
        "offset commit: by a static member nobody knows, in a generation",
        (7, 8, 9, 10),
        committed("group", ("orders", 0, 6), group_instance_id="i", generation_id_or_member_epoch=0),
    ),
    Ask(
        "offset commit: to a group nobody knows, in a generation",
        _COMMITS,
        committed("nobody", ("orders", 0, 6), generation_id_or_member_epoch=0, member_id="m"),
    ),
    Ask("offset commit: to the group without a name", _COMMITS, committed("", ("orders", 0, 6))),
    Ask(
        "offset commit: kept for a while",
        (2, 3, 4),
        committed("short", ("orders", 0, 6), retention_ms=86_400_000),
    ),
    Ask("offset fetch: of the short", (8,), fetched({"short": None})),
)
FETCHING: Final = (
    Ask("offset fetch: known and unknown", _FETCHES, fetched({"group": _EVERYTHING})),
    Ask("offset fetch: stable ones", (7, 8, 9, 10), fetched({"group": _EVERYTHING}, stable=True)),
    Ask("offset fetch: all", _FETCHES[1:], fetched({"group": None})),
    Ask("offset fetch: none", _FETCHES, fetched({"group": ()})),
    Ask("offset fetch: of the group without a name", _FETCHES, fetched({"": _EVERYTHING})),
    Ask(
        "offset fetch: of many groups",
        (8, 9, 10),
        fetched({"group": None, "nobody": _EVERYTHING, "odd": (("orders", 0),)}),
    ),
    Ask("offset fetch: by a member", (9, 10), fetched({"group": _EVERYTHING}, member_id="m", member_epoch=3)),
    Ask(
        "offset fetch: by a member of nothing",
        (9, 10),
        fetched({"nobody": None}, member_id="m", member_epoch=3),
    ),
)
LOOKING: Final = (
    Ask("list groups: all", (0, 1, 2, 3, 4, 5), listed()),
    Ask("list groups: empty ones", (4, 5), listed(["Empty"])),
    Ask("list groups: empty ones, in small letters", (4, 5), listed(["empty", "stable"])),
    Ask("list groups: stable ones", (4, 5), listed(["Stable"])),
    Ask("list groups: in a state nobody knows", (4, 5), listed(["dreaming"])),
    Ask("list groups: classic ones", (5,), listed([], ["CLASSIC"])),
    Ask("list groups: consumers", (5,), listed(["Empty"], ["consumer"])),
    Ask("list groups: of a type nobody knows", (5,), listed([], ["sleepers"])),
    Ask(
        "describe groups: there and not there", (0, 1, 2, 3, 4, 5, 6), described_groups("group", "nobody", "")
    ),
    Ask("describe groups: what may I", (3, 4, 5, 6), described_groups("group", "nobody", operations=True)),
    Ask("describe groups: none", (0, 5, 6), described_groups()),
)
DELETING: Final = (
    Ask(
        "offset delete: there, empty, and not there",
        (0,),
        forgotten("group", {"orders": (1, 9, -1), "nowhere": (0,), "gone": (0,)}),
        changes=True,
    ),
    Ask("offset delete: of a group nobody knows", (0,), forgotten("nobody", {"orders": (0,)}), changes=True),
    Ask(
        "offset delete: of topics nobody knows, of a group nobody knows",
        (0,),
        forgotten("nobody", {"nowhere": (0,)}),
        changes=True,
    ),
    Ask("offset delete: of the group without a name", (0,), forgotten("", {"orders": (0,)}), changes=True),
    Ask("offset delete: nothing", (0,), forgotten("group", {}), changes=True),
    Ask("offset delete: nothing of nobody", (0,), forgotten("nobody", {}), changes=True),
    Ask("offset fetch: after deletion", (9,), fetched({"group": None})),
    Ask(
        "delete groups: twice, and one nobody knows",
        (2,),
        always(delete_groups.DeleteGroupsRequest(groups_names=["odd", "nobody", ""])),
        changes=True,
    ),
    Ask(
        "delete groups: again",
        (0, 1, 2),
        always(delete_groups.DeleteGroupsRequest(groups_names=["odd"])),
        changes=True,
    ),
    Ask("offset fetch: of a deleted group", (9,), fetched({"odd": _EVERYTHING})),
    Ask("list groups: after deletion", (5,), listed()),
    Ask("offset commit: for a topic that will go", (9,), committed("group", ("gone", 0, 6))),
    Ask(
        "delete topics: one with offsets",
        (5,),
        always(delete_topics.DeleteTopicsRequest(topic_names=["gone"], timeout_ms=5000)),
        changes=True,
    ),
    Ask("offset fetch: after the topic", (9, 10), fetched({"group": None})),
)
TOO_LARGE: Final = (
    Ask(
        "incremental alter configs: the offsets topic takes small batches only",
        (1,),
        always(
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[
                    incremental_alter_configs.AlterConfigsResource(
                        resource_type=2,
                        resource_name="__consumer_offsets",
                        configs=[
                            incremental_alter_configs.AlterableConfig(
                                name="max.message.bytes", config_operation=0, value="200"
                            )
                        ],
                    )
                ]
            )
        ),
        changes=True,
    ),
    Ask("offset commit: small enough", (9,), committed("group", ("orders", 0, 60), metadata="")),
    Ask(
        "offset commit: too large for the topic",
        _COMMITS,
        committed("group", ("orders", 0, 6), ("orders", 1, 6), ("nowhere", 1, 6), metadata="x" * 200),
    ),
    Ask("offset fetch: after it was too large", (9,), fetched({"group": _EVERYTHING})),
)
OFFSETS: Final = (*BEFORE, *COMMITTING, *FETCHING, *LOOKING, *DELETING)
