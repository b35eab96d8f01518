"""Leader epochs as a list: which leader wrote an offset, and where each of them ended.

Role.   The questions that find where two logs part (KIP-101, KIP-279); pure, over the entries of one log.
Flow.   `log.leader_epochs` keeps the entries and their file. A leader answers OffsetForLeaderEpoch and Fetch by `epoch_end`; a
        follower asks the same of its own entries before it cuts its log (`following.truncation`).
Rules.  * Epochs and start offsets of the entries rise together.
        * An epoch ends where the next larger one begins; the latest ends with the log.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from semel.types import NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET


class EpochStart(NamedTuple):
    """The first offset a leader epoch wrote."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The largest epoch at or below the asked one, and where it ended."""

    epoch: int
    end_offset: int


NO_EPOCH_END: Final = EpochEnd(NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET)


def epoch_end(entries: Sequence[EpochStart], epoch: int, log_end_offset: int) -> EpochEnd:
    """Where the given epoch ended here; the log end for the latest, unknown for one yet to come."""
    if epoch < 0 or not entries or epoch > entries[-1].epoch:
        return NO_EPOCH_END
    if epoch == entries[-1].epoch:
        return EpochEnd(epoch, log_end_offset)
    higher = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
    return EpochEnd(entries[higher - 1].epoch if higher else epoch, entries[higher].start_offset)


def led_epoch_end(
    entries: Sequence[EpochStart], epoch: int, log_end_offset: int, leader_epoch: int
) -> EpochEnd:
    """The same, asked of the leader of `leader_epoch`: its epoch begins with it, though it may be noted at its first append."""
    latest = entries[-1].epoch if entries else NO_PARTITION_LEADER_EPOCH
    if not latest < epoch <= leader_epoch:
        return epoch_end(entries, epoch, log_end_offset)
    return EpochEnd(epoch if epoch == leader_epoch or latest < 0 else latest, log_end_offset)


def epoch_for(entries: Sequence[EpochStart], offset: int) -> int:
    """The epoch that wrote `offset`, or -1."""
    index = bisect_right(entries, offset, key=lambda entry: entry.start_offset)
    return entries[index - 1].epoch if index else NO_PARTITION_LEADER_EPOCH
