"""A broker and a producer that keep records wrongly: copies, gaps, losses, early answers.

Role.   Mutations found by `scenarios.produce` and, where the log is at fault, by the stories of one log and one disk.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from semel.broker.partitions import Partitions
from semel.broker.producer_ids import BLOCK_SIZE, ProducerIds
from semel.broker.replicas.led_partition import LedPartition
from semel.cluster.standalone import StandaloneStore
from semel.core.idempotence import producer_window, sequence
from semel.core.idempotence.in_flight import InFlight
from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import APPEND, Duplicate, ProducerWindow, Verdict
from semel.core.metadata.rows import TopicRow
from semel.core.records.batch import BatchHeader
from semel.errors import ErrorCode
from semel.log import reading
from semel.log.partition_log import Appended, AppendResult, PartitionLog
from semel.types import TopicPartition
from semel.verify.mutations.mutation import Mutation, Patch


def _judges_nothing(patch: Patch) -> None:
    patch.setattr(ProducerState, "judge", lambda *_, **_more: APPEND)


def _takes_any_sequence(patch: Patch) -> None:
    """Duplicates are known, but a gap is not seen: a batch that comes early is stored early."""
    patch.setattr(ProducerWindow, "_out_of_order", lambda *_: None)


def _answers_before_the_sync(patch: Patch) -> None:
    async def visible(self: LedPartition, end_offset: int) -> ErrorCode:
        self.durable_offset = end_offset
        self._show()
        return ErrorCode.NONE

    patch.setattr(LedPartition, "_visible", visible)


def _drops_a_batch_it_acknowledged(patch: Patch) -> None:
    append = LedPartition.append

    def forgetful(self: LedPartition, data: bytearray, **more: Any) -> AppendResult:
        result = append(self, data, **more)
        if isinstance(result, Appended) and result.base_offset % 5 == 4:
            self.log.truncate_to(result.base_offset, 0)
        return result

    patch.setattr(LedPartition, "append", forgetful)


def _forgets_producers_at_a_restart(patch: Patch) -> None:
    feed = StandaloneStore.feed

    async def forgetful(self: StandaloneStore, applier: Any) -> Any:
        failed = await feed(self, applier)
        for partition in applier.partitions:
            partition.log.producers.clear(partition.log.log_end_offset)
        return failed

    patch.setattr(StandaloneStore, "feed", forgetful)


def _gives_producer_ids_again(patch: Patch) -> None:
    build = ProducerIds.__init__

    def from_the_start(self: ProducerIds, store: Any) -> None:
        build(self, store)
        self._end = BLOCK_SIZE

    patch.setattr(ProducerIds, "__init__", from_the_start)


def _answers_a_duplicate_with_another_offset(patch: Patch) -> None:
    find = ProducerWindow._find

    def shifted(self: ProducerWindow, first_sequence: int, last_sequence: int) -> Duplicate | None:
        found = find(self, first_sequence, last_sequence)
        return None if found is None else replace(found, base_offset=found.base_offset + 1)

    patch.setattr(ProducerWindow, "_find", shifted)


def _shows_what_is_not_synced(patch: Patch) -> None:
    read = reading.read

    def all_of_it(log: PartitionLog, offset: int, **more: Any) -> reading.LogSlice | None:
        more["upper_bound"] = log.log_end_offset
        return read(log, offset, **more)

    patch.setattr(reading, "read", all_of_it)


def _keeps_the_log_of_a_deleted_topic(patch: Patch) -> None:
    def take_out(self: Partitions, rows: Sequence[TopicRow]) -> list[TopicPartition]:
        for row in rows:
            for partition in self.of_topic(row.name):
                self._directory.topic_ids.pop(partition.log.topic_partition)
            self._by_topic.pop(row.name, None)
        return []

    patch.setattr(Partitions, "take_out", take_out)


def _refuses_everybody_after_a_restart(patch: Patch) -> None:
    """No promise about records is broken by a broker that takes none; the bound on settling is."""
    feed = StandaloneStore.feed

    async def stuck(self: StandaloneStore, applier: Any) -> Any:
        failed = await feed(self, applier)
        for partition in applier.partitions:
            partition.log.offline = "for ever"
        return failed

    patch.setattr(StandaloneStore, "feed", stuck)


def _keeps_four_batches(patch: Patch) -> None:
    """A fifth request in flight that is sent again is not known any more."""
    patch.setattr(producer_window, "WINDOW_BATCHES_MAX", 4)
    patch.setattr(producer_window, "_WINDOW_BYTES_MAX", 4 * producer_window.BATCH.size)


def _takes_batches_of_older_epochs(patch: Patch) -> None:
    """A batch that comes late, from before its producer began again, is stored."""
    judge = ProducerWindow.judge

    def trusting(self: ProducerWindow, header: BatchHeader, **more: Any) -> Verdict:
        return APPEND if header.producer_epoch < self.producer_epoch else judge(self, header, **more)

    patch.setattr(ProducerWindow, "judge", trusting)


def _shows_everything_at_once(patch: Patch) -> None:
    """The high watermark is the log's end, whatever is synced."""
    advance = PartitionLog.advance_high_watermark
    append = LedPartition.append

    def hasty(self: LedPartition, data: bytearray, **more: Any) -> AppendResult:
        result = append(self, data, **more)
        advance(self.log, self.log.log_end_offset)
        return result

    patch.setattr(LedPartition, "append", hasty)


def _numbers_a_retry_anew(patch: Patch) -> None:
    """A producer that sends a batch again gives it the next sequence, not the one it had."""
    next_of = InFlight._next

    def anew(self: InFlight[Any], lane: Any, now_ms: int) -> Any:
        batch = next_of(self, lane, now_ms)
        if batch is not None and batch.attempts:
            batch.base_sequence = lane.next_sequence
            lane.next_sequence = sequence.increment(lane.next_sequence, batch.records_count)
        return batch

    patch.setattr(InFlight, "_next", anew)


MUTATIONS: Final = (
    Mutation(
        "no duplicate is known",
        "a batch that is sent again is stored once",
        _judges_nothing,
        "produce",
        "stored twice",
        range(60),
        quick=True,
    ),
    Mutation(
        "a window of four batches",
        "five requests of a producer may be in flight",
        _keeps_four_batches,
        "bursts",
        "refused as out of order",
        range(60),
        quick=True,
    ),
    Mutation(
        "gaps are not seen",
        "a producer's records lie in their order",
        _takes_any_sequence,
        "bursts",
        "was given before what lies before it|stored twice",
        range(60),
        quick=True,
    ),
    Mutation(
        "a batch of an older epoch is taken",
        "what comes late, from before its producer began again, is refused",
        _takes_batches_of_older_epochs,
        "bursts",
        "was given before what lies before it|stored twice",
        range(60),
        quick=True,
    ),
    Mutation(
        "answered before the sync",
        "what was acknowledged, where each answer waits for the disk, outlives a power cut",
        _answers_before_the_sync,
        "produce",
        "synced before it is shown",
        range(60),
    ),
    Mutation(
        "acknowledged and not stored",
        "what was acknowledged is there",
        _drops_a_batch_it_acknowledged,
        "produce",
        "was told",
        range(60),
        quick=True,
    ),
    Mutation(
        "producers forgotten at a restart",
        "a retry is known after a restart, too",
        _forgets_producers_at_a_restart,
        "produce",
        "are not what they were",
        range(60),
        quick=True,
    ),
    Mutation(
        "producer ids given again",
        "a producer id is given once",
        _gives_producer_ids_again,
        "produce",
        "was given to",
        range(60),
    ),
    Mutation(
        "a duplicate answered with another offset",
        "a retry is told the offset of the first copy",
        _answers_a_duplicate_with_another_offset,
        "produce",
        "was told",
        range(60),
        quick=True,
    ),
    Mutation(
        "the high watermark ahead of the disk",
        "nobody is shown what a power cut takes back",
        _shows_everything_at_once,
        "produce",
        "synced before it is shown",
        range(60),
    ),
    Mutation(
        "read beyond the high watermark",
        "readers see nothing above the high watermark",
        _shows_what_is_not_synced,
        "produce",
        "readers may see up to",
        range(60),
        quick=True,
    ),
    Mutation(
        "a deleted topic's log is kept",
        "a topic made again is empty",
        _keeps_the_log_of_a_deleted_topic,
        "produce",
        "earlier topic of that name",
        range(60),
        quick=True,
    ),
    Mutation(
        "nothing is taken after a restart",
        "the broker serves again, in time",
        _refuses_everybody_after_a_restart,
        "produce",
        "after it was calm",
        range(60),
    ),
    Mutation(
        "a retry with a new sequence",
        "a producer sends again under the sequence it used",
        _numbers_a_retry_anew,
        "produce",
        "stored twice",
        range(60),
        quick=True,
    ),
)
