"""Elections, case by case as in Kafka's PartitionLeaderElectionAlgorithmsTest, and what holds for all of them.

Method: a row per case; and a property over any assignment: only members of the ISR lead, but for unclean elections.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.cluster.controller import elections
from semel.core.cluster.controller.elections import Elected

_IDS = st.lists(st.integers(0, 5), max_size=5, unique=True)


@pytest.mark.parametrize(
    ("assignment", "isr", "online", "is_unclean_allowed", "expected"),
    [
        ((2, 4), (2, 4), (4,), False, Elected(4, (4,))),
        ((2, 4), (2, 4), (2, 4), False, Elected(2, (2, 4))),
        ((2, 4), (2,), (4,), False, None),
        ((2, 4), (2,), (4,), True, Elected(4, (4,), is_recovering=True)),
        ((2, 4), (2,), (), True, None),
        ((2, 4), (4,), (2, 4), True, Elected(4, (4,))),
        ((1, 2, 3), (3, 2), (1, 2, 3), False, Elected(2, (3, 2))),
        ((), (), (), True, None),
    ],
)
def test_offline(
    assignment: tuple[int, ...],
    isr: tuple[int, ...],
    online: tuple[int, ...],
    is_unclean_allowed: bool,
    expected: Elected | None,
) -> None:
    assert elections.offline(assignment, isr, online, is_unclean_allowed=is_unclean_allowed) == expected


@pytest.mark.parametrize(
    ("target", "isr", "online", "expected"),
    [
        ((2, 4), (2, 4), (4,), Elected(4, (2, 4))),
        ((2, 4), (2,), (4,), None),
        ((2, 4), (2,), (), None),
        ((4, 2), (2, 4, 1), (2, 4), Elected(4, (2, 4, 1))),
    ],
)
def test_reassignment(
    target: tuple[int, ...], isr: tuple[int, ...], online: tuple[int, ...], expected: Elected | None
) -> None:
    assert elections.reassignment(target, isr, online) == expected


@pytest.mark.parametrize(
    ("assignment", "isr", "online", "expected"),
    [
        ((2, 4), (2, 4), (2, 4), Elected(2, (2, 4))),
        ((2, 4), (2, 4), (4,), None),
        ((2, 4), (4,), (2, 4), None),
        ((2, 4), (), (), None),
    ],
)
def test_preferred(
    assignment: tuple[int, ...], isr: tuple[int, ...], online: tuple[int, ...], expected: Elected | None
) -> None:
    assert elections.preferred(assignment, isr, online) == expected


@pytest.mark.parametrize(
    ("assignment", "isr", "up", "stopping", "expected"),
    [
        ((2, 4), (2, 4), (2, 4), (2,), Elected(4, (4,))),
        ((2, 4), (2,), (2, 4), (2,), None),
        ((2, 4), (2, 4), (2, 4), (2, 4), None),
        ((2, 4, 6), (2, 4, 6), (2, 6), (2,), Elected(6, (4, 6))),
    ],
)
def test_controlled_shutdown(
    assignment: tuple[int, ...],
    isr: tuple[int, ...],
    up: tuple[int, ...],
    stopping: tuple[int, ...],
    expected: Elected | None,
) -> None:
    assert elections.controlled_shutdown(assignment, isr, up, stopping) == expected


@given(_IDS, _IDS, _IDS, st.booleans())
def test_a_leader_is_in_sync_or_alone(
    assignment: list[int], isr: list[int], online: list[int], is_unclean_allowed: bool
) -> None:
    for elected in (
        elections.offline(assignment, isr, online, is_unclean_allowed=is_unclean_allowed),
        elections.reassignment(assignment, isr, online),
        elections.preferred(assignment, isr, online),
        elections.controlled_shutdown(assignment, isr, online, ()),
    ):
        if elected is None:
            continue
        assert elected.leader in assignment
        assert elected.leader in online
        assert elected.leader in elected.isr
        assert elected.is_recovering is (elected.leader not in isr)
        assert not elected.is_recovering or elected.isr == (elected.leader,)
