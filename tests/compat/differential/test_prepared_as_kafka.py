"""What is said while a transaction's markers are on their way must be what Apache Kafka 4.3.1 says.

Method: markers never arrive. Kafka sends them to the address it advertises, where nobody listens; ours finds every partition
out of order. So a transaction that has ended stays in PrepareCommit or PrepareAbort, and every request of the coordinator is
told to both brokers there, in each version: of its owner, of older and newer epochs, and of a stranger. Produce and
TxnOffsetCommit are not: where Kafka's markers do not arrive, neither does its leaders' question to the coordinator.
"""

from collections.abc import Iterator

import pytest

from compat.differential.comparison import kafka_side, semel_side
from compat.differential.transaction_stories import Both, Who
from semel.broker.markers.here import MarkersHere
from semel.errors import ErrorCode
from semel.peers.kafka import KafkaHome

pytestmark = pytest.mark.java
OK = ErrorCode.NONE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
NOWHERE = "PLAINTEXT://127.0.0.1:1"
PLACE = ("orders", 0)


def out_of_order(*_place: object, **_marker: object) -> ErrorCode:
    """In place of `MarkersHere.write`."""
    return ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture(scope="module")
def both(kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    directory = tmp_path_factory.mktemp("prepared")
    with (
        pytest.MonkeyPatch.context() as patched,
        semel_side(directory / "semel") as ours,
        kafka_side(kafka_home, directory / "kafka", advertised_listeners=NOWHERE) as theirs,
    ):
        patched.setattr(MarkersHere, "write", out_of_order)
        pair = Both(ours, theirs)
        pair.create("orders", 2)
        pair.find("first", 1)
        pair.find("group", 0)
        yield pair


@pytest.mark.parametrize("end_version", [4, 5])
@pytest.mark.parametrize("commit", [True, False])
def test_every_request_while_markers_are_on_their_way(both: Both, commit: bool, end_version: int) -> None:
    name = f"prepared-{commit}-{end_version}"
    for _ in range(2):  # So that there are older epochs.
        both.introduce(name)
    who = both.introduce(name)
    assert both.add(who, PLACE) == [(*PLACE, OK)]
    assert both.end(who, commit=commit, version=end_version, take=False)[0] == OK
    state = "PrepareCommit" if commit else "PrepareAbort"
    assert both.describe(name, retry=False)[0][2] == state
    assert both.list(state_filters=[state], prefix=name, retry=False)[2][0][2] == state
    assert both.end(who, commit=commit, version=end_version, retry=False, take=False)[0] == BUSY
    assert both.init(name, retry=False) == (BUSY, -1, -1)
    epochs = [who.at(who.epoch + step) for step in (-2, -1, 0, 1, 2)]
    for one in (*epochs, who.with_other_id()):
        ask_everything(both, one)
    assert both.describe(name, retry=False)[0][2] == state


def test_who_was_fenced_by_an_introduction_waits_with_its_successor(both: Both) -> None:
    who = both.introduce("fenced")
    both.add(who, PLACE)
    assert both.init("fenced", retry=False) == (BUSY, -1, -1)
    assert both.describe("fenced", retry=False)[0][2] == "PrepareAbort"
    for one in (who, who.at(who.epoch + 1), who.at(who.epoch + 2), who.with_other_id()):
        ask_everything(both, one)


def ask_everything(both: Both, who: Who) -> None:
    for version in range(6):
        both.init(who.transactional_id, who if version > 2 else None, version=version, retry=False)
        for commit in (True, False):
            both.end(who, commit=commit, version=version, retry=False, take=False)
    for version in range(4):
        both.add(who, PLACE, ("orders", 1), version=version, retry=False)
    for version in (4, 5):
        for verify_only in (True, False):
            both.add(who, PLACE, ("orders", 1), version=version, verify_only=verify_only, retry=False)
    for version in range(5):
        both.add_offsets(who, "group", version=version, retry=False)
