"""For any behaviour of producers, timeouts, crashes and late markers, each transaction is all or nothing, and none
hangs.

Goal:   the coordinator together with the partitions' producer state keeps the promise, under any order of events.
Method: producers of both protocols share two transactional ids on two partitions. They introduce themselves, write
        (the append may come long after the coordinator was asked), end transactions and lose answers; some keep what another
        left open (two-phase commit), who may still be there and go on; markers arrive one partition at a time, late, or
        twice; the process crashes and replays its logs; time passes. Partitions judge with the real `ProducerState`. In the
        end everything that is due happens, and each transaction is compared with what its producer was told.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import Append
from semel.core.records.batch import BatchHeader
from semel.core.transactions.coordinator.decision import SendMarkers, TransactionSettings
from semel.core.transactions.states import TransactionState
from semel.errors import ErrorCode, Refuse
from semel.types import TopicPartition
from support.idempotence.idempotence_kit import header
from support.transactions.transactions_kit import T0, T1, Hosted

PARTITIONS = (T0, T1)
IDS = ("a", "b")


@dataclass(frozen=True)
class Data:
    header: BatchHeader
    transaction: int


@dataclass(frozen=True)
class Marker:
    producer_id: int
    producer_epoch: int
    commit: bool


@dataclass
class Partition:
    """A partition's log and what the leader knows from it."""

    log: list[Data | Marker] = field(default_factory=list)
    state: ProducerState = field(default_factory=lambda: ProducerState(verification_required=True))

    def append(self, one: Data, *, v2: bool, token: int | None) -> bool:
        verdict = self.state.judge(one.header, transactions_v2=v2, verification_token=token)
        if isinstance(verdict, Append):
            self._record(one)
            return True
        return False

    def mark(self, markers: SendMarkers, *, coordinator_epoch: int) -> None:
        verdict = self.state.judge_marker(
            producer_id=markers.producer_id,
            producer_epoch=markers.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_version=markers.transaction_version,
        )
        assert isinstance(verdict, Append), verdict
        self._record(Marker(markers.producer_id, markers.producer_epoch, markers.commit))

    def _record(self, one: Data | Marker) -> None:
        offset = len(self.log)
        self.log.append(one)
        if isinstance(one, Data):
            self.state.record(one.header._replace(base_offset=offset))
            return
        completed = self.state.record_marker(
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            coordinator_epoch=0,
            commit=one.commit,
            offset=offset,
            timestamp_ms=0,
        )
        if completed is not None:
            self.state.complete(completed)

    def replay(self) -> None:
        entries, self.log = self.log, []
        self.state = ProducerState(verification_required=True)
        for one in entries:
            self._record(one)
        self.state.doubt_all()

    def fates(self) -> dict[int, set[str]]:
        """The fate of each transaction's records on this partition."""
        found: dict[int, set[str]] = {}
        for at, one in enumerate(self.log):
            if isinstance(one, Data):
                ends = (
                    "committed" if later.commit else "aborted"
                    for later in self.log[at + 1 :]
                    if isinstance(later, Marker) and later.producer_id == one.header.producer_id
                )
                found.setdefault(one.transaction, set()).add(next(ends, "open"))
        return found


@dataclass
class Producer:
    transactional_id: str
    v2: bool
    identity: tuple[int, int] | None = None
    transaction: int = -1
    sequences: dict[tuple[int, int, TopicPartition], int] = field(default_factory=dict)
    keeps: bool = False
    in_doubt: bool | None = None
    """An end that was asked for and never answered."""


@dataclass
class Late:
    """A write between the coordinator's yes and the partition's append."""

    producer: Producer
    partition: TopicPartition
    data: Data
    token: int | None


class World(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.host = Hosted(TransactionSettings(two_phase_commit=True))
        self.partitions = {one: Partition() for one in PARTITIONS}
        self.producers = [Producer(IDS[index % 2], v2=index % 4 < 2) for index in range(4)]
        self.under_way: list[tuple[SendMarkers, list[TopicPartition]]] = []
        self.transactions = 0
        self.late: list[Late] = []
        self.told: dict[int, str] = {}
        self.acknowledged: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.begun: dict[tuple[int, int], int] = {}
        """The last transaction of each identity."""
        self.kept: set[int] = set()

    # Producers.

    @rule(which=st.integers(0, 3), recovers=st.booleans())
    def introduces_itself(self, which: int, recovers: bool) -> None:
        producer = self.producers[which]
        named = producer.identity if recovers and producer.identity else (-1, -1)
        answer = self.host.init(*named, transactional_id=producer.transactional_id)
        self._take_effects()
        if answer.error_code == ErrorCode.NONE:
            producer.identity = (answer.producer_id, answer.producer_epoch)
            producer.transaction, producer.in_doubt, producer.keeps = -1, None, False

    @rule(which=st.integers(0, 3), crashes=st.booleans())
    def keeps_what_is_open(self, which: int, crashes: bool) -> None:
        producer = self.producers[which]
        answer = self.host.init(transactional_id=producer.transactional_id, version=6, keep=True)
        for fence in self.host.fences:
            for where in fence.partitions:
                self.partitions[where].state.doubt(fence.producer_id)
        self.host.fences.clear()
        if answer.error_code != ErrorCode.NONE:
            return
        producer.identity = (answer.producer_id, answer.producer_epoch)
        producer.transaction, producer.in_doubt, producer.keeps = -1, None, False
        if answer.ongoing_txn_producer_id >= 0:
            left = (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
            producer.transaction, producer.keeps = self.begun[left], True
            self.kept.add(producer.transaction)
            if crashes:
                self.crashes(compacted=False)
            for number, predecessor in enumerate(self.producers):
                if predecessor.identity == left:
                    for where in PARTITIONS:
                        self.writes(number, where, late=False)

    @rule(which=st.integers(0, 3), where=st.sampled_from(PARTITIONS), late=st.booleans())
    def writes(self, which: int, where: TopicPartition, late: bool) -> None:
        producer = self.producers[which]
        if producer.identity is None or producer.in_doubt is not None or producer.keeps:
            return
        if producer.transaction < 0:
            self.transactions += 1
            producer.transaction = self.begun[producer.identity] = self.transactions
        pid, epoch = producer.identity
        partition = self.partitions[where]
        token = None
        sequence = producer.sequences.get((pid, epoch, where), 0)
        one = Data(header(pid, epoch, sequence, transactional=True), producer.transaction)
        if not producer.v2:
            added = self.host.add(pid, epoch, [where], transactional_id=producer.transactional_id)
            if added != [ErrorCode.NONE]:
                return
        started = partition.state.start_verification(
            pid, producer_epoch=epoch, base_sequence=sequence, supports_epoch_bump=producer.v2, now_ms=0
        )
        if isinstance(started, Refuse):
            return
        if started is not None:
            token = started
            codes = self.host.add(
                pid,
                epoch,
                [where],
                transactional_id=producer.transactional_id,
                version=5,
                verify_only=not producer.v2,
            )
            if codes != [ErrorCode.NONE]:
                return
        arriving = Late(producer, where, one, token)
        if late:
            self.late.append(arriving)
        else:
            self._arrive(arriving)

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def late_write_arrives(self, data: st.DataObject) -> None:
        self._arrive(self.late.pop(data.draw(st.integers(0, len(self.late) - 1))))

    def _arrive(self, late: Late) -> None:
        head = late.data.header
        if self.partitions[late.partition].append(late.data, v2=late.producer.v2, token=late.token):
            place = (head.producer_id, head.producer_epoch, late.partition)
            late.producer.sequences[place] = head.base_sequence + 1
            number = late.data.transaction
            assert self.told.get(number) != "committed", f"transaction {number} grew after its commit"
            assert number not in self.kept, f"transaction {number} grew after somebody else kept it"
            self.acknowledged[number] = self.acknowledged.get(number, 0) + 1

    @rule(which=st.integers(0, 3), commit=st.booleans(), is_lost=st.booleans())
    def ends(self, which: int, commit: bool, is_lost: bool) -> None:
        producer = self.producers[which]
        if producer.identity is None or (producer.transaction < 0 and producer.in_doubt is None):
            return
        # A client that gave up waiting for a write aborts, and one of v1 introduces itself again after that.
        gave_up = any(late.producer is producer for late in self.late)
        commit = commit and not gave_up
        if producer.in_doubt is not None:
            commit = producer.in_doubt
        answer = self.host.end(
            *producer.identity,
            commit=commit,
            version=5 if producer.v2 else 4,
            transactional_id=producer.transactional_id,
        )
        self._take_effects()
        if is_lost:
            producer.in_doubt = commit
            return
        if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            producer.in_doubt = commit
            return
        if answer.error_code == ErrorCode.NONE:
            self.told[producer.transaction] = "committed" if commit else "aborted"
            if producer.v2:
                producer.identity = (answer.producer_id, answer.producer_epoch)
            elif gave_up:
                producer.identity = None
            producer.transaction, producer.in_doubt, producer.keeps = -1, None, False
        else:
            producer.identity = None  # Fenced, or nothing was written: it has to introduce itself again.
            producer.transaction, producer.in_doubt, producer.keeps = -1, None, False

    # Markers.

    def _take_effects(self) -> None:
        for markers in self.host.markers:
            self.under_way.append((markers, list(markers.partitions)))
        self.host.markers.clear()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), twice=st.booleans())
    def marker_arrives(self, data: st.DataObject, twice: bool) -> None:
        at = data.draw(st.integers(0, len(self.under_way) - 1))
        markers, remaining = self.under_way[at]
        if remaining:
            where = remaining[data.draw(st.integers(0, len(remaining) - 1))]
            self.partitions[where].mark(markers, coordinator_epoch=0)
            if not twice:
                remaining.remove(where)
        if not remaining:
            del self.under_way[at]
            self.host.complete(markers)
            if twice:
                self.host.complete(markers)

    # The world.

    @rule(compacted=st.booleans())
    def crashes(self, compacted: bool) -> None:
        self.host.restart(compacted=compacted)
        self.under_way.clear()
        self.late.clear()
        for partition in self.partitions.values():
            partition.replay()
        self._take_effects()

    @rule(ms=st.sampled_from([1_000, 40_000]))
    def time_passes(self, ms: int) -> None:
        self.host.pass_time(ms)
        self._take_effects()

    # What always holds.

    @invariant()
    def epochs_never_go_back(self) -> None:
        for transaction in self.host.shard:
            before = self.epochs.get(transaction.producer_id, -1)
            assert transaction.producer_epoch >= before
            self.epochs[transaction.producer_id] = transaction.producer_epoch

    @invariant()
    def a_replay_gives_the_same(self) -> None:
        again = Hosted()
        again.log, again.now_ms = list(self.host.log), self.host.now_ms
        again.restart()
        assert {one.transactional_id: one for one in again.shard} == {
            one.transactional_id: one for one in self.host.shard
        }

    # The final invariants.

    def teardown(self) -> None:
        self.late.clear()
        for _ in range(2):  # Everyone's time is up; then everything that was decided is done.
            self.host.pass_time(3_600_000)
            self._take_effects()
            for markers, remaining in self.under_way:
                for where in remaining:
                    self.partitions[where].mark(markers, coordinator_epoch=0)
                self.host.complete(markers)
            self.under_way.clear()
        for transaction in self.host.shard:
            assert transaction.state in (
                TransactionState.EMPTY,
                TransactionState.COMPLETE_COMMIT,
                TransactionState.COMPLETE_ABORT,
            )
        fates: dict[int, set[str]] = {}
        counts: dict[int, int] = {}
        for partition in self.partitions.values():
            assert partition.state.first_undecided_offset is None, "the last stable offset hangs"
            for number, found in partition.fates().items():
                fates.setdefault(number, set()).update(found)
            for one in partition.log:
                if isinstance(one, Data):
                    counts[one.transaction] = counts.get(one.transaction, 0) + 1
        for number, found in fates.items():
            assert len(found) == 1, f"transaction {number} is torn: {found}"
            if number in self.told:
                assert found == {self.told[number]}
        assert counts == self.acknowledged


World.TestCase.settings = settings(stateful_step_count=60)
TestWorld = World.TestCase
