"""A broker and idempotent clients through everything that goes wrong: nothing is lost, doubled or out of order.

Method: whole worlds on the simulated runtime, each from one integer. Fixed seeds keep what holds, random ones look for what
does not; a failing seed is printed with its story and fails again, alone: `semel.verify.scenarios.produce.run(seed)`.
Then the broker is broken on purpose, one promise at a time, and the judgement must notice within a few seeds.
"""

from dataclasses import replace
from typing import Any

import pytest

import story_digests
from semel.broker.partitions import Partition, Partitions
from semel.broker.producer_ids import BLOCK_SIZE, ProducerIds
from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import APPEND, Duplicate, ProducerWindow, Verdict
from semel.core.records.batch import BatchHeader
from semel.log import reading
from semel.log.partition_log import Appended, AppendResult, PartitionLog
from semel.verify.scenarios import produce
from story_kit import Break, must_be_noticed, must_be_reproduced, run_random_seeds, run_seeds

_CHUNK = 20
_FIXED = 120
_RANDOM = 20
_SEEDS_TO_FIND_IT = 60


@pytest.mark.parametrize("first", range(0, _FIXED, _CHUNK))
def test_fixed_seeds(first: int) -> None:
    run_seeds(produce.run, first, _CHUNK)


# Each of these once showed a flaw, of the broker or of the log below it.
@pytest.mark.parametrize(
    ("seed", "what"),
    [
        (836, "a topic made again took over the log of the one before, whose deletion the disk had refused"),
        (1071, "the same, found by a kill"),
        (10040, "a log that had failed a sync was synced again, and believed"),
    ],
)
def test_seeds_that_once_failed(seed: int, what: str) -> None:
    produce.run(seed)


def test_random_seeds() -> None:
    run_random_seeds(produce.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("produce", 17)


def test_other_seeds_are_other_runs() -> None:
    assert len({story_digests.digests("produce", seed) for seed in range(3)}) == 3


# Broken on purpose


def _judges_nothing(patch: pytest.MonkeyPatch) -> None:
    def judge(self: ProducerState, header: BatchHeader, **_: Any) -> Verdict:
        return APPEND

    patch.setattr(ProducerState, "judge", judge)


def _takes_any_sequence(patch: pytest.MonkeyPatch) -> None:
    """Duplicates are known, but a gap is not seen: what comes early is stored early."""
    patch.setattr(ProducerWindow, "_out_of_order", lambda *_: None)


def _answers_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    async def settle(self: Partition, end_offset: int) -> None:
        self._show(end_offset)

    patch.setattr(Partition, "settle", settle)


def _drops_a_batch_it_acknowledged(patch: pytest.MonkeyPatch) -> None:
    append = Partition.append

    def forgetful(self: Partition, data: bytearray, **more: bool) -> AppendResult:
        result = append(self, data, **more)
        if isinstance(result, Appended) and result.base_offset % 5 == 4:
            self.log.truncate_to(result.base_offset, 0)
        return result

    patch.setattr(Partition, "append", forgetful)


def _forgets_producers_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    lead = Partitions.lead

    def forgetful(self: Partitions) -> None:
        lead(self)
        for partition in self:
            partition.log.producers.clear(partition.log.log_end_offset)

    patch.setattr(Partitions, "lead", forgetful)


def _gives_producer_ids_again(patch: pytest.MonkeyPatch) -> None:
    build = ProducerIds.__init__

    def from_the_start(self: ProducerIds, store: Any) -> None:
        build(self, store)
        self._end = BLOCK_SIZE

    patch.setattr(ProducerIds, "__init__", from_the_start)


def _answers_a_duplicate_with_another_offset(patch: pytest.MonkeyPatch) -> None:
    find = ProducerWindow._find

    def shifted(self: ProducerWindow, first_sequence: int, last_sequence: int) -> Duplicate | None:
        found = find(self, first_sequence, last_sequence)
        return None if found is None else replace(found, base_offset=found.base_offset + 1)

    patch.setattr(ProducerWindow, "_find", shifted)


def _shows_what_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    read = reading.read

    def all_of_it(log: PartitionLog, offset: int, **more: Any) -> reading.LogSlice | None:
        more["upper_bound"] = log.log_end_offset
        return read(log, offset, **more)

    patch.setattr(reading, "read", all_of_it)


def _keeps_the_log_of_a_deleted_topic(patch: pytest.MonkeyPatch) -> None:
    def delete(self: Partitions, topic: str) -> None:
        for partition in self.of_topic(topic):
            self._directory.topic_ids.pop(partition.log.topic_partition)
        self._by_topic.pop(topic, None)

    patch.setattr(Partitions, "delete", delete)


def _refuses_everybody_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """No promise about records is broken by a broker that takes none; the bound on settling is."""
    lead = Partitions.lead

    def stuck(self: Partitions) -> None:
        lead(self)
        for partition in self:
            partition.log.offline = "for ever"

    patch.setattr(Partitions, "lead", stuck)


@pytest.mark.parametrize(
    ("break_it", "noticed", "first"),
    [
        (_judges_nothing, "stored twice", 0),
        (_takes_any_sequence, "was given before what lies before it|stored twice", 280),
        (_answers_before_the_sync, "synced before it is shown", 0),
        (_drops_a_batch_it_acknowledged, "was told", 0),
        (_forgets_producers_at_a_restart, "are not what they were", 0),
        (_gives_producer_ids_again, "was given to", 0),
        (_answers_a_duplicate_with_another_offset, "was told", 0),
        (_shows_what_is_not_synced, "readers may see up to", 0),
        (_keeps_the_log_of_a_deleted_topic, "earlier topic of that name", 0),
        (_refuses_everybody_after_a_restart, "after it was calm", 0),
    ],
)
def test_a_broken_broker_is_found(
    break_it: Break, noticed: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    must_be_noticed(produce.run, noticed, range(first, first + _SEEDS_TO_FIND_IT))
