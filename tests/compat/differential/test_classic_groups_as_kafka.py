"""Classic groups must live as in Apache Kafka, request by request: every field of every answer, good and bad.

Method: both brokers are told the same stories by actors with connections of their own; see `classic_stories`. In between
both are asked to describe the group. At the end the rows both logs hold are compared, in order.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from operator import eq
from pathlib import Path
from typing import Any, Final

import pytest

from compat.differential.classic_stories import Troupe
from compat.differential.comparison import kafka_side, semel_side
from compat.differential.exchange import Side
from semel.core.wire.messages import delete_groups, find_coordinator, heartbeat, list_groups
from semel.errors import ErrorCode
from semel.peers.kafka import KafkaHome
from support.compat.compat_kit import eventually

pytestmark = pytest.mark.java
SETTINGS: Final = {"group_initial_rebalance_delay_ms": "0", "group_max_size": "5"}
"""Without a delay it is not left to the clock who is in a generation together."""
_LAST_ROW_SECONDS: Final = 30.0
"""A story may end with members whose sessions do soon after it, in one broker a moment before the other."""
Stage = Callable[[str], Troupe]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("classic")


@pytest.fixture(scope="module")
def brokers(kafka_home: KafkaHome, directory: Path) -> Iterator[tuple[Side, Side]]:
    with (
        semel_side(directory / "semel", **SETTINGS) as ours,
        kafka_side(kafka_home, directory / "kafka", **SETTINGS) as theirs,
    ):
        find = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        beat = heartbeat.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")

        def ready(side: Side) -> bool:
            found, answer = side.ask(find, 4), side.ask(beat, 4)
            return (
                isinstance(found, find_coordinator.FindCoordinatorResponse)
                and not found.coordinators[0].error_code
                and isinstance(answer, heartbeat.HeartbeatResponse)
                and answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            )

        for side in (ours, theirs):
            eventually(lambda side=side: ready(side), f"{side.name} coordinates groups", 60)  # type: ignore[misc]  # A default binds the loop's variable.
        yield ours, theirs


@pytest.fixture(scope="module")
def told(directory: Path) -> Iterator[list[Troupe]]:
    """Every group of the tests that ran in this process; at the end both logs must say the same of them."""
    troupes: list[Troupe] = []
    yield troupes
    for troupe in troupes:
        with contextlib.suppress(AssertionError):  # What differs is shown below.
            eventually(lambda: eq(*rows_of(troupe, directory)), "the last row", _LAST_ROW_SECONDS)  # noqa: B023 - called at once
        ours, theirs = rows_of(troupe, directory)
        assert ours == theirs, troupe.group


@pytest.fixture
def stage(brokers: tuple[Side, Side], told: list[Troupe]) -> Iterator[Stage]:
    mine: list[Troupe] = []

    def make(group: str) -> Troupe:
        troupe = Troupe(group, brokers)
        mine.append(troupe)
        told.append(troupe)
        return troupe

    yield make
    for troupe in mine:
        troupe.close()


def enter(troupe: Troupe, *actors: str, version: int = 9, **how: Any) -> None:
    """These join one after the other, those with an upper-case name as static members; the first leads."""
    for count, actor in enumerate(actors, start=1):
        begin(troupe, actor, version=version, **how)
        rejoin(troupe, *actors[: count - 1], version=version, **how)
        for one in actors[:count]:
            assert troupe.answer(one)["generation_id"] == count


def begin(troupe: Troupe, actor: str, *, version: int = 9, **how: Any) -> None:
    """A new member joins and waits."""
    member = None
    if not actor.isupper() and version >= 4:
        answer = troupe.join(actor, version=version, **how)
        assert answer["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
        member = actor
    troupe.join(actor, member, instance=_instance(actor), version=version, waits=True, **how)


def rejoin(troupe: Troupe, *actors: str, version: int = 9, **how: Any) -> None:
    """Known members join again and wait."""
    for actor in actors:
        troupe.join(actor, actor, instance=_instance(actor), version=version, waits=True, **how)


def settle(troupe: Troupe, *actors: str) -> None:
    """Everybody syncs, the leader (the first) last."""
    leader, *others = actors
    for actor in others:
        troupe.sync(actor, instance=_instance(actor), waits=True)
    parts = {actor: actor.encode() for actor in actors}
    troupe.sync(leader, instance=_instance(leader), given=parts)
    for actor in others:
        assert troupe.answer(actor)["assignment"] == actor.encode()


def _instance(actor: str) -> str | None:
    return actor if actor.isupper() else None


@pytest.mark.parametrize("version", range(10))
def test_a_life_in_every_version(stage: Stage, version: int) -> None:
    troupe = stage(f"life-{version}")
    sync, beat, leave = min(version, 5), min(version, 4), min(version, 5)
    enter(troupe, "a", "b", version=version)
    troupe.describe()
    protocol = ("consumer", "range") if sync >= 5 else (None, None)
    troupe.sync("b", version=sync, protocol=protocol, waits=True)
    troupe.beat("a", version=beat)
    troupe.sync("a", version=sync, protocol=protocol, given={"a": b"A", "b": b"B"})
    assert troupe.answer("b")["assignment"] == b"B"
    troupe.describe()
    troupe.beat("b", version=beat)
    troupe.beat("b", older=1, version=beat)
    troupe.beat("b", older=-1, version=beat)
    troupe.beat("b", "nobody", version=beat)
    troupe.join("b", "b", version=version)
    troupe.join("a", "a", version=version, waits=True)
    troupe.beat("b", version=beat)
    troupe.sync("b", version=sync, protocol=protocol)
    troupe.describe()
    troupe.join("b", "b", version=version)
    assert troupe.answer("a")["generation_id"] == 3
    troupe.leave("b", ("b", None), version=leave)
    troupe.leave("b", ("b", None), version=leave)
    troupe.join("a", "a", version=version)
    troupe.leave("a", ("a", None), version=leave)
    troupe.describe()
    troupe.join("a", "a", version=version)


def test_what_is_refused_without_a_group(stage: Stage) -> None:
    troupe = stage("refused")
    for version in (0, 5, 9):
        troupe.join("a", group="", version=version)
        troupe.join("a", "nobody", version=version)
        troupe.join("a", "nobody", group="", version=version)
        for session_ms in (5_999, 1_800_001, -1, 0):
            troupe.join("a", session_ms=session_ms, version=version)
        troupe.join("a", "nobody", session_ms=1, version=version)
    for version in (0, 3, 5):
        troupe.sync("a", "nobody", group="", version=version)
        troupe.sync("a", "nobody", version=version)
        troupe.sync("a", "nobody", version=version, protocol=(None, None))
        troupe.sync("a", "nobody", group="", version=version, protocol=(None, None))
    for version in (0, 4):
        troupe.beat("a", "nobody", group="", version=version)
        troupe.beat("a", "nobody", version=version)
    for version in (0, 2, 3, 5):
        troupe.leave("a", ("nobody", None), group="", version=version)
        troupe.leave("a", ("nobody", None), version=version)
    troupe.leave("a")
    troupe.leave("a", ("nobody", None), (None, "i"), (None, None), ("nobody", "i"))


def test_protocols_have_to_fit(stage: Stage) -> None:
    troupe = stage("protocols")
    enter(troupe, "a")
    for state in ("completing", "stable", "preparing"):
        if state == "stable":
            settle(troupe, "a")
        if state == "preparing":
            troupe.join("x", version=3, names=("range", "sticky"), waits=True)
        for member in (None, "a"):
            for version in (3, 9):
                troupe.join("b", member, protocol_type="connect", version=version)
                troupe.join("b", member, names=("sticky",), version=version)
                troupe.join("b", member, names=(), version=version)
                troupe.join("b", member, protocol_type="", version=version)
        troupe.describe()
    troupe.join("a", "a", names=("range", "sticky"), waits=True)
    assert troupe.answer("a")["protocol_name"] == "range"
    troupe.answer("x")
    for protocol in [
        ("connect", "range"),
        ("consumer", "sticky"),
        ("consumer", ""),
        ("", "range"),
        (None, "range"),
    ]:
        troupe.sync("a", protocol=protocol)
    troupe.sync("a", protocol=("consumer", "sticky"), version=4)
    settle(troupe, "a")


@pytest.mark.parametrize(
    "names",
    [
        *itertools.combinations(("range", "roundrobin", "sticky", "cooperative-sticky"), 2),
        ("a", "b"),
        ("é", "ü"),
    ],
)
def test_votes_that_are_equal(stage: Stage, names: tuple[str, str]) -> None:
    troupe = stage("votes-" + "-".join(names))
    first, second = names
    troupe.join("a", version=3, names=(first, second))
    troupe.join("b", version=3, names=(second, first), waits=True)
    troupe.join("a", "a", version=3, names=(first, second))
    troupe.answer("b")
    troupe.leave("a", ("a", None), ("b", None))


def test_members_come_and_go(stage: Stage) -> None:
    troupe = stage("rebalances")
    enter(troupe, "a", "b")
    settle(troupe, "a", "b")
    troupe.join("c")
    troupe.beat("c")
    troupe.sync("c")
    troupe.describe()
    troupe.join("c", "c", waits=True)
    for actor in ("a", "b", "c"):
        troupe.beat("x", actor)
        troupe.sync("x", actor)
    troupe.beat("x", "a", older=-1)
    troupe.describe()
    rejoin(troupe, "b")
    troupe.still_waits("b")
    rejoin(troupe, "a")
    for actor in ("a", "b", "c"):
        assert troupe.answer(actor)["generation_id"] == 3
    troupe.join("b", "b")  # The answer was lost.
    troupe.join("a", "a")
    troupe.sync("b", older=1)
    troupe.sync("c", waits=True)
    troupe.join("b", "b", metadata=b"other", waits=True)  # Another subscription, in the middle of it.
    assert troupe.answer("c")["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
    rejoin(troupe, "a", "c")
    for actor in ("a", "b", "c"):
        assert troupe.answer(actor)["generation_id"] == 4
    troupe.sync("a", given={"b": b"all", "nobody": b"lost"})
    troupe.sync("b")
    troupe.sync("c")
    troupe.describe()
    troupe.join("b", "b", metadata=b"other")
    troupe.join("b", "b", metadata=b"third", waits=True)
    troupe.leave("a", ("a", None), ("c", None), ("c", None), ("nobody", None))
    assert troupe.answer("b")["generation_id"] == 5
    troupe.leave("b", ("b", None))
    troupe.describe()
    troupe.leave("b", ("b", None))


def test_one_that_is_expected(stage: Stage) -> None:
    troupe = stage("expected")
    troupe.join("a")
    troupe.describe()
    troupe.join("a", "a", instance="I")
    troupe.join("a", "a", protocol_type="")
    troupe.leave("x", ("a", None))
    troupe.join("a", "a")
    enter(troupe, "b")
    settle(troupe, "b")
    troupe.join("c")
    troupe.leave("x", ("c", None))  # Though it was only expected, the others have to join again.
    troupe.describe()
    troupe.join("d")
    troupe.join("b", "b", waits=True)
    troupe.still_waits("b")
    troupe.leave("x", ("d", None))
    assert troupe.answer("b")["generation_id"] == 2


def test_static_members(stage: Stage) -> None:
    troupe = stage("static")
    enter(troupe, "A", "b", "C")
    for member in ("A", "b", "nobody"):
        troupe.sync("x", member, instance="C")
        troupe.beat("x", member, instance="C")
        troupe.join("x", member, instance="C")
        troupe.leave("x", (member, "C"))
        troupe.sync("x", member, instance="Z")
        troupe.beat("x", member, instance="Z")
        troupe.join("x", member, instance="Z")
        troupe.leave("x", (member, "Z"))
    settle(troupe, "A", "b", "C")
    troupe.describe()
    old = troupe.ids["C"]
    for version in (5, 7, 9):
        troupe.join("C", instance="C", version=version)
        troupe.sync("C", instance="C")
        troupe.describe()
    troupe.ids["old C"] = old
    troupe.beat("x", "old C", instance="C")
    troupe.beat("x", "old C")
    troupe.sync("x", "old C", instance="C")
    troupe.join("x", "old C", instance="C")
    troupe.leave("x", ("old C", "C"))
    for version in (5, 8, 9):  # The leader comes back.
        troupe.join("A", instance="A", version=version)
        troupe.sync("A", instance="A")
    troupe.join("A", "A", instance="A", waits=True)
    troupe.join("C", instance="C", metadata=b"other", waits=True)
    troupe.join("b", "b", waits=True)
    for actor in ("A", "b", "C"):
        assert troupe.answer(actor)["generation_id"] == 4
    troupe.sync("C", instance="C", waits=True)
    troupe.join("C2", instance="C", waits=True)  # It takes the place of one that waits to sync.
    assert troupe.answer("C")["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    troupe.join("C3", instance="C", waits=True)  # And this one of one that waits to join.
    assert troupe.answer("C2")["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    troupe.describe()
    troupe.leave("x", (None, "A"), (None, "C"), (None, "Z"), (None, None))
    assert troupe.answer("C3")["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    troupe.join("b", "b")
    troupe.describe()


def test_a_static_member_with_another_favourite_protocol(stage: Stage) -> None:
    troupe = stage("favourite")
    troupe.join("A", instance="A", names=("range", "sticky"))
    troupe.sync("A", instance="A", given={"A": b"all"})
    assert troupe.join("A", instance="A", names=("sticky", "range"))["protocol_name"] == "sticky"


def test_a_group_has_room_for_so_many(stage: Stage) -> None:
    troupe = stage("full")
    enter(troupe, *"abcde")
    troupe.join("f")
    troupe.join("F", instance="F")
    settle(troupe, *"abcde")
    for version in (0, 4, 9):
        troupe.join("f", version=version)
    troupe.join("F", instance="F")
    troupe.join("b", "b")
    troupe.join("a", "a", waits=True)
    troupe.join("f")
    for actor in "bcde":
        troupe.join(actor, actor, waits=True)
    troupe.leave("x", ("f", None))
    for actor in "abcde":
        assert troupe.answer(actor)["generation_id"] == 6


def test_time_runs_out(stage: Stage) -> None:
    """Sessions, rebalances and syncs that end; both brokers wait out the same times."""
    troupe = stage("time")
    soon: dict[str, Any] = {"session_ms": 6_000, "rebalance_ms": 1_500}
    enter(troupe, "a", "b", "c", **soon)
    settle(troupe, "a", "b", "c")
    troupe.join("b", "b", metadata=b"other", waits=True, **soon)
    assert troupe.answer("b")["members"], "the leader and the third did not come in time: it leads now"
    troupe.beat("x", "a")
    troupe.describe()
    begin(troupe, "D", **soon)
    rejoin(troupe, "b", **soon)
    for actor in ("b", "D"):
        assert troupe.answer(actor)["generation_id"] == 5
    troupe.sync("b", given={"b": b"B", "D": b"D"})  # D does not ask for its part in time.
    troupe.beat_until("b", ErrorCode.REBALANCE_IN_PROGRESS)
    troupe.beat("x", "D", instance="D")
    troupe.join("b", "b", **soon)
    troupe.describe()


def test_the_list_of_groups_and_their_end(stage: Stage) -> None:
    troupe = stage("ends")
    enter(troupe, "a")
    deletion = delete_groups.DeleteGroupsRequest(groups_names=["ends"])
    troupe.ask("delete", deletion, 2)
    settle(troupe, "a")
    troupe.ask("delete", deletion, 2)
    troupe.leave("a", ("a", None))
    for states in ([], ["Stable"], ["Empty"], ["PreparingRebalance"]):
        troupe.ask("list", list_groups.ListGroupsRequest(states_filter=states), 5)
    troupe.ask("delete", deletion, 2)
    troupe.describe()
    troupe.join("a", "a")
    enter(troupe, "b")


def test_the_logs_say_the_same(stage: Stage, directory: Path) -> None:
    """Of this group now; of those of the other tests when all have run (`told`)."""
    troupe = stage("logged")
    enter(troupe, "a", "b")
    settle(troupe, "a", "b")
    troupe.leave("a", ("a", None))
    ours, theirs = rows_of(troupe, directory)
    assert ours == theirs
    assert ours, "a generation is a row"


def rows_of(troupe: Troupe, directory: Path) -> tuple[list[Any], list[Any]]:
    """What both logs hold of a group."""
    return troupe.rows(directory / "semel", 0), troupe.rows(directory / "kafka" / "data", 1)
