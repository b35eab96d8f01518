"""A follower that keeps another log than its leader's: cut in the wrong place, or not, or shown too early.

Role.   Mutations found by `scenarios.replication`.
"""

from dataclasses import replace
from typing import Any, Final

from semel.broker.handlers import fetch
from semel.broker.replicas.followed_partition import FollowedPartition
from semel.core.idempotence.producer_state import ProducerState
from semel.log.partition_log import PartitionLog
from semel.verify.mutations.mutation import Mutation, Patch

_SCENARIO: Final = "replication"


def _cuts_to_the_high_watermark(patch: Patch) -> None:
    """As Kafka's followers did before KIP-101: the high watermark may be behind what is acknowledged."""
    become = FollowedPartition.become

    def cut(self: FollowedPartition, **more: Any) -> bool:
        begins = become(self, **more)
        if begins:
            self.log.truncate_to(self.log.high_watermark, self._now_ms())
        return begins

    patch.setattr(FollowedPartition, "become", cut)


def _hides_its_last_epoch(patch: Patch) -> None:
    """The leader cannot tell that the logs part."""
    read = fetch._read_partition

    def unaware(partition: Any, key: Any, fetched: Any, *given: Any, **more: Any) -> Any:
        return read(partition, key, replace(fetched, last_fetched_epoch=-1), *given, **more)

    patch.setattr(fetch, "_read_partition", unaware)


def _shows_what_it_has(patch: Patch) -> None:
    def show(self: FollowedPartition, _leader_high_watermark: int) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)

    patch.setattr(FollowedPartition, "show", show)


def _knows_no_producers(patch: Patch) -> None:
    append = PartitionLog.append_as_follower

    def forgetful(self: PartitionLog, data: Any, now_ms: int) -> Any:
        result = append(self, data, now_ms)
        self.producers.clear(self.log_end_offset)
        return result

    patch.setattr(PartitionLog, "append_as_follower", forgetful)


def _keeps_producers_of_what_it_cut(patch: Patch) -> None:
    patch.setattr(ProducerState, "take_over", lambda *_: None)


MUTATIONS: Final = (
    Mutation(
        "cut to the high watermark",
        "what is acknowledged outlives its leader",
        _cuts_to_the_high_watermark,
        _SCENARIO,
        r"I[124]: |was told",
        range(60),
        quick=True,
    ),
    Mutation(
        "not cut where logs part",
        "replicas hold the same",
        _hides_its_last_epoch,
        _SCENARIO,
        r"I[12]: |owes",
        range(60),
    ),
    Mutation(
        "a follower that shows what it has",
        "the high watermark is the leader's",
        _shows_what_it_has,
        _SCENARIO,
        r"I[12]: ",
        range(60),
        quick=True,
    ),
    Mutation(
        "a follower that knows no producers",
        "replicas know the same producers",
        _knows_no_producers,
        _SCENARIO,
        r"I6: ",
        range(60),
        quick=True,
    ),
    Mutation(
        "producers of what was cut kept",
        "replicas know the same producers",
        _keeps_producers_of_what_it_cut,
        _SCENARIO,
        r"I6: |stored twice|out of order",
        range(60),
    ),
)
