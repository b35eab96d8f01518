"""Items of one lane run one after the other and in order; lanes run side by side; nobody starves.

Method: offer items of a few lanes and of none, take and finish them in any order, and keep beside it who is out.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import InvariantError
from semel.once.rules.lanes import Lanes


@given(
    lanes_of=st.lists(st.sampled_from(["a", "b", "c", None]), max_size=40),
    dice=st.randoms(use_true_random=False),
)
def test_order_is_kept_inside_a_lane_and_only_there(lanes_of: list[str | None], dice: random.Random) -> None:
    lanes: Lanes[int] = Lanes()
    out: list[tuple[object, int]] = []
    taken: list[int] = []
    offered = 0
    while offered < len(lanes_of) or len(lanes) or out:
        moves = ["offer"] * (offered < len(lanes_of)) + ["take"] + ["done"] * bool(out)
        match dice.choice(moves):
            case "offer":
                lanes.offer(offered, lanes_of[offered])
                offered += 1
            case "take":
                next_one = lanes.take()
                busy = {lane for lane, _ in out}
                could = [
                    n
                    for n in range(offered)
                    if n not in taken and (lanes_of[n] is None or lanes_of[n] not in busy)
                ]
                assert (next_one is None) == (not could), "idle although something could run, or the reverse"
                if next_one is not None:
                    lane, item = next_one
                    assert lane == lanes_of[item]
                    assert lane is None or lane not in busy
                    out.append((lane, item))
                    taken.append(item)
            case "done":
                lanes.done(out.pop(dice.randrange(len(out)))[0])
        assert len(lanes) == offered - len(taken)
    for lane in ("a", "b", "c"):
        of_lane = [item for item in taken if lanes_of[item] == lane]
        assert of_lane == sorted(of_lane)
    assert sorted(taken) == list(range(len(lanes_of)))


def test_no_lane_starves() -> None:
    lanes: Lanes[str] = Lanes()
    for n in range(3):
        lanes.offer(f"busy-{n}", "busy")
    lanes.offer("other", "other")
    order = []
    while (taken := lanes.take()) is not None:
        order.append(taken[1])
        lanes.done(taken[0])
    assert order == ["busy-0", "other", "busy-1", "busy-2"]


def test_only_what_is_out_can_be_done() -> None:
    lanes: Lanes[int] = Lanes()
    with pytest.raises(InvariantError, match="nothing of lane 'a' is out"):
        lanes.done("a")
    lanes.done(None)  # Without a lane there is nothing to free.
