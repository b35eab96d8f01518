"""Timers of one group that run out in the same moment: the first may make the others pointless.

Method: let the last member's session and the time to join end in one millisecond; found by the simulation of groups.
"""

from classic_kit import ClassicWorld


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
