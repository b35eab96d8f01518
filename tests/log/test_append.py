"""Appending: a batch is stored once and numbered, a repeat is answered, a bad one leaves nothing behind.

Method: small logs on a disk in memory; every refusal is followed by the question whether anything changed.
"""

import errno
import logging
import random
from collections.abc import Callable

import pytest

from semel.core.idempotence.producer_window import Duplicate
from semel.core.records import batch
from semel.core.records.batch import TimestampType, read_header
from semel.core.records.build import RecordInput, build_batch, iter_records
from semel.core.records.control import build_marker
from semel.errors import ErrorCode, OffsetOutOfRangeError, Refuse
from semel.log import reading
from semel.log.config import LogConfig
from semel.log.partition_log import Appended, PartitionLog
from support.log.log_kit import NOW, batch_of, content, disk, end, file_bytes, open_at, records, send

WORDS = [b"event", b"count", b"exactly", b"once", b"partition", b"offset", b"producer", b"epoch", b"commit"]


def test_batches_are_numbered_one_after_the_other() -> None:
    log = open_at(disk())
    assert send(log, batch_of(b"a", b"b", b"c")) == Appended(0, 2, -1)
    assert send(log, batch_of(b"d")) == Appended(3, 3, -1)
    stored = [header for _position, header in batch.headers(content(log))]
    assert [(h.base_offset, h.last_offset, h.partition_leader_epoch) for h in stored] == [
        (0, 2, 0),
        (3, 3, 0),
    ]


@pytest.mark.mission("IDEM-21", "R-01")
def test_a_repeat_of_any_of_the_last_five_batches_gets_its_first_offset() -> None:
    log = open_at(disk())
    sent = [batch_of(b"x", b"y", producer_id=7, sequence=2 * n, timestamp_ms=NOW + n) for n in range(6)]
    first = [send(log, data) for data in sent]
    before = content(log)
    for n in range(1, 6):
        repeated = send(log, sent[n])
        assert isinstance(repeated, Duplicate)
        assert isinstance(appended := first[n], Appended)
        assert (repeated.base_offset, repeated.last_offset) == (appended.base_offset, appended.last_offset)
        assert repeated.timestamp_ms == NOW + n
    assert content(log) == before
    assert log.duplicates_dropped == 5


@pytest.mark.mission("IDEM-02")
def test_a_hundred_repeats_leave_one_copy_and_equal_answers() -> None:
    log = open_at(disk())
    data = batch_of(b"transfer", producer_id=7)
    answers = [send(log, data) for _ in range(100)]
    assert {(a.base_offset, a.last_offset) for a in answers if isinstance(a, Appended | Duplicate)} == {
        (0, 0)
    }
    assert len([a for a in answers if isinstance(a, Duplicate)]) == 99
    assert log.log_end_offset == 1


@pytest.mark.mission("IDEM-23")
def test_trap_2_a_gap_or_a_batch_older_than_the_window_is_refused_and_not_stored() -> None:
    log = open_at(disk())
    sent = [batch_of(b"x", producer_id=7, sequence=n) for n in range(7)]
    for data in sent:
        send(log, data)
    before = file_bytes(log._files)
    for data in (batch_of(b"x", producer_id=7, sequence=27), sent[0], sent[1]):
        refused = send(log, data)
        assert isinstance(refused, Refuse)
        assert refused.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert file_bytes(log._files) == before
    assert log.log_end_offset == 7


@pytest.mark.mission("IDEM-27")
def test_trap_6_a_lower_epoch_is_fenced_and_nothing_changes() -> None:
    log = open_at(disk())
    send(log, batch_of(b"new", producer_id=123, epoch=1, sequence=0))
    send(log, batch_of(b"new", b"new", b"new", producer_id=123, epoch=1, sequence=1))
    before = (content(log), log.producers.entries())
    refused = send(log, batch_of(b"old", producer_id=123, epoch=0, sequence=5))
    assert isinstance(refused, Refuse)
    assert refused.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (content(log), log.producers.entries()) == before


@pytest.mark.mission("IDEM-39")
def test_the_story_of_producer_123_and_sequence_100() -> None:
    """Send (123, 100): not known, stored and remembered. Send it again: found, dropped, answered alike."""
    log = open_at(disk())
    for n in range(100):
        send(log, batch_of(b"x", producer_id=123, sequence=n))
    stored = send(log, batch_of(b"pay", producer_id=123, sequence=100))
    again = send(log, batch_of(b"pay", producer_id=123, sequence=100))
    assert isinstance(stored, Appended)
    assert isinstance(again, Duplicate)
    assert (again.base_offset, again.last_offset) == (stored.base_offset, stored.last_offset) == (100, 100)
    assert log.log_end_offset == 101


@pytest.mark.mission("IDEM-09", "IDEM-11", "EX-14")
def test_equal_content_is_not_a_repeat() -> None:
    """The same record sent twice by the application, or by two producers, is two records."""
    log = open_at(disk())
    send(log, batch_of(b"r", producer_id=1, sequence=0))
    send(log, batch_of(b"r", producer_id=1, sequence=1))
    send(log, batch_of(b"r", producer_id=2, sequence=0))
    stored = [header for _position, header in batch.headers(content(log))]
    assert [(h.producer_id, h.base_sequence) for h in stored] == [(1, 0), (1, 1), (2, 0)]


@pytest.mark.mission("PST-11", "MET-08")
def test_a_producer_unknown_on_an_empty_partition_is_accepted_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = open_at(disk())
    with caplog.at_level(logging.WARNING, "semel.log"):
        assert isinstance(send(log, batch_of(b"x", producer_id=9, sequence=500)), Appended)
        assert isinstance(send(log, batch_of(b"x", producer_id=9, sequence=501)), Appended)
    assert [record.getMessage() for record in caplog.records] == [
        "orders-0: unknown producer 9 continues at sequence 500; accepted, its state starts with this batch"
    ]
    assert 9 in log.producers


def test_trap_4_deleting_records_forgets_no_producer() -> None:
    log = open_at(disk())
    for n in range(3):
        send(log, batch_of(b"x", producer_id=7, sequence=n))
    log.advance_log_start(3)
    assert isinstance(send(log, batch_of(b"x", producer_id=7, sequence=2)), Duplicate)
    assert send(log, batch_of(b"x", producer_id=7, sequence=3)) == Appended(3, 3, -1)


@pytest.mark.mission("PST-03")
def test_judging_and_appending_read_nothing_from_disk() -> None:
    files = disk()
    log = open_at(files)
    send(log, batch_of(b"x", producer_id=7, sequence=0))
    before = files.counters.reads
    for n in range(1, 50):
        send(log, batch_of(b"x", producer_id=7, sequence=n))
        send(log, batch_of(b"x", producer_id=7, sequence=n))
    assert files.counters.reads == before


def stamped(timestamp_type: TimestampType) -> bytearray:
    return build_batch(records(b"x"), timestamp_type=timestamp_type, log_append_time_ms=NOW)


def damaged(*positions: int) -> bytearray:
    data = batch_of(b"some value")
    for position in positions or (-3,):
        data[position] ^= 0x20
    return data


def with_header(**changes: int) -> bytearray:
    """A batch whose header lies, its checksum made good again."""
    data = batch_of(b"a", b"b")
    batch.write_header(data, 0, read_header(data)._replace(**changes))
    batch.set_crc(data, 0, len(data))
    return data


VALIDATION: list[tuple[str, Callable[[], bytearray], ErrorCode]] = [
    ("a damaged byte", damaged, ErrorCode.CORRUPT_MESSAGE),
    ("old message format", lambda: with_header(magic=1), ErrorCode.INVALID_RECORD),
    ("too few bytes", lambda: batch_of(b"abc")[:40], ErrorCode.INVALID_RECORD),
    ("a cut-off batch", lambda: batch_of(b"abc")[:-1], ErrorCode.INVALID_RECORD),
    ("two batches", lambda: batch_of(b"a") + batch_of(b"b"), ErrorCode.INVALID_RECORD),
    ("a count that is too high", lambda: with_header(records_count=3), ErrorCode.INVALID_RECORD),
    ("a count damaged on the way", lambda: damaged(17, 57), ErrorCode.CORRUPT_MESSAGE),
    ("a flag damaged on the way", lambda: damaged(22), ErrorCode.CORRUPT_MESSAGE),
    ("offsets that skip", lambda: with_header(last_offset_delta=7), ErrorCode.INVALID_RECORD),
    ("no records", lambda: with_header(records_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    (
        "fewer records than bytes",
        lambda: with_header(records_count=1, last_offset_delta=0),
        ErrorCode.INVALID_RECORD,
    ),
    ("an offset of its own", lambda: with_header(base_offset=5), ErrorCode.INVALID_RECORD),
    ("a negative sequence", lambda: with_header(producer_id=1, producer_epoch=0), ErrorCode.INVALID_RECORD),
    ("the broker's timestamps", lambda: stamped(TimestampType.LOG_APPEND_TIME), ErrorCode.INVALID_TIMESTAMP),
    ("an unknown codec", lambda: with_header(attributes=6), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (
        "a marker",
        lambda: build_marker(
            producer_id=1, producer_epoch=0, coordinator_epoch=0, commit=True, timestamp_ms=NOW
        ),
        ErrorCode.INVALID_RECORD,
    ),
    ("too many bytes", lambda: batch_of(b"x" * 2000), ErrorCode.MESSAGE_TOO_LARGE),
    ("tomorrow", lambda: batch_of(b"x", timestamp_ms=NOW + 86_400_000), ErrorCode.INVALID_TIMESTAMP),
]


@pytest.mark.parametrize(("what", "make", "code"), VALIDATION, ids=[what for what, *_ in VALIDATION])
def test_trap_28_a_batch_that_is_not_right_is_refused_by_name(
    what: str, make: Callable[[], bytearray], code: ErrorCode
) -> None:
    log = open_at(disk(), LogConfig(max_message_bytes=1000))
    send(log, batch_of(b"before"))
    before = content(log)
    refused = send(log, make())
    assert isinstance(refused, Refuse), what
    assert refused.code is code, refused.reason
    assert content(log) == before


def test_a_compacted_topic_needs_keys() -> None:
    log = open_at(disk(), LogConfig(cleanup_compact=True))
    refused = send(log, build_batch([RecordInput(key=b"k", value=b"v"), RecordInput(key=None, value=b"v")]))
    assert isinstance(refused, Refuse)
    assert refused.code is ErrorCode.INVALID_RECORD
    assert "record 1 has no key" in refused.reason


def test_a_refusal_names_every_record_at_fault() -> None:
    """As Kafka's does: a wrong time of one decides the code, and a record counts once."""
    log = open_at(disk(), LogConfig(cleanup_compact=True, message_timestamp_before_max_ms=1000))
    keyless, old, good = (None, NOW), (b"k", NOW - 2000), (b"k", NOW)
    stories: list[tuple[list[tuple[bytes | None, int]], ErrorCode, list[int]]] = [
        ([good, keyless, good, keyless], ErrorCode.INVALID_RECORD, [1, 3]),
        ([good, old], ErrorCode.INVALID_TIMESTAMP, [1]),
        ([keyless, old, (None, NOW - 2000)], ErrorCode.INVALID_TIMESTAMP, [0, 1, 2]),
    ]
    for sent, code, indexes in stories:
        for codec in (0, 1):
            data = build_batch([RecordInput(key, b"v", at_ms) for key, at_ms in sent], compression=codec)
            refused = send(log, data)
            assert isinstance(refused, Refuse)
            assert refused.code is code
            assert [index for index, _why in refused.record_errors] == indexes
            assert all(why.startswith("the record has ") for _index, why in refused.record_errors)
    assert log.log_end_offset == 0


def test_timestamps_too_old_are_refused_where_the_topic_says_so() -> None:
    log = open_at(disk(), LogConfig(message_timestamp_before_max_ms=1000))
    refused = send(log, batch_of(b"x", timestamp_ms=NOW - 1001))
    assert isinstance(refused, Refuse)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(send(log, batch_of(b"x", timestamp_ms=NOW - 1000)), Appended)
    assert isinstance(send(log, batch_of(b"x", timestamp_ms=-1)), Appended)


def test_a_topic_on_append_time_is_stamped_by_the_broker() -> None:
    log = open_at(disk(), LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert send(log, batch_of(b"a", b"b", timestamp_ms=5), now_ms=NOW + 77) == Appended(0, 1, NOW + 77)
    data = content(log)
    header = read_header(data)
    batch.check_crc(data, 0, header)
    assert [record.timestamp_ms for record in iter_records(data, 0, header)] == [NOW + 77, NOW + 77]


def test_a_header_that_lies_about_its_largest_timestamp_is_corrected() -> None:
    log = open_at(disk())
    send(log, with_header(max_timestamp=NOW - 500))
    data = content(log)
    header = read_header(data)
    batch.check_crc(data, 0, header)
    assert header.max_timestamp == NOW


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_topic_with_a_codec_of_its_own_recompresses(codec: int) -> None:
    log = open_at(disk(), LogConfig(compression_type=codec))
    send(log, batch_of(b"a" * 300, b"b" * 300))
    data = content(log)
    header = read_header(data)
    batch.check_crc(data, 0, header)
    assert header.compression == codec
    assert [record.value for record in iter_records(data, 0, header)] == [b"a" * 300, b"b" * 300]


@pytest.mark.parametrize(("codec", "easy", "hard"), [(1, 1, 9), (3, 1, 12), (4, 1, 19)])
def test_a_topic_says_how_hard_to_compress(codec: int, easy: int, hard: int) -> None:
    words = random.Random(1)
    values = [b" ".join(words.choice(WORDS) for _ in range(20)) for _ in range(300)]
    sizes = []
    for level in (easy, hard):
        log = open_at(disk(), LogConfig(compression_type=codec, compression_level=level))
        send(log, batch_of(*values))
        header = read_header(content(log))
        assert [record.value for record in iter_records(content(log), 0, header)] == values
        sizes.append(header.size_bytes)
    assert sizes[1] < sizes[0]


def test_trap_28_the_size_limit_holds_after_recompression() -> None:
    packed = batch_of(b"a" * 5000, compression=4)
    log = open_at(disk(), LogConfig(compression_type=0, max_message_bytes=len(packed)))
    refused = send(log, packed)
    assert isinstance(refused, Refuse)
    assert refused.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "after recompression" in refused.reason


def test_the_segment_limit_holds_after_recompression() -> None:
    packed = batch_of(b"a" * 5000, compression=4)
    log = open_at(disk(), LogConfig(compression_type=0, segment_bytes=len(packed)))
    refused = send(log, packed)
    assert isinstance(refused, Refuse)
    assert refused.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


def test_a_full_disk_refuses_and_leaves_the_log_as_it_was() -> None:
    files = disk()
    log = open_at(files)
    send(log, batch_of(b"a", producer_id=7, sequence=0))
    before = content(log)
    files.fill_after(30)
    refused = send(log, batch_of(b"b" * 100, producer_id=7, sequence=1))
    assert isinstance(refused, Refuse)
    assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert content(log) == before
    files.clear_faults()
    assert send(log, batch_of(b"b" * 100, producer_id=7, sequence=1)) == Appended(1, 1, -1)


def test_a_failed_write_that_cannot_be_undone_takes_the_log_offline() -> None:
    files = disk()
    log = open_at(files)
    send(log, batch_of(b"a"))
    files.fill_after(30)
    files.fail("truncate", errno.EIO)
    assert isinstance(send(log, batch_of(b"b" * 100)), Refuse)
    files.clear_faults()
    later = send(log, batch_of(b"c"))
    assert isinstance(later, Refuse)
    assert later.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "offline: an append failed" in later.reason
    again = open_at(files, clean=False)
    assert batches_at(again) == [0]


def test_trap_23_a_failed_sync_is_never_taken_for_done() -> None:
    """After a failed fsync the system may have dropped the pages: a second, successful one proves nothing."""
    files = disk()
    log = open_at(files, LogConfig(flush_messages=1))
    send(log, batch_of(b"a"))
    files.fail("sync", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        log.flush(NOW)
    assert log.recovery_point == 0
    refused = send(log, batch_of(b"b"))
    assert isinstance(refused, Refuse)
    assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_reading_outside_of_the_log_is_said_so() -> None:
    log = open_at(disk())
    send(log, batch_of(b"a", b"b"))
    for offset in (-1, 3):
        with pytest.raises(OffsetOutOfRangeError, match=r"outside of \[0, 2\]"):
            reading.read(log, offset, max_bytes=10, upper_bound=2)
    assert reading.read(log, 2, max_bytes=10, upper_bound=2) is None


def test_trap_32_the_first_batch_is_whole_however_large_and_may_begin_before_the_offset() -> None:
    log = open_at(disk())
    send(log, batch_of(b"a" * 500, b"b" * 500))
    send(log, batch_of(b"c"))
    piece = reading.read(log, 1, max_bytes=1, upper_bound=3)
    assert piece is not None
    assert [h.base_offset for _p, h in batch.headers(piece.read())] == [0]
    small = reading.read(log, 1, max_bytes=1, upper_bound=3, whole_first_batch=False)
    assert small is None, "bytes without one whole batch are none, as in Kafka"


def test_nothing_at_or_above_the_bound_is_read() -> None:
    log = open_at(disk())
    for n in range(5):
        send(log, batch_of(b"x%d" % n, b"y"))
    for bound in range(0, 11, 2):
        piece = reading.read(log, 0, max_bytes=1 << 20, upper_bound=bound)
        read = [] if piece is None else [h.last_offset for _p, h in batch.headers(piece.read())]
        assert read == list(range(1, bound, 2))


def test_a_follower_takes_batches_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    leader = open_at(disk(1))
    for n in range(4):
        send(leader, batch_of(b"x", producer_id=7, sequence=n), leader_epoch=n // 2)
    end(leader, 7, commit=True)
    follower = open_at(disk(2))
    data = content(leader)
    assert follower.append_as_follower(data[:-5], NOW) is None
    assert follower.log_end_offset == 4
    assert follower.append_as_follower(data[len(content(follower)) :], NOW) is None
    assert content(follower) == data
    assert follower.leader_epochs.entries == leader.leader_epochs.entries
    assert follower.producers.entries() == leader.producers.entries()


def batches_at(log: PartitionLog) -> list[int]:
    return [header.base_offset for _position, header in batch.headers(content(log))]


def test_trap_25_truncation_takes_producers_epochs_and_aborts_along() -> None:
    log = open_at(disk(), LogConfig(segment_bytes=250))
    for n in range(6):
        send(log, batch_of(b"x" * 30, producer_id=7, sequence=n, transactional=True), leader_epoch=n)
    end(log, 7, commit=False, leader_epoch=6)
    assert len(log.segments) > 2
    assert reading.aborted_transactions(log, 0, 7)
    log.truncate_to(3, NOW)
    assert batches_at(log) == [0, 1, 2]
    assert [entry.start_offset for entry in log.leader_epochs.entries] == [0, 1, 2]
    assert reading.aborted_transactions(log, 0, 7) == []
    assert log.last_stable_offset == 0
    assert log.high_watermark == 3
    assert send(log, batch_of(b"other", producer_id=7, sequence=3, transactional=True)) == Appended(3, 3, -1)
    log.truncate_fully_and_start_at(100, NOW)
    assert (log.log_start_offset, log.log_end_offset, len(log.producers)) == (100, 100, 0)
    assert send(log, batch_of(b"x")) == Appended(100, 100, -1)


def test_a_cut_at_the_logs_end_takes_an_epoch_along_that_wrote_nothing() -> None:
    """A leader of one epoch follows: its own epoch is unknown to the next leader, and asking about it would never end."""
    log = open_at(disk())
    send(log, batch_of(b"x"), leader_epoch=3)
    log.leader_epochs.assign(4, log.log_end_offset)
    log.truncate_to(log.log_end_offset, NOW)
    assert [(entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries] == [(3, 0)]
    assert (log.log_end_offset, log.truncations) == (1, 0)


def test_a_log_cut_below_its_start_begins_where_it_ends() -> None:
    log = open_at(disk())
    for n in range(6):
        send(log, batch_of(b"x", producer_id=7, sequence=n))
    log.advance_log_start(5)
    log.truncate_to(3, NOW)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (3, 3, 3)
    assert send(log, batch_of(b"other", producer_id=7, sequence=3)) == Appended(3, 3, -1)
    assert batches_at(log) == [3]


def test_a_log_cut_back_to_its_first_batch_knows_the_producers_of_those_before_it() -> None:
    log = open_at(disk(), LogConfig(segment_bytes=250))
    for n in range(8):
        send(log, batch_of(b"x" * 60, producer_id=7, sequence=n))
    log.advance_log_start(4)
    assert log.delete_old_segments(NOW) > 0
    first = log.segments[0].base_offset
    log.truncate_to(first, NOW)
    assert (log.log_end_offset, [segment.base_offset for segment in log.segments]) == (first, [first])
    assert isinstance(send(log, batch_of(b"x" * 60, producer_id=7, sequence=first - 1)), Duplicate)
    assert send(log, batch_of(b"other", producer_id=7, sequence=first)) == Appended(first, first, -1)
