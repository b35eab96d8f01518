"""The coordinator's stories: who owns an id, how transactions end, what time and crashes do to them.

Method: a shard with the plainest host (`transactions_kit`): requests in, codes and rows out. Restarting it replays the bytes
of its log. The numbers are those Kafka 4.3.1 gives in the same stories.
"""

import pytest

from semel.core.records.build import build_batch
from semel.core.transactions import rows
from semel.core.transactions.coordinator import expiry, listing
from semel.core.transactions.coordinator.decision import SendMarkers, TransactionSettings
from semel.core.transactions.rows import row_of, transaction_of
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import EPOCH_LAST, NO_TIMEOUT_MS, Transaction
from semel.core.wire.messages.list_transactions import ListTransactionsRequest
from semel.core.wire.messages.transaction_rows import TransactionLogValue
from semel.errors import CorruptLogError, ErrorCode
from semel.types import TopicPartition
from support.transactions.transactions_kit import ID, NOW_MS, OFFSETS, T0, T1, TIMEOUT_MS, Hosted

OK = ErrorCode.NONE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
PID = 8000
TWO_PHASE = TransactionSettings(two_phase_commit=True)


def known(host: Hosted, epoch: int, state: TransactionState = TransactionState.EMPTY) -> None:
    host.put(
        Transaction(
            ID,
            PID,
            epoch,
            TIMEOUT_MS,
            state,
            {T0: None} if state is TransactionState.ONGOING else {},
            start_ms=-1 if state is TransactionState.EMPTY else host.now_ms,
            last_update_ms=host.now_ms,
            previous_producer_id=PID,
        )
    )


class TestOwnership:
    def test_a_new_id_gets_a_new_producer_id_and_epoch_0(self) -> None:
        host = Hosted()
        answer = host.init()
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (OK, 1000, 0)
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)
        assert host.state() is TransactionState.EMPTY

    @pytest.mark.mission("FEN-02")
    def test_the_next_owner_gets_the_same_producer_id_and_the_next_epoch(self) -> None:
        host = Hosted()
        first = host.init()
        host.restart()
        second = host.init()
        assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)
        assert host.add(first.producer_id, first.producer_epoch) == [FENCED]

    def test_who_has_a_transaction_open_is_fenced_and_it_is_aborted(self) -> None:
        """The seed's five steps, with the epochs Apache Kafka gives: one for the fence, one for the new owner."""
        host = Hosted()
        known(host, 123)
        assert host.add(PID, 123, [T0, T1]) == [OK, OK]
        assert host.init().error_code == BUSY
        assert host.init().error_code == BUSY
        assert host.end(PID, 123, commit=True).error_code == FENCED
        assert host.markers == [SendMarkers(ID, PID, 124, False, (T0, T1), 2)]
        host.write_markers()
        assert host.state() is TransactionState.COMPLETE_ABORT
        answer = host.init()
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (OK, PID, 125)
        assert host.end(PID, 123, commit=True).error_code == FENCED
        assert host.add(PID, 125) == [OK]
        assert host.end(PID, 125, commit=True).error_code == OK

    def test_a_producer_that_comes_back_is_bumped_and_its_retry_gets_the_same(self) -> None:
        host = Hosted()
        known(host, 5)
        assert host.init(PID, 5).producer_epoch == 6
        assert host.init(PID, 5).producer_epoch == 6
        assert host.init(PID, 4).error_code == FENCED

    def test_a_retry_is_fenced_once_another_owner_came(self) -> None:
        host = Hosted()
        known(host, 5)
        assert host.init(PID, 5).producer_epoch == 6
        assert host.init().producer_epoch == 7
        assert host.init(PID, 5).error_code == FENCED
        assert host.init(PID, 6).error_code == FENCED

    def test_a_retry_after_a_restart_is_fenced_not_let_on_wrongly(self) -> None:
        """Kafka's rows do not carry the epoch before the last; so a restart forgets that the retry is one."""
        host = Hosted()
        known(host, 5)
        assert host.init(PID, 5).producer_epoch == 6
        host.restart()
        assert host.init(PID, 5).error_code == FENCED

    def test_of_many_that_come_at_once_one_wins(self) -> None:
        host = Hosted()
        answers = [host.init() for _ in range(20)]
        winners = [
            answer.producer_epoch
            for answer in answers
            if host.add(answer.producer_id, answer.producer_epoch) == [OK]
        ]
        assert winners == [19]

    @pytest.mark.mission("FEN-02")
    @pytest.mark.parametrize("names_itself", [False, True])
    def test_used_up_epochs_give_a_new_producer_id(self, names_itself: bool) -> None:
        host = Hosted()
        known(host, 32766)
        named = (PID, 32766) if names_itself else (-1, -1)
        answer = host.init(*named)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (OK, 1000, 0)
        if names_itself:
            again = host.init(*named)
            assert (again.producer_id, again.producer_epoch) == (1000, 0)
        assert host.add(PID, 32766) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]

    def test_a_fence_at_the_last_epoch_uses_the_one_kept_for_it(self) -> None:
        host = Hosted()
        known(host, 32766, TransactionState.ONGOING)
        assert host.init().error_code == BUSY
        (markers,) = host.write_markers()
        assert (markers.producer_id, markers.producer_epoch) == (PID, 32767)
        assert (host.transaction.producer_id, host.transaction.producer_epoch) == (1000, 0)
        assert (host.init().producer_id, host.transaction.producer_epoch) == (1000, 1)

    def test_without_producer_ids_the_answer_is_to_come_back(self) -> None:
        host = Hosted()
        host.ids.dry = True
        assert host.init().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        known(host, 32766, TransactionState.ONGOING)
        assert host.init().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert host.end(PID, 32766, commit=True, version=5).error_code == (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )
        host.pass_time(TIMEOUT_MS + 200)
        assert host.state() is TransactionState.ONGOING
        host.ids.dry = False
        host.pass_time(200)
        assert host.state() is TransactionState.PREPARE_ABORT


class TestEnding:
    @pytest.mark.parametrize("commit", [True, False])
    def test_v1_keeps_the_epoch_and_answers_a_retry(self, commit: bool) -> None:
        host = Hosted()
        known(host, 3)
        host.add(PID, 3, [T0])
        host.add_offsets(PID, 3)
        assert host.end(PID, 3, commit=commit).error_code == OK
        assert host.markers == [SendMarkers(ID, PID, 3, commit, (T0, OFFSETS), 0)]
        assert host.end(PID, 3, commit=commit).error_code == BUSY
        host.write_markers()
        assert host.transaction.partitions == {}
        assert host.end(PID, 3, commit=commit).error_code == OK
        assert host.end(PID, 3, commit=not commit).error_code == ErrorCode.INVALID_TXN_STATE
        assert host.transaction.producer_epoch == 3

    @pytest.mark.parametrize("commit", [True, False])
    def test_v2_bumps_and_answers_a_retry_with_the_same_epoch(self, commit: bool) -> None:
        host = Hosted()
        known(host, 3)
        assert host.add(PID, 3, version=5) == [OK]
        answer = host.end(PID, 3, commit=commit, version=5)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (OK, PID, 4)
        assert host.markers == [SendMarkers(ID, PID, 4, commit, (T0,), 2)]
        busy = host.end(PID, 3, commit=commit, version=5)
        assert (busy.error_code, busy.producer_id, busy.producer_epoch) == (BUSY, -1, -1)
        host.write_markers()
        again = host.end(PID, 3, commit=commit, version=5)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (OK, PID, 4)

    def test_v2_aborts_nothing_and_bumps(self) -> None:
        host = Hosted()
        known(host, 3)
        answer = host.end(PID, 3, commit=False, version=5)
        assert (answer.error_code, answer.producer_epoch) == (OK, 4)
        assert host.write_markers() == [SendMarkers(ID, PID, 4, False, (), 2)]
        assert host.transaction.start_ms == NOW_MS
        assert host.end(PID, 4, commit=True, version=5).error_code == ErrorCode.INVALID_TXN_STATE

    def test_v2_rotates_at_the_last_epoch_and_knows_the_retry(self) -> None:
        host = Hosted()
        known(host, 32766, TransactionState.ONGOING)
        answer = host.end(PID, 32766, commit=True, version=5)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (OK, 1000, 0)
        (markers,) = host.write_markers()
        assert (markers.producer_id, markers.producer_epoch) == (PID, 32767)
        host.restart()
        again = host.end(PID, 32766, commit=True, version=5)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (OK, 1000, 0)
        assert host.end(PID, 32766, commit=False, version=5).error_code == ErrorCode.INVALID_TXN_STATE

    def test_a_late_end_never_hits_the_next_transaction(self) -> None:
        """v2: the abort of transaction 1 that comes during transaction 2 names an epoch that is gone."""
        host = Hosted()
        known(host, 3)
        host.add(PID, 3, version=5)
        host.end(PID, 3, commit=True, version=5)
        host.write_markers()
        assert host.add(PID, 4, version=5) == [OK]
        assert host.end(PID, 3, commit=False, version=5).error_code == FENCED
        assert host.state() is TransactionState.ONGOING

    @pytest.mark.parametrize("commit", [True, False])
    def test_the_end_of_a_fenced_producer_is_no_retry_of_its_successors(self, commit: bool) -> None:
        """Its epoch is one less, as if it asked again; but an end of v1 bumps nothing. Kafka 4.3.1 takes it for a retry and
        answers with the successor's identity (found by seed 13 of the transactions scenario)."""
        host = Hosted()
        known(host, 3)
        assert host.init().producer_epoch == 4
        host.add(PID, 4, version=3)
        host.end(PID, 4, commit=commit, version=4)
        host.write_markers()
        late = host.end(PID, 3, commit=commit, version=5)
        assert (late.error_code, late.producer_id, late.producer_epoch) == (FENCED, -1, -1)

    def test_markers_reported_twice_or_late_change_nothing(self) -> None:
        host = Hosted()
        known(host, 3)
        host.add(PID, 3)
        host.end(PID, 3, commit=True)
        (markers,) = host.write_markers()
        rows_written = len(host.log)
        host.complete(markers)
        host.add(PID, 3, [T1])
        host.complete(markers)
        assert (len(host.log), host.state()) == (rows_written + 1, TransactionState.ONGOING)


class TestTime:
    def test_what_takes_too_long_is_aborted_and_fenced(self) -> None:
        host = Hosted()
        known(host, 3)
        host.add(PID, 3)
        host.pass_time(TIMEOUT_MS)
        assert host.state() is TransactionState.ONGOING
        host.pass_time(1)
        assert host.markers == [SendMarkers(ID, PID, 4, False, (T0,), 2)]
        host.write_markers()
        assert host.add(PID, 3) == [FENCED]
        assert host.end(PID, 3, commit=True).error_code == FENCED
        assert host.end(PID, 3, commit=True, version=5).error_code == FENCED

    def test_v2_recovers_from_a_timeout_by_its_abort(self) -> None:
        host = Hosted()
        known(host, 3)
        host.add(PID, 3, version=5)
        host.pass_time(TIMEOUT_MS + 1)
        host.write_markers()
        answer = host.end(PID, 3, commit=False, version=5)
        assert (answer.error_code, answer.producer_epoch) == (OK, 4)
        assert host.add(PID, 4, version=5) == [OK]

    def test_the_clock_goes_on_over_a_restart(self) -> None:
        host = Hosted()
        known(host, 3)
        host.add(PID, 3)
        host.pass_time(TIMEOUT_MS - 10)
        host.restart()
        host.pass_time(11)
        assert host.state() is TransactionState.PREPARE_ABORT

    def test_a_clock_that_went_back_gives_its_time_once_more_not_for_ever(self) -> None:
        """The row says that it began in an hour. A timeout counted from there would keep readers waiting for an
        hour."""
        host = Hosted()
        known(host, 3)
        host.add(PID, 3, [T0])
        host.now_ms -= 3_600_000
        host.restart()
        host.pass_time(TIMEOUT_MS - 10)
        host.add(PID, 3, [T1])
        assert host.state() is TransactionState.ONGOING
        host.pass_time(11)
        assert host.state() is TransactionState.PREPARE_ABORT

    def test_more_partitions_give_no_more_time(self) -> None:
        host = Hosted()
        known(host, 3)
        host.add(PID, 3, [T0])
        host.pass_time(TIMEOUT_MS - 10)
        host.add(PID, 3, [T1])
        host.pass_time(11)
        assert host.state() is TransactionState.PREPARE_ABORT

    @pytest.mark.mission("TXP-17", "R-27")
    def test_an_id_nobody_uses_is_forgotten(self) -> None:
        settings = TransactionSettings(id_expiration_ms=1000, expiration_interval_ms=100)
        host = Hosted(settings)
        first = host.init()
        host.add(first.producer_id, 0)
        host.end(first.producer_id, 0, commit=True)
        host.write_markers()
        host.pass_time(900)
        assert (host.transaction.producer_id, host.transaction.partitions) == (first.producer_id, {})
        host.pass_time(300)
        assert host.shard.get(ID) is None
        assert host.log[-1].value is None
        host.restart(compacted=True)
        assert host.init().producer_id == first.producer_id + 1

    def test_what_is_under_way_never_expires(self) -> None:
        host = Hosted(TransactionSettings(id_expiration_ms=1000, expiration_interval_ms=100))
        known(host, 3)
        host.add(PID, 3)
        host.pass_time(30_000)
        assert host.state() is TransactionState.ONGOING
        host.end(PID, 3, commit=True)
        host.pass_time(30_000)
        assert host.state() is TransactionState.PREPARE_COMMIT

    def test_many_that_expire_go_in_batches_that_fit(self) -> None:
        host = Hosted(TransactionSettings(id_expiration_ms=1000, expiration_interval_ms=100))
        count = 2 * expiry.FORGET_MAX + 5
        for index in range(count):
            host.init(transactional_id=f"id-{index}")
        host.now_ms += 2000
        written = []
        while len(host.shard):
            before = len(host.log)
            host.pass_time(0)
            host.now_ms += 1
            written.append(len(host.log) - before)
        assert sum(written) == count

    @pytest.mark.parametrize("partitions", [1, 40])
    def test_many_that_take_too_long_go_in_batches_that_fit(self, partitions: int) -> None:
        host = Hosted()
        count = 2 * expiry.ABORT_MAX + 5
        for index in range(count):
            host.put(
                Transaction(
                    f"id-{index}",
                    PID + index,
                    0,
                    TIMEOUT_MS,
                    TransactionState.ONGOING,
                    dict.fromkeys(TopicPartition("t" * 249, number) for number in range(partitions)),
                    start_ms=host.now_ms,
                    last_update_ms=host.now_ms,
                )
            )
        host.now_ms += TIMEOUT_MS + 1
        batches = []
        while (due_ms := host.shard.next_deadline_ms()) is not None and due_ms <= host.now_ms:
            before = len(host.log)
            host._take(host.shard.due(host.now_ms))
            batches.append(host.log[before:])
        assert len(host.markers) == sum(map(len, batches)) == count
        assert max(len(build_batch(batch)) for batch in batches) < 100_000


class TestCrash:
    @pytest.mark.mission("TXP-12")
    @pytest.mark.parametrize("commit", [True, False])
    @pytest.mark.parametrize("version", [4, 5])
    def test_what_was_decided_is_carried_out_after_a_crash(self, commit: bool, version: int) -> None:
        host = Hosted()
        known(host, 3)
        host.add(PID, 3, [T0, T1], version=version)
        host.end(PID, 3, commit=commit, version=version)
        before = list(host.markers)
        host.restart()
        assert host.markers == before
        assert host.init().error_code == BUSY
        host.write_markers()
        expected = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
        assert host.state() is expected
        host.restart()
        assert host.markers == []

    def test_a_compacted_log_says_the_same(self) -> None:
        host = Hosted()
        known(host, 3)
        for _ in range(3):
            host.add(PID, 3)
            host.end(PID, 3, commit=True)
            host.write_markers()
        live = host.transaction
        host.restart(compacted=True)
        assert host.transaction == live

    def test_a_bump_that_was_never_written_never_happened(self) -> None:
        """KAFKA-9666: the host drops the shard whose append failed and reads the log: nobody had the epoch."""
        host = Hosted()
        known(host, 3)
        host.add(PID, 3)
        rows_written = list(host.log)
        assert host.init().error_code == BUSY
        host.log = rows_written  # The disk refused the row.
        host.restart()
        assert (host.transaction.producer_epoch, host.state()) == (3, TransactionState.ONGOING)
        assert host.init().error_code == BUSY
        host.write_markers()
        assert host.init().producer_epoch == 5


class TestTwoPhaseCommit:
    def test_it_is_off_unless_the_broker_allows_it(self) -> None:
        host = Hosted()
        assert host.init(version=6, enable_2pc=True).error_code == (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
        assert host.init(version=6, keep=True).error_code == ErrorCode.UNSUPPORTED_VERSION

    def test_it_never_times_out(self) -> None:
        host = Hosted(TWO_PHASE)
        owner = host.init(version=6, enable_2pc=True)
        host.add(owner.producer_id, 0, version=5)
        assert host.transaction.timeout_ms == NO_TIMEOUT_MS
        host.pass_time(30 * 86_400_000)
        assert host.state() is TransactionState.ONGOING

    def test_nor_does_it_once_a_client_without_two_phase_commit_has_it(self) -> None:
        host = Hosted(TWO_PHASE)
        host.add(host.init(version=6, enable_2pc=True).producer_id, 0, version=5)
        host.pass_time(10 * TIMEOUT_MS)
        keeper = host.init(version=6, keep=True)
        host.restart()
        host.pass_time(10 * TIMEOUT_MS)
        assert host.end(keeper.producer_id, keeper.producer_epoch, commit=True, version=5).error_code == OK

    @pytest.mark.parametrize("commit", [True, False])
    def test_another_process_takes_it_over_and_ends_it(self, commit: bool) -> None:
        host = Hosted(TWO_PHASE)
        owner = host.init(version=6, enable_2pc=True)
        pid = owner.producer_id
        host.add(pid, 0, [T0], version=5)
        host.restart()
        first = host.init(version=6, enable_2pc=True, keep=True)
        assert (first.producer_id, first.producer_epoch) == (pid, 1)
        assert (first.ongoing_txn_producer_id, first.ongoing_txn_producer_epoch) == (pid, 0)
        second = host.init(version=6, enable_2pc=True, keep=True)
        assert (second.producer_epoch, second.ongoing_txn_producer_epoch) == (2, 0)
        host.restart()
        # Everyone before is fenced: from ending it, and from adding to it.
        assert host.end(pid, 0, commit=True, version=5).error_code == FENCED
        assert host.end(pid, 1, commit=True, version=5).error_code == FENCED
        assert host.add(pid, 0, [T1], version=5) == [FENCED]
        assert host.add(pid, 2, [T1], version=5) == [ErrorCode.INVALID_TXN_STATE]
        assert host.add(pid, 2, [T0], version=5, verify_only=True) == [ErrorCode.INVALID_TXN_STATE]
        assert host.add(pid, 0, [T0], version=5, verify_only=True) == [FENCED]
        answer = host.end(pid, 2, commit=commit, version=5)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (OK, pid, 3)
        assert host.markers == [SendMarkers(ID, pid, 1, commit, (T0,), 2)]
        host.restart()
        host.write_markers()
        assert (host.transaction.producer_epoch, host.transaction.is_kept) == (3, False)
        again = host.end(pid, 2, commit=commit, version=5)
        assert (again.error_code, again.producer_epoch) == (OK, 3)
        assert host.add(pid, 3, version=5) == [OK]

    @pytest.mark.parametrize("is_decided", [False, True])
    @pytest.mark.parametrize("epoch", [EPOCH_LAST - 2, 5])
    def test_whoever_came_before_is_fenced_by_every_request(self, epoch: int, is_decided: bool) -> None:
        """The writer and the first keeper; also where the ids' epochs run out, and while the markers are on their way."""
        host = Hosted(TWO_PHASE)
        known(host, epoch, TransactionState.ONGOING)
        before = [(PID, epoch)]
        for _ in range(3):
            keeper = host.init(version=6, enable_2pc=True, keep=True)
            before.append((keeper.producer_id, keeper.producer_epoch))
        owner = before.pop()
        host.restart()
        if is_decided:
            host.end(*owner, commit=True, version=5)
        written = list(host.log)
        busy_or_fenced = BUSY if is_decided else FENCED
        for pid, old in before:
            known_id = pid in (PID, owner[0])
            for partition in (T0, T1):
                for version in range(2, 6):
                    assert host.add(pid, old, [partition], version=version) in ([busy_or_fenced], [MAPPING])
                verified = host.add(pid, old, [partition], version=5, verify_only=True)
                assert verified == [FENCED if known_id else MAPPING]
            for version in range(2, 5):
                assert host.add_offsets(pid, old, version=version) in (busy_or_fenced, MAPPING)
            for version in range(2, 6):
                for commit in (True, False):
                    refused = host.end(pid, old, commit=commit, version=version).error_code
                    assert refused in (busy_or_fenced, FENCED, MAPPING)
            assert host.init(pid, old).error_code == busy_or_fenced
        assert host.log == written
        for partition in (T0, T1):  # The keeper may end it, and only that.
            added = host.add(*owner, [partition], version=5)
            assert added == ([BUSY] if is_decided else [ErrorCode.INVALID_TXN_STATE])

    def test_the_keeper_is_answered_when_every_leader_has_heard_of_it(self) -> None:
        host = Hosted(TWO_PHASE)
        known(host, 5, TransactionState.ONGOING)
        host.add(PID, 5, [OFFSETS])
        answer = host.init(version=6, enable_2pc=True, keep=True)
        (fence,) = host.fences
        assert (fence.producer_id, fence.partitions, fence.response) == (PID, (T0, OFFSETS), answer)
        host.init(version=6, enable_2pc=True, keep=True)
        assert [one.producer_id for one in host.fences] == [PID, PID]
        assert (
            host.init().error_code == BUSY
        )  # A client that keeps no transaction fences by the markers of the abort.
        assert len(host.fences) == 2

    def test_an_old_epoch_aborts_nothing_that_never_times_out(self) -> None:
        """Its owner may be about to prepare it, or has: the other system may have committed."""
        host = Hosted(TWO_PHASE)
        old = host.init(version=6, enable_2pc=True)
        owner = host.init(version=6, enable_2pc=True)
        host.add(owner.producer_id, owner.producer_epoch, version=5)
        assert host.init(old.producer_id, old.producer_epoch).error_code == FENCED
        assert host.init(old.producer_id, old.producer_epoch, version=3).error_code == (
            ErrorCode.INVALID_PRODUCER_EPOCH
        )
        assert host.state() is TransactionState.ONGOING
        assert host.init(owner.producer_id, owner.producer_epoch).error_code == BUSY
        assert host.state() is TransactionState.PREPARE_ABORT

    def test_an_owner_that_keeps_nothing_aborts_what_was_prepared(self) -> None:
        host = Hosted(TWO_PHASE)
        pid = host.init(version=6, enable_2pc=True).producer_id
        host.add(pid, 0, version=5)
        host.init(version=6, enable_2pc=True, keep=True)
        assert host.init().error_code == BUSY
        (markers,) = host.write_markers()
        assert (markers.producer_epoch, markers.commit) == (1, False)
        assert host.init().producer_epoch == 3

    def test_where_nothing_is_open_keeping_is_an_ordinary_init(self) -> None:
        host = Hosted(TWO_PHASE)
        first = host.init(version=6, enable_2pc=True, keep=True)
        second = host.init(version=6, enable_2pc=True, keep=True)
        assert (first.producer_epoch, second.producer_epoch) == (0, 1)
        assert second.ongoing_txn_producer_id == -1

    def test_whoever_keeps_names_no_identity(self) -> None:
        host = Hosted(TWO_PHASE)
        owner = host.init(version=6, enable_2pc=True)
        answer = host.init(owner.producer_id, 0, version=6, enable_2pc=True, keep=True)
        assert answer.error_code == ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize(("epoch", "final"), [(32764, (1000, 0)), (32765, (1000, 1))])
    def test_epochs_used_up_while_it_is_kept_rotate(self, epoch: int, final: tuple[int, int]) -> None:
        host = Hosted(TWO_PHASE)
        known(host, epoch, TransactionState.ONGOING)
        host.init(version=6, enable_2pc=True, keep=True)
        keeper = host.init(version=6, enable_2pc=True, keep=True)
        assert (keeper.ongoing_txn_producer_id, keeper.ongoing_txn_producer_epoch) == (PID, epoch)
        answer = host.end(keeper.producer_id, keeper.producer_epoch, commit=True, version=5)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (OK, *final)
        (markers,) = host.write_markers()
        assert (markers.producer_id, markers.producer_epoch) == (PID, epoch + 1)
        assert (host.transaction.producer_id, host.transaction.producer_epoch) == final
        again = host.end(keeper.producer_id, keeper.producer_epoch, commit=True, version=5)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (OK, *final)


class TestShowing:
    def test_a_description_has_everything(self) -> None:
        host = Hosted()
        known(host, 3)
        host.add(PID, 3, [T0, T1, OFFSETS])
        shown = host.shard.describe(ID)
        assert (shown.error_code, shown.transaction_state) == (OK, "Ongoing")
        assert (shown.producer_id, shown.producer_epoch, shown.transaction_timeout_ms) == (PID, 3, TIMEOUT_MS)
        assert [(one.topic, one.partitions) for one in shown.topics] == [
            ("t", [0, 1]),
            ("__consumer_offsets", [12]),
        ]
        assert host.shard.describe("other").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert host.shard.describe("").error_code == ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize(
        ("request_", "shown"),
        [
            (ListTransactionsRequest(), ["a", "b", "c"]),
            (ListTransactionsRequest(state_filters=["Ongoing"]), ["b"]),
            (ListTransactionsRequest(state_filters=["Nonsense"]), []),
            (ListTransactionsRequest(state_filters=["Dead", "Empty"]), ["a"]),
            (ListTransactionsRequest(producer_id_filters=[1, 3]), ["a", "c"]),
            (ListTransactionsRequest(duration_filter=50), ["a", "c"]),
            (ListTransactionsRequest(transactional_id_pattern="[ab]"), ["a", "b"]),
            (ListTransactionsRequest(transactional_id_pattern=""), ["a", "b", "c"]),
            (ListTransactionsRequest(transactional_id_pattern="([abc]+)+c?"), ["a", "b", "c"]),
        ],
    )
    def test_a_list_has_what_was_asked_for(self, request_: ListTransactionsRequest, shown: list[str]) -> None:
        transactions = [
            Transaction("a", 1, 0, TIMEOUT_MS),
            Transaction("b", 2, 0, TIMEOUT_MS, TransactionState.ONGOING, {T0: None}, start_ms=NOW_MS - 10),
            Transaction("c", 3, 0, TIMEOUT_MS, TransactionState.COMPLETE_COMMIT, start_ms=NOW_MS - 100),
        ]
        matches = listing.filter_of(request_, NOW_MS)
        assert not isinstance(matches, ErrorCode)
        assert [listing.listed(one).transactional_id for one in transactions if matches(one)] == shown

    def test_a_broken_pattern_and_unknown_states_are_named(self) -> None:
        broken = ListTransactionsRequest(transactional_id_pattern="(")
        assert listing.filter_of(broken, NOW_MS) is ErrorCode.INVALID_REGULAR_EXPRESSION
        beyond_re2 = ListTransactionsRequest(transactional_id_pattern="(?=a)a")
        assert listing.filter_of(beyond_re2, NOW_MS) is ErrorCode.INVALID_REGULAR_EXPRESSION
        asked = ListTransactionsRequest(state_filters=["Ongoing", "Nonsense"])
        assert listing.unknown_states(asked) == ["Nonsense"]

    def test_no_pattern_takes_long(self) -> None:
        """Python's own expressions would think about this one for longer than anybody waits."""
        matches = listing.filter_of(ListTransactionsRequest(transactional_id_pattern="(a+)+b"), NOW_MS)
        assert not isinstance(matches, ErrorCode)
        assert not matches(Transaction("a" * 10_000, 1, 0, TIMEOUT_MS))


class TestRows:
    def test_a_row_reads_back_as_what_was_written(self) -> None:
        one = Transaction(
            ID,
            PID,
            7,
            TIMEOUT_MS,
            TransactionState.PREPARE_COMMIT,
            {T0: None, OFFSETS: None, T1: None},
            start_ms=1,
            last_update_ms=2,
            previous_producer_id=3,
            next_producer_id=4,
            next_producer_epoch=5,
            client_version=2,
        )
        assert transaction_of(row_of(one)) == one

    def test_a_row_of_kafka_3_reads_too(self) -> None:
        row = row_of(Transaction(ID, PID, 7, TIMEOUT_MS, TransactionState.ONGOING, {T0: None}))
        assert isinstance(row.value, TransactionLogValue)
        old = TransactionLogValue.decode(row.value.encode(1), 1)
        old.previous_producer_id = -1
        value = TransactionLogValue.decode(old.encode(0), 0)
        read = transaction_of(row._replace(value=value, value_version=0))
        assert read == Transaction(ID, PID, 7, TIMEOUT_MS, TransactionState.ONGOING, {T0: None})

    @pytest.mark.parametrize("status", [6, 7, 8, -1])
    def test_a_status_that_is_never_stored_is_corruption(self, status: int) -> None:
        row = row_of(Transaction(ID, PID, 7, TIMEOUT_MS))
        assert isinstance(row.value, TransactionLogValue)
        row.value.transaction_status = status
        with pytest.raises(CorruptLogError, match=f"{ID} has the status {status}"):
            transaction_of(row)

    def test_a_tombstone_is_no_transaction(self) -> None:
        row = rows.tombstone_of(ID)
        assert (rows.id_in(row), transaction_of(row)) == (ID, None)


def test_deciding_changes_nothing() -> None:
    """The outcome is a proposal: until its rows are applied, the shard says what it said."""
    host = Hosted()
    known(host, 3, TransactionState.ONGOING)
    before = host.transaction._replace()
    for _ in range(2):
        decision = host.shard.decide_add(ID, PID, 3, [T1], client_version=2, now_ms=host.now_ms)
        assert decision.moved is not None
        assert host.transaction == before


def test_an_empty_abort_completed_twice_is_complete() -> None:
    host = Hosted()
    known(host, 3)
    host.end(PID, 3, commit=False, version=5)
    (markers,) = host.write_markers()
    host.complete(markers)
    assert host.state() is TransactionState.COMPLETE_ABORT
