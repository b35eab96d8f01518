"""The judge of mixed clusters sees what it is there for: each wrong that a replica or a log can have is found.

Method: logs written by our own encoder, and one harm at a time. Without a harm nothing is found.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from semel.core.idempotence import snapshot
from semel.core.idempotence.producer_window import ProducerEntry, WindowBatch, pack_batches
from semel.core.records.build import RecordInput, build_batch
from support.cluster import replica_files
from support.cluster.kill_lives import Tally
from support.cluster.kill_page import Part, add
from support.cluster.load import Ack, as_stored, judge

STORED = {0: [(0, 0), (1, 2), (2, 4)], 1: [(0, 1), (1, 3)]}
ACKS = [Ack(0, 0, 0), Ack(0, 1, 2), Ack(0, 2, 4), Ack(1, 0, 1), Ack(1, 1, 3)]


def test_what_is_acknowledged_and_there_is_right() -> None:
    assert judge(ACKS, STORED).is_right
    # A value that nobody acknowledged may be there or not.
    assert judge(ACKS[:-1], STORED).is_right


@pytest.mark.parametrize(
    ("stored", "wrong"),
    [
        ({**STORED, 1: [(0, 1)]}, "lost"),
        ({**STORED, 1: [(0, 1), (1, 3), (2, 1)]}, "duplicated"),
        ({**STORED, 1: [(0, 1), (2, 3)]}, "misplaced"),
        ({0: [(0, 2), (1, 0), (2, 4)], 1: STORED[1]}, "disordered"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_wrong_of_a_log_is_found(stored: dict[int, list[tuple[int, int]]], wrong: str) -> None:
    verdict = judge(ACKS, stored)
    assert not verdict.is_right
    assert getattr(verdict, wrong)


def replica(directory: Path, *, values: int = 6, epochs: str = "0\n2\n0 0\n1 3\n") -> Path:
    """A replica with two segments, two leader epochs, and a producer."""
    directory.mkdir(parents=True)
    for segment in (0, 3):
        data = b"".join(
            build_batch(
                [RecordInput(b"key %d" % (offset % 4), b"%d" % offset, 1)],
                base_offset=offset,
                partition_leader_epoch=int(segment > 0),
                producer_id=9,
                producer_epoch=0,
                base_sequence=offset,
            )
            for offset in range(segment, min(segment + 3, values))
        )
        (directory / f"{segment:020}.log").write_bytes(data)
    (directory / "leader-epoch-checkpoint").write_text(epochs)
    window = pack_batches([WindowBatch(values - 1, values - 1, 0, 1)])
    (directory / f"{values:020}.snapshot").write_bytes(
        snapshot.encode([ProducerEntry(9, 0, -1, 1, None, window)])
    )
    return directory


def flip(directory: Path) -> None:
    log = directory / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)


def cut(directory: Path) -> None:
    (directory / f"{3:020}.log").write_bytes(b"")


def forget_epoch(directory: Path) -> None:
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")


def move_epoch(directory: Path) -> None:
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 4\n")


def harmless_epoch(directory: Path) -> None:
    (directory / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 3\n2 6\n")


def other_segments(directory: Path) -> None:
    both = [directory / f"{first:020}.log" for first in (0, 3)]
    both[0].write_bytes(both[0].read_bytes() + both[1].read_bytes())
    both[1].unlink()


@pytest.mark.parametrize("harm", [flip, cut, forget_epoch, move_epoch])
def test_each_difference_of_replicas_is_found(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    one, other = replica(tmp_path / "1" / "t-0"), replica(tmp_path / "2" / "t-0")
    harm(other)
    assert replica_files.differences({"1": replica_files.read(one), "2": replica_files.read(other)})


@pytest.mark.parametrize("change", [harmless_epoch, other_segments])
def test_what_replicas_may_differ_in_is_no_difference(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """An epoch that a leader began with and that has no batch yet; segments cut elsewhere."""
    one, other = replica(tmp_path / "1" / "t-0"), replica(tmp_path / "2" / "t-0")
    change(other)
    assert replica_files.differences({"1": replica_files.read(one), "2": replica_files.read(other)}) == []


def test_replicas_are_compared_from_the_larger_log_start_on(tmp_path: Path) -> None:
    one, other = replica(tmp_path / "1" / "t-0"), replica(tmp_path / "2" / "t-0", epochs="0\n1\n1 3\n")
    (other / f"{0:020}.log").unlink()
    read = {"1": replica_files.read(one), "2": replica_files.read(other)}
    assert replica_files.differences(read) == []
    (tmp_path / "1" / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    assert replica_files.read(one).log_start == 4


def test_compacted_replicas_are_compared_by_their_contents(tmp_path: Path) -> None:
    one, other = replica(tmp_path / "1" / "t-0"), replica(tmp_path / "2" / "t-0")
    assert not replica_files.content_differences(
        {"1": replica_files.read(one), "2": replica_files.read(other)}
    )
    # Keys 0 and 1 come again at 4 and 5: what was first may be compacted away, what was last may not.
    log = other / f"{0:020}.log"
    batches = replica_files.read(other).batches
    log.write_bytes(b"".join(one.bytes for one in batches[1:3]))
    assert not replica_files.content_differences(
        {"1": replica_files.read(one), "2": replica_files.read(other)}
    )
    log.write_bytes(batches[0].bytes + batches[1].bytes)
    assert replica_files.content_differences({"1": replica_files.read(one), "2": replica_files.read(other)})


def test_producers_are_compared(tmp_path: Path) -> None:
    one, other = replica(tmp_path / "1" / "t-0"), replica(tmp_path / "2" / "t-0")
    both = {"1": one, "2": other}
    assert replica_files.producer_differences(both) == []
    window = pack_batches([WindowBatch(4, 5, 0, 1)])
    (other / f"{6:020}.snapshot").write_bytes(snapshot.encode([ProducerEntry(9, 0, -1, 1, None, window)]))
    assert replica_files.producer_differences(both)
    (other / f"{6:020}.snapshot").unlink()
    with pytest.raises(AssertionError, match="no snapshot for its end 6"):
        replica_files.producer_differences(both)


def test_parts_of_the_campaign_add_up(tmp_path: Path) -> None:
    """A part that went wrong stays on the page with its story."""
    tally = Tally()
    tally.kills["semel, back at once"] = 3
    fine = part("kks", 1, kills=dict(tally.kills), acked=100)
    wrong = part("kss", 1, kills={"kafka, back at once": 2}, acked=50, lost=1, stories=("5 is lost",))
    page = tmp_path / "page.md"
    add(page, [fine])
    add(page, [wrong])
    add(page, [fine])
    text = page.read_text()
    assert "**5 kills in clusters with Semel**: 1 lost, 0 duplicated" in text
    assert "went wrong: 5 is lost" in text
    assert (fine.is_right, wrong.is_right) == (True, False)


def part(
    cluster: str,
    seed: int,
    *,
    kills: dict[str, int],
    acked: int,
    lost: int = 0,
    stories: tuple[str, ...] = (),
) -> Part:
    return Part(
        cluster=cluster,
        seed=seed,
        kills=kills,
        acked=acked,
        seen=acked,
        lost=lost,
        duplicated=0,
        misplaced=0,
        disordered=0,
        differing=0,
        unseen=0,
        errors=0,
        refused_starts=0,
        seconds=1.0,
        commit="c",
        date="d",
        machine="m",
        stories=stories,
    )


def test_a_number_that_its_producer_wrote_again_in_a_new_epoch_is_told_from_a_duplicate(
    tmp_path: Path,
) -> None:
    def stored(base: int, epoch: int, sequence: int, value: int) -> bytes:
        return bytes(
            build_batch(
                [RecordInput(b"k", b"%d" % value, 1)],
                base_offset=base,
                partition_leader_epoch=0,
                producer_id=7,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )

    log = tmp_path / "t-0" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(stored(0, 0, 0, 1) + stored(1, 0, 1, 2) + stored(2, 1, 0, 2))
    assert replica_files.read(log.parent).renewed() == {2}
    log.write_bytes(stored(0, 0, 0, 1) + stored(1, 0, 1, 2) + stored(2, 0, 1, 2))
    files = replica_files.read(log.parent)
    assert files.renewed() == set(), "the same epoch: a duplicate"
    verdict = judge([Ack(0, 2, 2)], {0: as_stored(files.records())})
    assert verdict.without(files.renewed()) == verdict
    assert not verdict.is_right
    assert verdict.without({2}).is_right
