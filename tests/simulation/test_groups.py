"""A consumer group through everything that goes wrong: one owner, fenced commits, nothing forgotten, nothing left out.

Method: whole worlds on the simulated runtime, each from one integer: members that join, leave, freeze and die, a broker
that is killed and loses power, a bad network. Fixed seeds keep what holds, random ones look for what does not; a failing
seed fails again, alone: `semel.verify.scenarios.groups.run(seed)`. Then the coordinator is broken on purpose, one promise
at a time, and the judgement must notice within a few seeds.
"""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import group_story
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
from semel.verify.scenarios.log_crash import PromiseBroken

_CHUNK = 8
_FIXED = 32
_RANDOM = 8
_SEEDS_TO_FIND_IT = 40


@pytest.mark.parametrize("first", range(0, _FIXED, _CHUNK))
def test_fixed_seeds(first: int) -> None:
    for seed in range(first, first + _CHUNK):
        groups.run(seed)


@pytest.mark.parametrize("chunk", range(_RANDOM // _CHUNK))
def test_random_seeds(chunk: int) -> None:
    first = random.SystemRandom().randrange(10**6, 10**9)
    print(f"seeds {first} to {first + _CHUNK - 1}")
    for seed in range(first, first + _CHUNK):
        groups.run(seed)


@pytest.mark.parametrize("seed", [798603559, 1000583, 1000929, 1001240])
def test_a_mixed_group_that_was_empty_begins_its_generations_anew(seed: int) -> None:
    """As in Kafka; the judgement once took the earlier generation of that number for the same one."""
    groups.run(seed)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    """Twice, in processes whose sets and dictionaries of strings are ordered differently."""
    program = Path(group_story.__file__)
    printed = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, str(program), "5"], env=environment, capture_output=True, text=True, check=True
        )
        printed.add(done.stdout)
    assert len(printed) == 1
    assert len(printed.pop().split()) == 2


# Broken on purpose

Break = Callable[[pytest.MonkeyPatch], None]


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
    other_findings = []
    for seed in range(first, first + _SEEDS_TO_FIND_IT):
        try:
            groups.run(seed)
        except PromiseBroken as broken:
            if noticed in str(broken).partition("\n      ")[0] and f"seed {seed}" in str(broken):
                print(f"found by seed {seed}")
                return
            other_findings.append(str(broken).splitlines()[0])
    pytest.fail(f"{_SEEDS_TO_FIND_IT} seeds, and nothing says {noticed!r}, only {other_findings}")
