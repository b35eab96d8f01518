"""Both brokers as one, for stories of transactions: every request goes to both and must be answered alike.

`Both` sends a request to each side with that side's own producer ids, and compares the answers: codes, epochs, offsets and
states, with producer ids under the names the story gives them. Kafka writes markers beside the answer, so a request
that is told CONCURRENT_TRANSACTIONS is sent again, unless the story wants that answer.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from compat.differential.exchange import Side
from semel.core.records import batch
from semel.core.records.build import RecordInput, build_batch, iter_records
from semel.core.transactions.rows import FORMAT
from semel.core.wire.message import Message
from semel.core.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    create_topics,
    describe_producers,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    list_transactions,
    offset_fetch,
    produce,
    txn_offset_commit,
    write_txn_markers,
)
from semel.core.wire.messages.transaction_rows import TransactionLogValue
from semel.errors import ErrorCode

_PATIENCE_SECONDS: Final = 30.0
_RETRIED: Final = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)
Place = tuple[str, int]


@dataclass
class Who:
    """A producer: its id on each side, its epoch, and the next sequence on each partition."""

    transactional_id: str
    ids: dict[str, int] = field(default_factory=dict)
    epoch: int = -1
    sequences: dict[Place, int] = field(default_factory=dict)

    def at(self, epoch: int) -> "Who":
        """The same producer, as it was or will be."""
        return Who(self.transactional_id, self.ids, epoch)

    def with_other_id(self) -> "Who":
        return Who(self.transactional_id, {name: one + 12345 for name, one in self.ids.items()}, self.epoch)


@dataclass
class Both:
    ours: Side
    theirs: Side
    names: dict[tuple[str, int], str] = field(default_factory=dict)

    def ask(
        self,
        build: Callable[[Side], Message],
        version: int,
        show: Callable[[Side, Any], Any],
        *,
        retry: bool = True,
    ) -> Any:
        """What both say, in the words of `show`."""
        shown = []
        for side in (self.ours, self.theirs):
            until = time.monotonic() + _PATIENCE_SECONDS
            while True:
                answer = show(side, side.ask(build(side), version))
                if not retry or not _is_passing(answer) or time.monotonic() > until:
                    break
                time.sleep(0.02)
            shown.append(answer)
        assert shown[0] == shown[1], (
            f"ours {shown[0]!r}\nKafka {shown[1]!r}\nto {build(self.ours)} v{version}"
        )
        return shown[0]

    def label(self, side: Side, producer_id: int) -> object:
        """The name of a producer id; the same on both sides for the same story."""
        return self.names.get((side.name, producer_id), "new" if producer_id >= 0 else producer_id)

    # Set up

    def create(self, topic: str, partitions: int) -> None:
        request = create_topics.CreateTopicsRequest(
            topics=[create_topics.CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)]
        )
        for side in (self.ours, self.theirs):
            answer = side.ask(request, 7)
            assert isinstance(answer, create_topics.CreateTopicsResponse), answer
            side.topic_ids[topic] = answer.topics[0].topic_id

    def find(self, key: str, key_type: int) -> None:
        """Until both have a coordinator for it."""
        request = find_coordinator.FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
        self.ask(lambda _side: request, 5, lambda _side, answer: ErrorCode(answer.coordinators[0].error_code))

    # Requests: each returns what both said

    def init(
        self,
        transactional_id: str,
        who: Who | None = None,
        *,
        version: int = 5,
        timeout_ms: int = 60_000,
        retry: bool = True,
    ) -> Any:
        """(code, whose id, epoch)."""
        return self.ask(
            lambda side: init_producer_id.InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=who.ids[side.name] if who else -1,
                producer_epoch=who.epoch if who else -1,
            ),
            version,
            lambda side, answer: (
                ErrorCode(answer.error_code),
                self.label(side, answer.producer_id),
                answer.producer_epoch,
            ),
            retry=retry,
        )

    def introduce(self, transactional_id: str, *, timeout_ms: int = 60_000) -> Who:
        """A producer that may begin, known by name from now on."""
        who = Who(transactional_id)

        def show(side: Side, answer: init_producer_id.InitProducerIdResponse) -> tuple[ErrorCode, int]:
            if not answer.error_code:
                who.ids[side.name] = answer.producer_id
                self.names[side.name, answer.producer_id] = f"id of {transactional_id}"
            return ErrorCode(answer.error_code), answer.producer_epoch

        request = init_producer_id.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        code, who.epoch = self.ask(lambda _side: request, 5, show)
        assert code == ErrorCode.NONE
        return who

    def add(
        self, who: Who, *places: Place, version: int = 3, verify_only: bool = True, retry: bool = True
    ) -> Any:
        """One transaction; from version 4 on `verify_only` says whether to extend it or only to look."""
        if version >= 4:
            ((_name, results),) = self.add_many((who, verify_only, places), version=version, retry=retry)
            return results
        return self.ask(
            lambda side: add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=who.transactional_id,
                v3_and_below_producer_id=who.ids[side.name],
                v3_and_below_producer_epoch=who.epoch,
                v3_and_below_topics=_topics(places),
            ),
            version,
            lambda _side, answer: _added(answer.results_by_topic_v3_and_below),
            retry=retry,
        )

    def add_many(self, *wanted: tuple[Who, bool, Sequence[Place]], version: int, retry: bool = True) -> Any:
        """As a broker asks for its producers: [(transactional id, results)] for (who, only to look, places)."""

        def build(side: Side) -> Message:
            return add_partitions_to_txn.AddPartitionsToTxnRequest(
                transactions=[
                    add_partitions_to_txn.AddPartitionsToTxnTransaction(
                        transactional_id=who.transactional_id,
                        producer_id=who.ids[side.name],
                        producer_epoch=who.epoch,
                        verify_only=verify_only,
                        topics=_topics(places),
                    )
                    for who, verify_only, places in wanted
                ]
            )

        def show(_side: Side, answer: add_partitions_to_txn.AddPartitionsToTxnResponse) -> Any:
            assert not answer.error_code, answer
            return sorted(
                (one.transactional_id, _added(one.topic_results)) for one in answer.results_by_transaction
            )

        return self.ask(build, version, show, retry=retry)

    def produce(self, who: Who, *places: Place, version: int = 9, transactional: bool = True) -> Any:
        """[(code, offset)]; a success advances the producer's sequences."""

        def build(side: Side) -> Message:
            return produce.ProduceRequest(
                transactional_id=who.transactional_id,
                acks=-1,
                timeout_ms=10_000,
                topic_data=[
                    produce.TopicProduceData(
                        name=topic,
                        topic_id=side.topic_ids.get(topic, b"\1" * 16),
                        partition_data=[
                            produce.PartitionProduceData(
                                index=index,
                                records=build_batch(
                                    [RecordInput(b"k", b"v", 1_700_000_000_000)],
                                    producer_id=who.ids[side.name],
                                    producer_epoch=who.epoch,
                                    base_sequence=who.sequences.get((topic, index), 0),
                                    transactional=transactional,
                                ),
                            )
                        ],
                    )
                    for topic, index in places
                ],
            )

        def show(_side: Side, answer: produce.ProduceResponse) -> Any:
            return [
                (ErrorCode(one.error_code), one.base_offset)
                for topic in answer.responses
                for one in topic.partition_responses
            ]

        found = self.ask(build, version, show)
        for place, (code, _offset) in zip(places, found, strict=True):
            if not code:
                who.sequences[place] = who.sequences.get(place, 0) + 1
        return found

    def end(self, who: Who, *, commit: bool, version: int, retry: bool = True, take: bool = True) -> Any:
        """(code, whose id, epoch); the producer goes on with what it was given."""
        given: dict[str, int] = {}

        def show(side: Side, answer: end_txn.EndTxnResponse) -> Any:
            if not answer.error_code and answer.producer_id >= 0:
                given[side.name] = answer.producer_id
            return ErrorCode(answer.error_code), self.label(side, answer.producer_id), answer.producer_epoch

        found = self.ask(
            lambda side: end_txn.EndTxnRequest(
                transactional_id=who.transactional_id,
                producer_id=who.ids[side.name],
                producer_epoch=who.epoch,
                committed=commit,
            ),
            version,
            show,
            retry=retry,
        )
        if take and found[0] == ErrorCode.NONE and found[2] >= 0:
            who.ids, who.epoch = {**who.ids, **given}, found[2]
            who.sequences.clear()
        return found

    def add_offsets(self, who: Who, group: str, *, version: int = 3, retry: bool = True) -> Any:
        return self.ask(
            lambda side: add_offsets_to_txn.AddOffsetsToTxnRequest(
                transactional_id=who.transactional_id,
                producer_id=who.ids[side.name],
                producer_epoch=who.epoch,
                group_id=group,
            ),
            version,
            lambda _side, answer: ErrorCode(answer.error_code),
            retry=retry,
        )

    def commit_offset(
        self,
        who: Who,
        group: str,
        place: Place,
        offset: int,
        *,
        version: int = 3,
        member_id: str | Callable[[Side], str] = "",
        **member: Any,
    ) -> Any:
        """[(partition, code)]; a member whose id the brokers made has one on each side."""
        return self.ask(
            lambda side: txn_offset_commit.TxnOffsetCommitRequest(
                transactional_id=who.transactional_id,
                group_id=group,
                producer_id=who.ids[side.name],
                producer_epoch=who.epoch,
                topics=[
                    txn_offset_commit.TxnOffsetCommitRequestTopic(
                        name=place[0],
                        partitions=[
                            txn_offset_commit.TxnOffsetCommitRequestPartition(
                                partition_index=place[1], committed_offset=offset, committed_metadata="m"
                            )
                        ],
                    )
                ],
                member_id=member_id if isinstance(member_id, str) else member_id(side),
                **member,
            ),
            version,
            lambda _side, answer: [
                (one.partition_index, ErrorCode(one.error_code))
                for topic in answer.topics
                for one in topic.partitions
            ],
        )

    def offset(self, group: str, place: Place, *, stable: bool, retry: bool = True) -> Any:
        request = offset_fetch.OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup(
                    group_id=group,
                    topics=[
                        offset_fetch.OffsetFetchRequestTopics(name=place[0], partition_indexes=[place[1]])
                    ],
                )
            ],
            require_stable=stable,
        )
        return self.ask(
            lambda _side: request,
            8,
            lambda _side, answer: [
                (ErrorCode(one.error_code), one.committed_offset)
                for group in answer.groups
                for topic in group.topics
                for one in topic.partitions
            ],
            retry=retry,
        )

    def read(self, place: Place, offset: int = 0, *, committed: bool) -> Any:
        """(code, last stable offset, high watermark, aborted transactions, offsets of batches)."""
        topic, index = place

        def build(_side: Side) -> Message:
            return fetch.FetchRequest(
                replica_id=-1,
                max_wait_ms=0,
                max_bytes=1 << 20,
                isolation_level=int(committed),
                topics=[
                    fetch.FetchTopic(
                        topic=topic,
                        partitions=[
                            fetch.FetchPartition(
                                partition=index, fetch_offset=offset, partition_max_bytes=1 << 20
                            )
                        ],
                    )
                ],
            )

        def show(side: Side, answer: fetch.FetchResponse) -> Any:
            (one,) = answer.responses[0].partitions
            data = bytes(one.records or b"")
            aborted = one.aborted_transactions
            return (
                ErrorCode(one.error_code),
                one.last_stable_offset,
                one.high_watermark,
                None
                if aborted is None
                else [(self.label(side, each.producer_id), each.first_offset) for each in aborted],
                [
                    (header.base_offset, header.is_control, header.producer_epoch)
                    for _position, header in batch.headers(data)
                ],
            )

        return self.ask(build, 11, show)

    def latest(self, place: Place, *, committed: bool) -> Any:
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[
                list_offsets.ListOffsetsTopic(
                    name=place[0],
                    partitions=[list_offsets.ListOffsetsPartition(partition_index=place[1], timestamp=-1)],
                )
            ],
        )
        return self.ask(lambda _side: request, 7, lambda _side, answer: answer.topics[0].partitions[0].offset)

    def describe(self, *transactional_ids: str, retry: bool = True) -> Any:
        request = describe_transactions.DescribeTransactionsRequest(transactional_ids=list(transactional_ids))

        def show(side: Side, answer: describe_transactions.DescribeTransactionsResponse) -> Any:
            return [
                (
                    ErrorCode(one.error_code),
                    one.transactional_id,
                    one.transaction_state,
                    one.transaction_timeout_ms,
                    min(one.transaction_start_time_ms, 1),
                    self.label(side, one.producer_id),
                    one.producer_epoch,
                    sorted((topic.topic, sorted(topic.partitions)) for topic in one.topics),
                )
                for one in answer.transaction_states
            ]

        return self.ask(lambda _side: request, 0, show, retry=retry)

    def list(self, *, version: int = 2, prefix: str = "", retry: bool = True, **filters: Any) -> Any:
        def show(side: Side, answer: list_transactions.ListTransactionsResponse) -> Any:
            return (
                ErrorCode(answer.error_code),
                sorted(answer.unknown_state_filters),
                sorted(
                    (one.transactional_id, str(self.label(side, one.producer_id)), one.transaction_state)
                    for one in answer.transaction_states
                    if one.transactional_id.startswith(prefix)
                ),
            )

        request = list_transactions.ListTransactionsRequest(**filters)
        return self.ask(lambda _side: request, version, show, retry=retry)

    def producers(self, place: Place) -> Any:
        request = describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name=place[0], partition_indexes=[place[1]])]
        )

        def show(side: Side, answer: describe_producers.DescribeProducersResponse) -> Any:
            (one,) = answer.topics[0].partitions
            return ErrorCode(one.error_code), sorted(
                (
                    str(self.label(side, state.producer_id)),
                    state.producer_epoch,
                    state.last_sequence,
                    state.current_txn_start_offset,
                    state.coordinator_epoch,
                )
                for state in one.active_producers
            )

        return self.ask(lambda _side: request, 0, show)

    def mark(
        self,
        who: Who,
        place: Place,
        *,
        commit: bool,
        coordinator_epoch: int,
        version: int = 2,
        level: int = 2,
    ) -> Any:
        def build(side: Side) -> Message:
            marker = write_txn_markers.WritableTxnMarker(
                producer_id=who.ids[side.name],
                producer_epoch=who.epoch,
                transaction_result=commit,
                coordinator_epoch=coordinator_epoch,
                transaction_version=level,
                topics=[
                    write_txn_markers.WritableTxnMarkerTopic(name=place[0], partition_indexes=[place[1]])
                ],
            )
            return write_txn_markers.WriteTxnMarkersRequest(markers=[marker])

        return self.ask(
            build,
            version,
            lambda _side, answer: [
                (one.partition_index, ErrorCode(one.error_code))
                for marker in answer.markers
                for topic in marker.topics
                for one in topic.partitions
            ],
        )


def _topics(places: Sequence[Place]) -> list[add_partitions_to_txn.AddPartitionsToTxnTopic]:
    return [
        add_partitions_to_txn.AddPartitionsToTxnTopic(name=topic, partitions=[index])
        for topic, index in places
    ]


def _added(results: Sequence[add_partitions_to_txn.AddPartitionsToTxnTopicResult]) -> Any:
    return sorted(
        (topic.name, one.partition_index, ErrorCode(one.partition_error_code))
        for topic in results
        for one in topic.results_by_partition
    )


def _is_passing(answer: Any) -> bool:
    """Whether a code in it says to come back, or a state that markers are on their way."""
    if isinstance(answer, list | tuple):
        return any(_is_passing(one) for one in answer)
    if isinstance(answer, str):
        return answer in ("PrepareCommit", "PrepareAbort")
    return isinstance(answer, ErrorCode) and answer in _RETRIED


def rows_of(directory: Path, transactional_ids: Sequence[str]) -> dict[str, list[object]]:
    """Every row of these ids, in order; times and producer ids as far as two brokers can agree on them."""
    found: dict[str, list[object]] = {one: [] for one in transactional_ids}
    for file in sorted(directory.glob("__transaction_state-*/*.log")):
        data = file.read_bytes()
        for position, header in batch.headers(data):
            for record in iter_records(data, position, header):
                row = FORMAT.decode(record)
                assert row is not None
                name = row.key.transactional_id  # type: ignore[attr-defined]  # The topic has one kind of row.
                if name in found:
                    found[name].append((file.parent.name, _plain(row.value), row.value_version))
    return found


def _plain(value: object) -> object:
    if not isinstance(value, TransactionLogValue):
        return value
    return (
        value.producer_epoch,
        value.previous_producer_id == value.producer_id,
        value.next_producer_id >= 0,
        value.next_producer_epoch,
        value.transaction_timeout_ms,
        value.transaction_status,
        None
        if value.transaction_partitions is None
        else sorted((one.topic, sorted(one.partition_ids)) for one in value.transaction_partitions),
        value.transaction_last_update_timestamp_ms > 0,
        value.transaction_start_timestamp_ms > 0,
        value.client_transaction_version,
    )
