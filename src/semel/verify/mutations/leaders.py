"""A leader of replicas that commits what not all have: too early, with too few, or by what it only believes of them.

Role.   Mutations found by `scenarios.replication`.
"""

from typing import Any, Final

from semel.broker.replicas.led_partition import LedPartition
from semel.core.replication.leading import Alive, Leading, Proposal
from semel.core.replication.progress import Progress
from semel.errors import ErrorCode
from semel.verify.mutations.mutation import Mutation, Patch

_SCENARIO: Final = "replication"


# In sync


def _lets_join_from_anywhere(patch: Patch) -> None:
    """Neither the high watermark has to be reached, nor the start of the leader epoch."""
    expand = Leading.expand

    def early(self: Leading, replica_id: int, *, high_watermark: int, alive: Alive) -> Proposal | None:
        del high_watermark
        start, self.epoch_start_offset = self.epoch_start_offset, -1
        try:
            return expand(self, replica_id, high_watermark=0, alive=alive)
        finally:
            self.epoch_start_offset = start

    patch.setattr(Leading, "expand", early)


def _counts_a_pending_shrink(patch: Patch) -> None:
    shrink = Leading.shrink

    def early(self: Leading, **more: Any) -> Proposal | None:
        proposal = shrink(self, **more)
        if proposal is not None:
            self.maximal_isr = frozenset(proposal.isr)
        return proposal

    patch.setattr(Leading, "shrink", early)


def _never_lets_join(patch: Patch) -> None:
    patch.setattr(Leading, "expand", lambda *_, **_more: None)


# Committed


def _appends_with_too_few(patch: Patch) -> None:
    patch.setattr(Leading, "judge_append", lambda *_: ErrorCode.NONE)


def _knows_no_least_number(patch: Patch) -> None:
    patch.setattr(Leading, "effective_min_insync", lambda *_: 1)


def _acknowledges_at_once(patch: Patch) -> None:
    async def acknowledged(_self: LedPartition, _end_offset: int, _seconds: float) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(LedPartition, "acknowledged", acknowledged)


def _believes_members_have_everything(patch: Patch) -> None:
    """When it begins to lead, the members of the ISR are taken to be where it is."""
    begin_epoch = Progress.begin_epoch

    def trustful(
        self: Progress, leader_end_offset: int, now_ms: int, *, in_sync: bool, is_known: bool
    ) -> None:
        begin_epoch(self, leader_end_offset, now_ms, in_sync=in_sync, is_known=is_known)
        if in_sync:
            self.log_end_offset = leader_end_offset

    patch.setattr(Progress, "begin_epoch", trustful)


def _shows_everything_when_it_begins(patch: Patch) -> None:
    become = LedPartition.become

    def boastful(self: LedPartition, **more: Any) -> None:
        become(self, **more)
        self.log.advance_high_watermark(self.log.log_end_offset)

    patch.setattr(LedPartition, "become", boastful)


# Epochs


def _appends_in_the_epoch_before(patch: Patch) -> None:
    append = LedPartition.append

    def old(self: LedPartition, *given: Any, **more: Any) -> Any:
        epoch, self.leader_epoch = self.leader_epoch, max(0, self.leader_epoch - 1)
        try:
            return append(self, *given, **more)
        finally:
            self.leader_epoch = epoch

    patch.setattr(LedPartition, "append", old)


MUTATIONS: Final = (
    Mutation(
        "a replica in sync wherever it is",
        "what is committed is on all that are in sync",
        _lets_join_from_anywhere,
        _SCENARIO,
        r"I1: ",
        range(60),
    ),
    Mutation(
        "a member of the ISR not waited for before the answer",
        "what is committed is on all that are in sync",
        _counts_a_pending_shrink,
        _SCENARIO,
        r"I1: ",
        range(60),
    ),
    Mutation(
        "replicas that are never in sync",
        "all replicas are in sync in the end",
        _never_lets_join,
        _SCENARIO,
        r"owes .* all in sync",
        range(60),
        quick=True,
    ),
    Mutation(
        "appended for all with fewer than min.insync.replicas",
        "fewer than min.insync.replicas take nothing",
        _appends_with_too_few,
        _SCENARIO,
        r"I4: .* below min",
        range(60),
    ),
    Mutation(
        "min.insync.replicas not known",
        "fewer than min.insync.replicas commit nothing",
        _knows_no_least_number,
        _SCENARIO,
        r"I4: .* below min",
        range(60),
    ),
    Mutation(
        "acknowledged before all have it",
        "what is acknowledged outlives its leader",
        _acknowledges_at_once,
        _SCENARIO,
        r"was told|I1: ",
        range(60),
        quick=True,
    ),
    Mutation(
        "members believed to have everything",
        "what is committed is on all that are in sync",
        _believes_members_have_everything,
        _SCENARIO,
        r"I1: ",
        range(60),
        quick=True,
    ),
    Mutation(
        "everything shown by a leader that begins",
        "what is committed is on all that are in sync",
        _shows_everything_when_it_begins,
        _SCENARIO,
        r"I1: ",
        range(60),
        quick=True,
    ),
    Mutation(
        "appended in the epoch before",
        "a log's epochs have one leader",
        _appends_in_the_epoch_before,
        _SCENARIO,
        r"I[123]: |owes",
        range(60),
        quick=True,
    ),
)
