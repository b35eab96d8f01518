"""Every state with every request, in both protocols: the answer, the next state, and that a refusal writes nothing.

Method: a table with a row per state and request. The shard is put into the state by a row of its log; what is not in the
table is not a request a client can send. The codes are those of Kafka 4.3.1's coordinator
(`tests/compat/differential/test_transactions.py` asks it), except one that its own issue calls wrong: a commit that
finds the broker's abort is fenced.
"""

import pytest

from semel.core.transactions.states import MOVES, TransactionState
from semel.core.transactions.transaction import TRANSACTIONS_V1, TRANSACTIONS_V2, Transaction
from semel.errors import ErrorCode, InvariantError
from support.transactions.transactions_kit import ID, NOW_MS, T0, T1, TIMEOUT_MS, Hosted

EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
STORED = (EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT)

OK = ErrorCode.NONE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
STATE = ErrorCode.INVALID_TXN_STATE
ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE

PID, EPOCH = 8000, 123


def hosted_in(state: TransactionState, client_version: int = TRANSACTIONS_V1) -> Hosted:
    """A shard that knows one id, in this state, with one partition where there may be one."""
    host = Hosted()
    has_partitions = state in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
    host.put(
        Transaction(
            ID,
            PID,
            EPOCH,
            TIMEOUT_MS,
            state,
            {T0: None} if has_partitions else {},
            start_ms=-1 if state is EMPTY else NOW_MS,
            last_update_ms=NOW_MS,
            previous_producer_id=PID,
            client_version=client_version,
        )
    )
    return host


# request -> for each state: (code, next state)
SAME = None
TABLE: dict[str, list[tuple[ErrorCode, TransactionState | None]]] = {
    "init": [(OK, EMPTY), (BUSY, PREPARE_ABORT), (BUSY, SAME), (BUSY, SAME), (OK, EMPTY), (OK, EMPTY)],
    "init as owner": [
        (OK, EMPTY),
        (BUSY, PREPARE_ABORT),
        (BUSY, SAME),
        (BUSY, SAME),
        (OK, EMPTY),
        (OK, EMPTY),
    ],
    "init as stranger": [
        (FENCED, SAME),
        (FENCED, SAME),
        (BUSY, SAME),
        (BUSY, SAME),
        (FENCED, SAME),
        (FENCED, SAME),
    ],
    "init, old epoch": [
        (FENCED, SAME),
        (BUSY, PREPARE_ABORT),
        (BUSY, SAME),
        (BUSY, SAME),
        (FENCED, SAME),
        (FENCED, SAME),
    ],
    "add": [(OK, ONGOING), (OK, ONGOING), (BUSY, SAME), (BUSY, SAME), (OK, ONGOING), (OK, ONGOING)],
    "add, old epoch": [
        (FENCED, SAME),
        (FENCED, SAME),
        (BUSY, SAME),
        (BUSY, SAME),
        (FENCED, SAME),
        (FENCED, SAME),
    ],
    "add, other id": [
        (MAPPING, SAME),
        (MAPPING, SAME),
        (BUSY, SAME),
        (BUSY, SAME),
        (MAPPING, SAME),
        (MAPPING, SAME),
    ],
    "add offsets": [(OK, ONGOING), (OK, ONGOING), (BUSY, SAME), (BUSY, SAME), (OK, ONGOING), (OK, ONGOING)],
    "verify": [
        (ABORTABLE, SAME),
        (OK, SAME),
        (BUSY, SAME),
        (BUSY, SAME),
        (ABORTABLE, SAME),
        (ABORTABLE, SAME),
    ],
    "verify, old epoch": [(FENCED, SAME)] * 6,
    "verify, other id": [(MAPPING, SAME)] * 6,
    "commit v1": [
        (STATE, SAME),
        (OK, PREPARE_COMMIT),
        (BUSY, SAME),
        (BUSY, SAME),
        (OK, SAME),
        (STATE, SAME),
    ],
    "abort v1": [(STATE, SAME), (OK, PREPARE_ABORT), (BUSY, SAME), (BUSY, SAME), (STATE, SAME), (OK, SAME)],
    "commit v1, old epoch": [(FENCED, SAME)] * 6,
    "commit v1, other id": [(MAPPING, SAME)] * 6,
    "commit v2": [
        (STATE, SAME),
        (OK, PREPARE_COMMIT),
        (BUSY, SAME),
        (BUSY, SAME),
        (STATE, SAME),
        (STATE, SAME),
    ],
    "abort v2": [
        (OK, PREPARE_ABORT),
        (OK, PREPARE_ABORT),
        (BUSY, SAME),
        (BUSY, SAME),
        (OK, PREPARE_ABORT),
        (OK, PREPARE_ABORT),
    ],
    "commit v2 again": [
        (FENCED, SAME),
        (FENCED, SAME),
        (BUSY, SAME),
        (BUSY, SAME),
        (OK, SAME),
        (FENCED, SAME),
    ],
    "abort v2 again": [(FENCED, SAME), (FENCED, SAME), (BUSY, SAME), (BUSY, SAME), (STATE, SAME), (OK, SAME)],
    "abort v2, older epoch": [
        (FENCED, SAME),
        (FENCED, SAME),
        (BUSY, SAME),
        (BUSY, SAME),
        (FENCED, SAME),
        (FENCED, SAME),
    ],
    "abort v2, other id": [
        (MAPPING, SAME),
        (MAPPING, SAME),
        (BUSY, SAME),
        (BUSY, SAME),
        (MAPPING, SAME),
        (MAPPING, SAME),
    ],
}


def send(host: Hosted, request: str) -> ErrorCode:
    old = EPOCH - 1
    match request:
        case "init":
            return ErrorCode(host.init().error_code)
        case "init as owner":
            return ErrorCode(host.init(PID, EPOCH).error_code)
        case "init as stranger":
            return ErrorCode(host.init(PID + 1, EPOCH).error_code)
        case "init, old epoch":
            return ErrorCode(host.init(PID, old).error_code)
        case "add":
            return host.add(PID, EPOCH, [T0, T1])[0]
        case "add, old epoch":
            return host.add(PID, old)[0]
        case "add, other id":
            return host.add(PID + 1, EPOCH)[0]
        case "add offsets":
            return host.add_offsets(PID, EPOCH)
        case "verify":
            return host.add(PID, EPOCH, version=5, verify_only=True)[0]
        case "verify, old epoch":
            return host.add(PID, old, version=5, verify_only=True)[0]
        case "verify, other id":
            return host.add(PID + 1, EPOCH, version=5, verify_only=True)[0]
    verb, protocol, *rest = request.replace(",", "").split(" ", 2)
    version = 4 if protocol == "v1" else 5
    epoch = {"": EPOCH, "old epoch": old, "again": old, "older epoch": old - 1, "other id": EPOCH}[
        " ".join(rest)
    ]
    producer_id = PID + 1 if rest == ["other id"] else PID
    return ErrorCode(host.end(producer_id, epoch, commit=verb == "commit", version=version).error_code)


@pytest.mark.mission("TXP-22")
@pytest.mark.parametrize("request_name", TABLE)
@pytest.mark.parametrize("state", STORED, ids=lambda state: state.label)
def test_every_state_with_every_request(state: TransactionState, request_name: str) -> None:
    code, following = TABLE[request_name][STORED.index(state)]
    host = hosted_in(state, TRANSACTIONS_V2 if request_name.endswith("v2 again") else TRANSACTIONS_V1)
    before, rows = host.transaction, len(host.log)
    assert send(host, request_name) == code
    assert host.transaction.state is (state if following is SAME else following)
    if following is SAME:
        assert (host.transaction, len(host.log), host.markers) == (before, rows, [])
    live = host.transaction
    host.restart()
    assert host.transaction == live


@pytest.mark.mission("TXP-22")
def test_a_move_that_is_not_listed_cannot_be_made() -> None:
    """From any state to any other: `MOVES` says which, and every other raises."""
    for state in STORED:
        for target in TransactionState:
            one = hosted_in(state).transaction
            if target in MOVES[state]:
                assert one._moved(target, NOW_MS).state is target
            else:
                with pytest.raises(InvariantError, match=f"{state.label} to {target.label}"):
                    one._moved(target, NOW_MS)


def test_an_id_nobody_introduced_is_unknown() -> None:
    host = Hosted()
    assert host.add(PID, EPOCH) == [MAPPING]
    assert host.add(PID, EPOCH, verify_only=True, version=5) == [MAPPING]
    assert host.add_offsets(PID, EPOCH) == MAPPING
    assert host.end(PID, EPOCH, commit=True).error_code == MAPPING
    assert host.end(PID, EPOCH, commit=True, version=5).error_code == MAPPING
    assert host.log == []


@pytest.mark.parametrize("version", range(6))
def test_each_version_hears_of_fencing_in_its_own_words(version: int) -> None:
    """PRODUCER_FENCED came late; clients before it know INVALID_PRODUCER_EPOCH."""
    old = ErrorCode.INVALID_PRODUCER_EPOCH
    host = hosted_in(ONGOING)
    assert host.init(PID + 1, 5, version=max(version, 3)).error_code == (old if version < 4 else FENCED)
    assert host.add(PID, 5, version=version) == [old if version < 2 else FENCED]
    assert host.end(PID, 5, commit=True, version=version).error_code == (old if version < 2 else FENCED)
    assert host.add_offsets(PID, 5, version=min(version, 4)) == (old if version < 2 else FENCED)


def test_requests_without_an_id_are_refused() -> None:
    host = Hosted()
    assert host.init(transactional_id="").error_code == ErrorCode.INVALID_REQUEST
    assert host.add(1, 0, transactional_id="") == [ErrorCode.INVALID_REQUEST]
    assert host.end(1, 0, commit=True, transactional_id="").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_must_be_one_the_broker_allows(timeout_ms: int) -> None:
    host = Hosted()
    assert host.init(timeout_ms=timeout_ms).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert host.init(timeout_ms=900_000).error_code == OK


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_half_an_identity_is_none(producer_id: int, epoch: int) -> None:
    assert Hosted().init(producer_id, epoch).error_code == ErrorCode.INVALID_REQUEST
