"""Timers of one group that run out in the same moment: the first may make the others pointless.

Method: let the last member's session and the time to join end in one millisecond (found by the simulation of groups), and
the time to join and that of one who never came.
"""

from semel.core.groups.group import GroupSettings
from support.groups.classic_kit import ClassicWorld


def test_the_last_session_ends_when_the_time_to_join_does() -> None:
    world = ClassicWorld()
    staying, leaving = world.stable(None, None, session_ms=10_000, rebalance_ms=10_000)
    world.heartbeat(staying)
    world.leave(leaving)
    assert world.state == "PreparingRebalance"
    generation = world.group.generation_id
    world.pass_time(10_000)
    assert (world.state, world.group.generation_id) == ("Empty", generation + 1)
    world.pass_time(60_000)
    assert (world.state, world.group.generation_id) == ("Empty", generation + 1)


def test_one_that_never_came_is_given_up_when_the_time_to_join_ends() -> None:
    """The only member has left already: the group becomes empty once, not twice."""
    world = ClassicWorld(GroupSettings(group_initial_rebalance_delay_ms=6_000))
    waiting = world.join(version=3)
    world.member_id(session_ms=6_000)
    world.leave(next(iter(world.group.members)))
    assert waiting in world.answers
    rows = len(world.log)
    world.pass_time(6_000)
    assert (world.state, world.group.generation_id, len(world.log)) == ("Empty", 1, rows + 1)
    assert world.group.is_empty
    assert world.coordinator.next_deadline_ms() is None
