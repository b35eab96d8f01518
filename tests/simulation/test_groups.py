"""A consumer group through everything that goes wrong: one owner, fenced commits, nothing forgotten, nothing left out.

Method: whole worlds on the simulated runtime, each from one integer: members that join, leave, freeze and die, a broker
that is killed and loses power, a bad network. Fixed seeds keep what holds, random ones look for what does not; a failing
seed fails again, alone: `semel.verify.scenarios.groups.run(seed)`. Then the coordinator is broken on purpose, one promise
at a time, and the judgement must notice within a few seeds.
"""

from typing import Any

import pytest

from semel.broker.coordinators.host import CoordinatorHost
from semel.broker.coordinators.loading import Loading
from semel.core.coordination.outcome import LogRow, Origin
from semel.core.groups.classic.coordinator import ClassicCoordinator
from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.classic.rebalance import Rebalance, Turn
from semel.core.groups.consumer.group import ConsumerGroup
from semel.core.groups.group import CommitFrom
from semel.core.groups.offsets import Offsets
from semel.core.groups.rows import CommittedOffset
from semel.core.groups.shard import GroupShard
from semel.core.wire.messages.group_rows import GroupMetadataKey, OffsetCommitKey
from semel.core.wire.messages.sync_group import SyncGroupRequest
from semel.errors import ErrorCode
from semel.verify.scenarios import groups
from story_kit import Break, must_be_noticed, must_be_reproduced, run_random_seeds, run_seeds

_CHUNK = 8
_FIXED = 16
_RANDOM = 8
_SEEDS_TO_FIND_IT = 40


@pytest.mark.parametrize("first", range(0, _FIXED, _CHUNK))
def test_fixed_seeds(first: int) -> None:
    run_seeds(groups.run, first, _CHUNK)


def test_random_seeds() -> None:
    run_random_seeds(groups.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("groups", 5)


# Broken on purpose


def _takes_commits_of_earlier_generations(patch: pytest.MonkeyPatch) -> None:
    def check(self: ClassicGroup, commit: CommitFrom) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(ClassicGroup, "check_commit", check)


def _gives_everybody_everything(patch: pytest.MonkeyPatch) -> None:
    """Each member gets the part of the first."""
    assign = ClassicCoordinator._assign

    def generous(
        self: ClassicCoordinator, group: ClassicGroup, request: SyncGroupRequest, turn: Turn
    ) -> None:
        for one in request.assignments:
            one.assignment = request.assignments[0].assignment
        assign(self, group, request, turn)

    patch.setattr(ClassicCoordinator, "_assign", generous)


def _stays_in_its_generation(patch: pytest.MonkeyPatch) -> None:
    begin = Rebalance._begin_generation

    def stuck(self: Rebalance, group: ClassicGroup, turn: Turn) -> None:
        if group.generation_id:
            group.generation_id -= 1
        begin(self, group, turn)

    patch.setattr(Rebalance, "_begin_generation", stuck)


def _forgets_generations_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    _not_replayed(patch, GroupMetadataKey)


def _forgets_offsets_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    _not_replayed(patch, OffsetCommitKey)


def _not_replayed(patch: pytest.MonkeyPatch, kind: type) -> None:
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


def _keeps_the_first_commit(patch: pytest.MonkeyPatch) -> None:
    def put(self: Offsets, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        self._committed.setdefault(group_id, {}).setdefault(topic, {}).setdefault(partition, offset)

    patch.setattr(Offsets, "_put", put)


def _answers_before_its_rows_are_synced(patch: pytest.MonkeyPatch) -> None:
    async def hasty(self: CoordinatorHost[Any, Any], hosted: Any) -> None:
        while hosted.unsettled:
            self._finish(hosted, hosted.unsettled.popleft()[1])

    patch.setattr(CoordinatorHost, "_settle", hasty)


def _never_ends_a_rebalance(patch: pytest.MonkeyPatch) -> None:
    """No promise about offsets is broken by a coordinator that keeps everybody waiting; the bound on settling is."""
    complete = Rebalance.complete_join

    def stuck(self: Rebalance, group: ClassicGroup, turn: Turn) -> None:
        if group.generation_id < 2:
            complete(self, group, turn)

    patch.setattr(Rebalance, "complete_join", stuck)


def _gives_what_another_member_still_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "partition_epoch", lambda *_: None)


def _takes_commits_of_earlier_epochs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "check_commit", lambda *_: ErrorCode.NONE)
    patch.setattr(ConsumerGroup, "check_commit_of", lambda *_: ErrorCode.NONE)


@pytest.mark.parametrize(
    ("break_it", "noticed", "first"),
    [
        (_takes_commits_of_earlier_generations, "was stored after", 15),
        (_gives_everybody_everything, "belongs to", 0),
        (_stays_in_its_generation, "belongs to", 0),
        (_forgets_generations_at_a_restart, "belongs to", 0),
        (_forgets_offsets_at_a_restart, "is told that", 0),
        (_keeps_the_first_commit, "is told that", 0),
        (_answers_before_its_rows_are_synced, "is told that", 0),
        (_never_ends_a_rebalance, "after it was calm", 0),
        (_gives_what_another_member_still_has, "still had it", 0),
        (_takes_commits_of_earlier_epochs, "was stored after", 0),
    ],
)
def test_a_broken_coordinator_is_found(
    break_it: Break, noticed: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    must_be_noticed(groups.run, noticed, range(first, first + _SEEDS_TO_FIND_IT))
