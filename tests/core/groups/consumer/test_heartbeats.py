"""Every kind of heartbeat in every state of a member: the answer, and the member's state after it.

Method: one table for dynamic members and one for static ones (`heartbeat_table`). A member is brought into each state; each
heartbeat is tried there. The desk checks that deciding changes nothing and that replay equals live. A refused heartbeat
must change nothing at all; Apache Kafka is held to the same tables in tests/compat/differential.
"""

import copy
from collections.abc import Mapping

import pytest

from support.groups.consumer_kit import GROUP, SESSION_MS, World
from support.groups.consumer_stories import PARTITIONS, Story
from support.groups.heartbeat_table import (
    ANSWERS,
    HEARTBEATS,
    ME,
    MEMBERS,
    STATIC_ANSWERS,
    STATIC_HEARTBEATS,
    STATIC_MEMBERS,
    Act,
    Cells,
    Scene,
)

KINDS = ((MEMBERS, HEARTBEATS, ANSWERS), (STATIC_MEMBERS, STATIC_HEARTBEATS, STATIC_ANSWERS))
SHORT = {"STABLE": "stable", "UNREVOKED_PARTITIONS": "unrevoked", "UNRELEASED_PARTITIONS": "unreleased"}


def _cases() -> list[object]:
    return [
        pytest.param(scenes[state], acts[said], cell, id=f"{kind}{state}: {said}")
        for kind, (scenes, acts, answers) in zip(("", "static "), KINDS, strict=True)
        for said, cells in answers.items()
        for state, cell in cells.items()
    ]


def _in(scene: Scene) -> tuple[World, Story]:
    world = World(group_consumer_assignment_interval_ms=0)
    for name, partitions in PARTITIONS.items():
        world.topics.create(name, partitions)
    story = Story(world, GROUP)
    scene(story)
    return world, story


def _state_of_me(world: World) -> str:
    member = None if world.group is None else world.group.members.get(ME)
    if member is None:
        return "gone"
    return "away" if member.member_epoch < 0 else SHORT[member.state.name]


@pytest.mark.parametrize(("scenes", "acts", "answers"), KINDS)
def test_the_tables_have_every_heartbeat_in_every_state(
    scenes: Mapping[str, Scene], acts: Mapping[str, Act], answers: Mapping[str, Cells]
) -> None:
    assert list(answers) == list(acts)
    assert all(list(cells) == list(scenes) for cells in answers.values())


@pytest.mark.parametrize(("scene", "act", "cell"), _cases())
def test_each_heartbeat_in_each_state(scene: Scene, act: Act, cell: str) -> None:
    world, story = _in(scene)
    group, rows, deadline_ms = copy.deepcopy(world.group), len(world.rows), world.shard.next_deadline_ms()
    world.now_ms += 1
    answer = act(story)
    if cell.isupper():
        assert answer == cell
        assert (world.group, len(world.rows), world.shard.next_deadline_ms()) == (group, rows, deadline_ms)
    else:
        assert f"{answer} > {_state_of_me(world)}" == cell


@pytest.mark.parametrize(("scene", "act", "cell"), _cases())
def test_a_restart_forgets_nothing_and_keeps_nobody_forever(scene: Scene, act: Act, cell: str) -> None:
    """After any heartbeat in any state: the log makes the same group, and silence ends it."""
    del cell
    world, story = _in(scene)
    act(story)
    before = copy.deepcopy(world.group)
    world.restart()
    assert world.group == before
    world.pass_time(SESSION_MS + world.settings.offsets_retention_check_interval_ms)
    assert world.shard.groups == world.reader.groups == {}
