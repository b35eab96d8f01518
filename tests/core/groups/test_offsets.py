"""Committed offsets are what the log says: at any moment, after any restart, with transactions or without.

Method: random commits, transactions, deletions, expiries and deleted topics are played on a shard whose host is a list.
After every step the shard must agree with a shard replayed from the list, and with the plainest reading of the list there
is: of all commits that count and were not deleted since, the one that stands last, if it is for the topic there is now.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.coordination.outcome import LogRow, Origin, Ticket
from semel.core.groups.group import GroupOutcome, Groups, GroupSettings
from semel.core.groups.shard import GroupShard
from semel.core.groups.sweep import ROWS_MAX
from semel.core.wire.message import Response
from semel.core.wire.messages.delete_groups import DeleteGroupsResponse
from semel.core.wire.messages.group_rows import OffsetCommitKey, OffsetCommitValue
from semel.core.wire.messages.offset_commit import OffsetCommitResponse
from semel.core.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from semel.core.wire.messages.offset_fetch import OffsetFetchResponse
from semel.core.wire.messages.txn_offset_commit import TxnOffsetCommitResponse
from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_ID
from support.groups.offsets_kit import codes, commit_request, fetch_group, found, txn_commit_request

TICKET = Ticket(object())
BY_NAME = 9
GROUPS = ("a", "b")
TOPICS = ("orders", "quiet")
PARTITIONS = 2
DAY_MS = 86_400_000
SETTINGS = GroupSettings(offsets_retention_ms=7 * DAY_MS, offsets_retention_check_interval_ms=1000)


class Topic(NamedTuple):
    name: str
    topic_id: uuid.UUID
    partitions: int = PARTITIONS


@dataclass
class Topics:
    """Topics that come and go."""

    topics: dict[str, Topic] = field(default_factory=dict)
    made: int = 0

    def make(self, name: str, partitions: int = PARTITIONS) -> None:
        self.made += 1
        self.topics[name] = Topic(name, uuid.UUID(int=self.made), partitions)

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def is_gone(self, name: str) -> bool:
        return self.topic(name) is None

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return next((topic for topic in self.topics.values() if topic.topic_id.bytes == topic_id), None)


class Marker(NamedTuple):
    producer_id: int
    commit: bool


class Log:
    """A shard and the list of what was written for it."""

    def __init__(self, settings: GroupSettings = SETTINGS) -> None:
        self.topics = Topics()
        for name in TOPICS:
            self.topics.make(name)
        self.settings = settings
        self.entries: list[tuple[LogRow, Origin] | Marker] = []
        self.now_ms = 1_000_000
        self.shard = self.new_shard()
        self.shard.loaded(self.now_ms)
        self.replies: list[Response] = []

    def new_shard(self) -> GroupShard:
        return GroupShard(Groups(self.topics, self.settings))

    def take(self, outcome: GroupOutcome) -> Response | None:
        for row in outcome.rows:
            origin = Origin(len(self.entries), self.now_ms, outcome.producer_id, outcome.producer_epoch)
            self.entries.append((row, origin))
            self.shard.apply(row, origin)
        self.replies += [reply for _ticket, reply in outcome.replies]
        return outcome.replies[0][1] if outcome.replies else None

    def mark(self, producer_id: int, *, commit: bool) -> None:
        self.entries.append(Marker(producer_id, commit))
        self.shard.apply_marker(producer_id, 0, commit=commit)

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], ErrorCode]:
        answer = self.take(self.shard.commit(commit_request(group, offsets), BY_NAME, TICKET, self.now_ms))
        assert isinstance(answer, OffsetCommitResponse)
        return codes(answer)

    def commit_in_transaction(
        self, group: str, offsets: Mapping[tuple[str, int], int], producer_id: int
    ) -> None:
        request = txn_commit_request(group, offsets, producer_id=producer_id)
        answer = self.take(self.shard.commit_in_transaction(request, 3, TICKET, self.now_ms))
        assert isinstance(answer, TxnOffsetCommitResponse)
        assert all(not partition.error_code for topic in answer.topics for partition in topic.partitions)

    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
                )
            ],
        )
        self.take(self.shard.delete_offsets(request, TICKET))

    def delete_group(self, group: str) -> ErrorCode:
        answer = self.take(self.shard.delete_group(group, TICKET))
        assert isinstance(answer, DeleteGroupsResponse)
        return ErrorCode(answer.results[0].error_code)

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= self.now_ms:
            self.take(self.shard.due(self.now_ms))

    def replayed(self) -> GroupShard:
        shard = self.new_shard()
        for entry in self.entries:
            if isinstance(entry, Marker):
                shard.apply_marker(entry.producer_id, 0, commit=entry.commit)
            else:
                shard.apply(*entry)
        return shard


def fetched(
    shard: GroupShard, group: str, *places: tuple[str, int], stable: bool = False
) -> dict[tuple[str, int], int | ErrorCode]:
    outcome = shard.fetch(fetch_group(group, *places), TICKET, require_stable=stable, by_id=False)
    assert not outcome.rows
    answer = outcome.replies[0][1]
    assert isinstance(answer, OffsetFetchResponse)
    return found(answer.groups[0])


def seen(shard: GroupShard) -> object:
    """All a client could learn."""
    places = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
    listed = sorted((group.group_id, group.group_state) for group in shard.listed((), ()))
    return listed, [
        (fetched(shard, group), fetched(shard, group, *places), fetched(shard, group, *places, stable=True))
        for group in GROUPS
    ]


def read_plainly(log: Log, group: str, topic: str, partition: int) -> tuple[int, bool]:
    """The offset that counts (-1: none), and whether a transaction is open there."""
    counts: dict[int, OffsetCommitValue] = {}  # By the place of its row.
    pending: dict[int, dict[int, OffsetCommitValue]] = {}
    for place, entry in enumerate(log.entries):
        if isinstance(entry, Marker):
            ended = pending.pop(entry.producer_id, {})
            if entry.commit:
                counts |= ended
            continue
        row, origin = entry
        if row.key != OffsetCommitKey(group=group, topic=topic, partition=partition):
            continue
        if row.value is None:
            counts, pending = {}, {}
        elif isinstance(row.value, OffsetCommitValue):
            open_here = (
                counts if origin.producer_id == NO_PRODUCER_ID else pending.setdefault(origin.producer_id, {})
            )
            open_here[place] = row.value
    last = counts[max(counts)] if counts else None
    is_of_this_topic = last is not None and last.topic_id == log.topics.topics[topic].topic_id.bytes
    return (last.offset if last is not None and is_of_this_topic else -1), any(pending.values())


groups = st.sampled_from(GROUPS)
places = st.tuples(st.sampled_from(TOPICS), st.integers(0, PARTITIONS - 1))
steps = st.one_of(
    st.tuples(st.just("commit"), groups, places, st.integers(0, 99)),
    st.tuples(st.just("transaction"), groups, places, st.integers(0, 99), st.integers(1, 2)),
    st.tuples(st.just("end"), st.integers(1, 2), st.booleans()),
    st.tuples(st.just("forget"), groups, places),
    st.tuples(st.just("delete"), groups),
    st.tuples(st.just("wait"), st.sampled_from([500, DAY_MS, 8 * DAY_MS])),
    st.tuples(st.just("topic again"), st.sampled_from(TOPICS)),
    st.tuples(st.just("restart")),
)


def play(log: Log, step: tuple[object, ...]) -> None:
    match step:
        case ("commit", str(group), (str(topic), int(partition)), int(offset)):
            assert log.commit(group, {(topic, partition): offset}) == {(topic, partition): ErrorCode.NONE}
        case ("transaction", str(group), (str(topic), int(partition)), int(offset), int(producer_id)):
            log.commit_in_transaction(group, {(topic, partition): offset}, producer_id)
        case ("end", int(producer_id), bool(commit)):
            log.mark(producer_id, commit=commit)
        case ("forget", str(group), (str(topic), int(partition))):
            log.delete_offset(group, topic, partition)
        case ("delete", str(group)):
            log.delete_group(group)
        case ("wait", int(milliseconds)):
            log.pass_time(milliseconds)
        case ("topic again", str(topic)):
            log.topics.make(topic)
            log.shard.topics_gone(log.now_ms)
            log.pass_time(0)
        case ("restart",):
            log.shard = log.replayed()
            log.take(log.shard.loaded(log.now_ms))
            log.pass_time(0)
        case _:
            raise AssertionError(step)


@given(st.lists(steps, max_size=40))
def test_the_shard_is_what_the_log_says(story: list[tuple[object, ...]]) -> None:
    log = Log()
    for step in story:
        play(log, step)
        for group in GROUPS:
            for topic in TOPICS:
                for partition in range(PARTITIONS):
                    offset, is_open = read_plainly(log, group, topic, partition)
                    place = (topic, partition)
                    assert fetched(log.shard, group, place) == {place: offset}
                    expected = ErrorCode.UNSTABLE_OFFSET_COMMIT if is_open else offset
                    assert fetched(log.shard, group, place, stable=True) == {place: expected}
        assert seen(log.replayed()) == seen(log.shard)


@given(st.lists(steps, max_size=15))
def test_deciding_changes_nothing(story: list[tuple[object, ...]]) -> None:
    log = Log()
    for step in story:
        play(log, step)
    before = seen(log.shard)
    offsets = {(topic, 0): 7 for topic in TOPICS}
    for group in GROUPS:
        log.shard.commit(commit_request(group, offsets), BY_NAME, TICKET, log.now_ms)
        log.shard.commit_in_transaction(
            txn_commit_request(group, offsets, producer_id=5), 3, TICKET, log.now_ms
        )
        log.shard.delete_group(group, TICKET)
        assert seen(log.shard) == before


def test_a_plain_commit_written_after_a_transactions_is_not_overwritten_by_its_end() -> None:
    log = Log()
    place = ("orders", 0)
    log.commit_in_transaction("a", {place: 10}, producer_id=1)
    assert fetched(log.shard, "a", place) == {place: -1}
    log.commit("a", {place: 4})
    log.mark(1, commit=True)
    assert fetched(log.shard, "a", place) == {place: 4}
    log.commit_in_transaction("a", {place: 20}, producer_id=1)
    log.mark(1, commit=True)
    assert fetched(log.shard, "a", place) == {place: 20}


@pytest.mark.parametrize("how", ["abort", "delete offset", "delete group", "topic again"])
def test_an_unstable_offset_becomes_stable(how: str) -> None:
    log = Log()
    place = ("orders", 0)
    log.commit("a", {place: 1})
    log.commit_in_transaction("a", {place: 2}, producer_id=1)
    assert fetched(log.shard, "a", place, stable=True) == {place: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    match how:
        case "abort":
            log.mark(1, commit=False)
        case "delete offset":
            log.delete_offset("a", *place)
        case "delete group":
            assert log.delete_group("a") is ErrorCode.NONE
        case "topic again":
            log.topics.make("orders")
            log.shard.topics_gone(log.now_ms)
            log.pass_time(0)
    expected = 1 if how == "abort" else -1
    assert fetched(log.shard, "a", place, stable=True) == {place: expected}
    log.mark(1, commit=True)
    assert fetched(log.shard, "a", place, stable=True) == {place: expected}


def test_offsets_grow_old_unless_a_transaction_is_open() -> None:
    log = Log()
    log.commit("a", {("orders", 0): 1})
    log.pass_time(6 * DAY_MS)
    log.commit("a", {("orders", 1): 1})
    log.commit_in_transaction("b", {("orders", 0): 1}, producer_id=1)
    log.pass_time(2 * DAY_MS)
    assert fetched(log.shard, "a") == {("orders", 1): 1}
    log.pass_time(30 * DAY_MS)
    assert [group.group_id for group in log.shard.listed((), ())] == ["b"]
    log.mark(1, commit=False)
    log.pass_time(SETTINGS.offsets_retention_check_interval_ms)
    assert log.shard.listed((), ()) == []
    assert log.replayed().listed((), ()) == []


def test_an_old_client_may_say_how_long_its_offsets_are_kept() -> None:
    log = Log()
    request = commit_request("a", {("orders", 0): 1})
    request.retention_time_ms = 5000
    log.take(log.shard.commit(request, 4, TICKET, log.now_ms))
    log.pass_time(4000)
    assert fetched(log.shard, "a") == {("orders", 0): 1}
    log.pass_time(2000)
    assert fetched(log.shard, "a") == {}


def test_what_must_go_goes_in_batches() -> None:
    """More offsets than one batch takes: each look writes a bounded number of rows, none is forgotten."""
    log = Log()
    count = 2 * ROWS_MAX + 7
    log.topics.make("wide", count)
    log.commit("a", {("wide", partition): 1 for partition in range(count)})
    log.commit("b", {("wide", 3): 1, ("orders", 0): 1})
    del log.topics.topics["wide"]
    log.shard.topics_gone(log.now_ms)
    sizes = []
    while (deadline_ms := log.shard.next_deadline_ms()) is not None and deadline_ms <= log.now_ms:
        outcome = log.shard.due(log.now_ms)
        sizes.append(len(outcome.rows))
        log.take(outcome)
    assert sizes == [ROWS_MAX, ROWS_MAX, 7 + 1 + 1, 0]  # The rest of a, a itself, and b's.
    assert fetched(log.shard, "a") == {}
    assert fetched(log.shard, "b") == {("orders", 0): 1}
    assert [group.group_id for group in log.shard.listed((), ())] == ["b"]


@pytest.mark.parametrize(("rows_taken", "left"), [(60, 0), (3, 0), (0, 3)])
def test_a_log_that_takes_small_batches_only_gets_small_batches(rows_taken: int, left: int) -> None:
    """Refused batches shrink; where not even one row is taken, the shard comes to rest until the next look."""
    log = Log()
    count = 40
    log.topics.make("wide", count)
    for group in ("a", "b", "c"):
        log.commit(group, {("wide", partition): 1 for partition in range(count)})
    del log.topics.topics["wide"]
    log.shard.topics_gone(log.now_ms)
    looks = 0
    while (deadline_ms := log.shard.next_deadline_ms()) is not None and deadline_ms <= log.now_ms:
        outcome = log.shard.due(log.now_ms)
        assert outcome.rows_only
        if len(outcome.rows) <= rows_taken:
            log.take(outcome)
        looks += 1
        assert looks < 200
    assert len(log.shard.listed((), ())) == left
    assert len(fetched(log.shard, "a")) == (count if left else 0)
