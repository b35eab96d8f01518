"""A log that trusts its disk, forgets to write, or cleans away what it must keep.

Role.   Mutations found by `scenarios.log_crash` and `scenarios.compaction_crash`: one log on a disk that loses and tears writes.
"""

from typing import Any, Final

from semel.core.records.batch import BatchHeader
from semel.core.records.key_offsets import empty_batch
from semel.log import recovery
from semel.log.compaction import cleaning
from semel.log.flush_job import FlushJob
from semel.log.snapshots import Snapshots
from semel.verify.mutations.mutation import Mutation, Patch


def _trusts_what_it_finds(patch: Patch) -> None:
    """After a power cut, a batch of which a part is missing is taken for whole."""
    patch.setattr(recovery, "_check_batch", lambda *_: None)


def _syncs_nothing(patch: Patch) -> None:
    """A sync that was asked for is reported, and not made."""
    patch.setattr(FlushJob, "run", lambda _self: None)


def _loses_snapshots(patch: Patch) -> None:
    """A restart forgets the state of producers whose batches are deleted by now."""
    patch.setattr(Snapshots, "load_newest", lambda *_, **_more: None)


def _cleans_away_the_latest(patch: Patch) -> None:
    """A cleaning empties some batches, the latest of their keys included."""
    data_of = cleaning._Sieve._data

    def careless(self: cleaning._Sieve, header: BatchHeader, data: memoryview, piece: Any) -> Any:
        kept = data_of(self, header, data, piece)
        return empty_batch(header) if kept is not None and header.base_offset % 7 == 3 else kept

    patch.setattr(cleaning._Sieve, "_data", careless)


MUTATIONS: Final = (
    Mutation(
        "torn batches taken for whole",
        "what a power cut left half written is cut off",
        _trusts_what_it_finds,
        "log_crash",
        "are not those appended",
        range(60),
        quick=True,
    ),
    Mutation(
        "syncs that are none",
        "what was synced outlives a power cut",
        _syncs_nothing,
        "log_crash",
        "was promised",
        range(60),
        quick=True,
    ),
    Mutation(
        "snapshots lost",
        "producers are known though their batches are deleted",
        _loses_snapshots,
        "log_crash",
        "producers are",
        range(60),
        quick=True,
    ),
    Mutation(
        "the latest record cleaned away",
        "compaction keeps the latest record of every key",
        _cleans_away_the_latest,
        "compaction_crash",
        "the latest of",
        range(60),
        quick=True,
    ),
)
