"""A coordinator that gives partitions to two members, takes commits it must refuse, and forgets.

Role.   Mutations found by `scenarios.groups`.
"""

from typing import Any, Final

from semel.broker.coordinators.host import CoordinatorHost
from semel.broker.coordinators.loading import Loading
from semel.core.coordination.outcome import LogRow, Origin
from semel.core.groups.classic.coordinator import ClassicCoordinator
from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.classic.rebalance import Rebalance, Turn
from semel.core.groups.consumer.group import ConsumerGroup
from semel.core.groups.consumer.member import Member
from semel.core.groups.consumer.target_assignment import Target
from semel.core.groups.consumer.turn import Turn as ConsumerTurn
from semel.core.groups.offsets import Offsets
from semel.core.groups.rows import CommittedOffset
from semel.core.groups.shard import GroupShard
from semel.core.wire.messages.group_rows import GroupMetadataKey, OffsetCommitKey
from semel.core.wire.messages.sync_group import SyncGroupRequest
from semel.errors import ErrorCode
from semel.verify.mutations.mutation import Mutation, Patch


def _takes_commits_of_earlier_generations(patch: Patch) -> None:
    patch.setattr(ClassicGroup, "check_commit", lambda *_: ErrorCode.NONE)


def _gives_everybody_everything(patch: Patch) -> None:
    """Each member gets the part of the first."""
    assign = ClassicCoordinator._assign

    def generous(
        self: ClassicCoordinator, group: ClassicGroup, request: SyncGroupRequest, turn: Turn
    ) -> None:
        for one in request.assignments:
            one.assignment = request.assignments[0].assignment
        assign(self, group, request, turn)

    patch.setattr(ClassicCoordinator, "_assign", generous)


def _stays_in_its_generation(patch: Patch) -> None:
    begin = Rebalance._begin_generation

    def stuck(self: Rebalance, group: ClassicGroup, turn: Turn) -> None:
        if group.generation_id:
            group.generation_id -= 1
        begin(self, group, turn)

    patch.setattr(Rebalance, "_begin_generation", stuck)


def _forgets_generations_at_a_restart(patch: Patch) -> None:
    _not_replayed(patch, GroupMetadataKey)


def _forgets_offsets_at_a_restart(patch: Patch) -> None:
    _not_replayed(patch, OffsetCommitKey)


def _not_replayed(patch: Patch, kind: type) -> None:
    step = Loading.step
    apply = GroupShard.apply
    loading = []

    def noted(self: Loading[Any]) -> bool:
        loading.append(self)
        try:
            return step(self)
        finally:
            loading.pop()

    def forgetful(self: GroupShard, row: LogRow, origin: Origin) -> None:
        if not (loading and isinstance(row.key, kind)):
            apply(self, row, origin)

    patch.setattr(Loading, "step", noted)
    patch.setattr(GroupShard, "apply", forgetful)


def _keeps_the_first_commit(patch: Patch) -> None:
    def put(self: Offsets, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        self._committed.setdefault(group_id, {}).setdefault(topic, {}).setdefault(partition, offset)

    patch.setattr(Offsets, "_put", put)


def _answers_before_its_rows_are_synced(patch: Patch) -> None:
    async def hasty(self: CoordinatorHost[Any, Any], hosted: Any) -> None:
        while hosted.unsettled:
            self._finish(hosted, hosted.unsettled.popleft()[1])

    patch.setattr(CoordinatorHost, "_settle", hasty)


def _never_ends_a_rebalance(patch: Patch) -> None:
    """No promise about offsets is broken by a coordinator that keeps everybody waiting; the bound on settling is."""
    complete = Rebalance.complete_join

    def stuck(self: Rebalance, group: ClassicGroup, turn: Turn) -> None:
        if group.generation_id < 2:
            complete(self, group, turn)

    patch.setattr(Rebalance, "complete_join", stuck)


def _gives_what_another_member_still_has(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "partition_epoch", lambda *_: None)


def _takes_commits_of_earlier_epochs(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "check_commit", lambda *_: ErrorCode.NONE)
    patch.setattr(ConsumerGroup, "check_commit_of", lambda *_: ErrorCode.NONE)


def _waits_for_the_time_of_the_last_target(patch: Patch) -> None:
    """A target carries the wall clock's time; after that was set back, and the rows were replayed, it lies in the future."""
    target = ConsumerTurn.target

    def patient(self: ConsumerTurn, member: Member, group_epoch: int) -> Target:
        group = self.group
        has_interval = self.soft.groups.settings.group_consumer_assignment_interval_ms > 0
        if has_interval and self.now_ms < group.assignment_timestamp_ms:
            return Target(group.assignment_epoch, group.target_of(member.member_id, member.instance_id))
        return target(self, member, group_epoch)

    patch.setattr(ConsumerTurn, "target", patient)


MUTATIONS: Final = (
    Mutation(
        "commits of an earlier generation",
        "a member that lost its partitions stores no position",
        _takes_commits_of_earlier_generations,
        "groups",
        "was stored after",
        range(15, 55),
    ),
    Mutation(
        "everybody gets everything",
        "a partition has one member at a time",
        _gives_everybody_everything,
        "groups",
        "belongs to",
        range(40),
        quick=True,
    ),
    Mutation(
        "a rebalance without a new generation",
        "a generation is counted once",
        _stays_in_its_generation,
        "groups",
        "belongs to",
        range(40),
        quick=True,
    ),
    Mutation(
        "generations forgotten at a restart",
        "a restart takes no partition from its member",
        _forgets_generations_at_a_restart,
        "groups",
        "belongs to",
        range(40),
        quick=True,
    ),
    Mutation(
        "offsets forgotten at a restart",
        "a position that was stored is found again",
        _forgets_offsets_at_a_restart,
        "groups",
        "is told that",
        range(40),
        quick=True,
    ),
    Mutation(
        "the first commit stays",
        "the last position that was stored counts",
        _keeps_the_first_commit,
        "groups",
        "is told that",
        range(40),
        quick=True,
    ),
    Mutation(
        "commits answered before the sync",
        "a position that was stored outlives a power cut",
        _answers_before_its_rows_are_synced,
        "groups",
        "is told that",
        range(390, 430),  # The leader syncs soon by itself: the power must fail within that sync.
    ),
    Mutation(
        "a rebalance without an end",
        "a group comes to rest in time",
        _never_ends_a_rebalance,
        "groups",
        "after it was calm",
        range(40),
        quick=True,
    ),
    Mutation(
        "given before it is given back",
        "a partition has one member at a time (KIP-848)",
        _gives_what_another_member_still_has,
        "groups",
        "still had it",
        range(40),
    ),
    Mutation(
        "commits of an earlier epoch",
        "a member that lost its partitions stores no position (KIP-848)",
        _takes_commits_of_earlier_epochs,
        "groups",
        "was stored after",
        range(40),
    ),
    Mutation(
        "a target of the future is waited for",
        "a group is divided though the clock was set back (KIP-848)",
        _waits_for_the_time_of_the_last_target,
        "groups",
        "after it was calm the group owes owners",
        range(9, 49),
        quick=True,
    ),
)
