"""Random lives of a classic group keep its promises.

Method: six clients, some of them static, join, sync, beat, leave, forget who they are, ask twice, fall silent, while time
passes and the coordinator is restarted, as Hypothesis likes. The leader gives each member of the list it was told a part
that names generation and member, so that every assignment tells where it comes from. After each step:

- a group that has members has one leader, which is one of them, and a protocol all of them know;
- no two members have one instance id; what is counted agrees with what is there;
- whoever is told a generation's members leads it; who syncs gets the part its generation's leader gave to it, or, if it is
  static and came back, to the one it was before;
- what the log holds is the group: replayed, it equals the living one wherever no rebalance is under way.

At the end, after hours of silence, every question has been answered, once (the desk checks that), and nobody is left.
"""

from dataclasses import dataclass
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.classic.states import ClassicGroupState
from semel.core.groups.group import GroupSettings
from semel.core.wire.messages.join_group import JoinGroupResponse
from semel.core.wire.messages.sync_group import SyncGroupResponse
from semel.errors import ErrorCode
from support.groups.classic_kit import GROUP, SESSION_MS, ClassicWorld, subscription

CLIENTS: Final = 6
STATIC: Final = ("a", "b", "b", None, None, None)
"""Two clients believe to be the same instance."""
NAMES: Final = (("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",))
TOPICS: Final = (("orders",), ("orders", "stock"))
HOURS_MS: Final = 3 * 3_600_000


@dataclass
class Client:
    """The state a client knows of itself."""

    instance: str | None
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    told: tuple[str, ...] = ()
    joins: int | None = None
    """Its request that waits."""
    syncs: int | None = None


class Lives(RuleBasedStateMachine):
    """One group and everybody who wants to be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = ClassicWorld(GroupSettings(group_max_size=4))
        self.clients = [Client(instance) for instance in STATIC]
        self.life = 0
        """Counts restarts: a generation that was not stable may be given out again after one."""
        self.leaders: dict[tuple[int, int], set[str]] = {}
        self.replaced: dict[str, set[str]] = {}
        """Member id -> the ids its instance had before."""
        self.instances: dict[str, list[str]] = {}

    # What clients do

    @rule(
        number=st.integers(0, CLIENTS - 1),
        version=st.sampled_from((0, 3, 4, 5, 9)),
        names=st.sampled_from(NAMES),
        topics=st.sampled_from(TOPICS),
        session_ms=st.sampled_from((SESSION_MS, 3 * SESSION_MS)),
    )
    def join(
        self, number: int, version: int, names: tuple[str, ...], topics: tuple[str, ...], session_ms: int
    ) -> None:
        client = self.clients[number]
        ticket = self.world.join(
            client.member_id,
            instance=client.instance,
            version=version if client.instance is None else max(version, 5),
            names=names,
            metadata=subscription(*topics),
            session_ms=session_ms,
        )
        client.joins = ticket
        self.note()

    @rule(number=st.integers(0, CLIENTS - 1))
    def sync(self, number: int) -> None:
        client = self.clients[number]
        group = self.world.coordinator.group(GROUP)
        if group is None:
            return
        given = {one: part(client.generation, one) for one in client.told} if client.leads else {}
        client.syncs = self.world.sync(
            client.member_id,
            client.generation,
            instance=client.instance,
            given=given,
            protocol=("consumer", group.protocol_name or "range"),
        )
        self.note()

    @rule(number=st.integers(0, CLIENTS - 1))
    def heartbeat(self, number: int) -> None:
        client = self.clients[number]
        code = self.world.heartbeat(client.member_id, client.generation, instance=client.instance)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""
        self.note()

    @rule(number=st.integers(0, CLIENTS - 1), by_instance=st.booleans())
    def leave(self, number: int, by_instance: bool) -> None:
        client = self.clients[number]
        if not client.member_id and not by_instance:
            return
        anonymous = by_instance and client.instance is not None
        self.world.leave(("" if anonymous else client.member_id, client.instance))
        self.note()

    @rule(number=st.integers(0, CLIENTS - 1))
    def forget(self, number: int) -> None:
        """The client was restarted."""
        self.clients[number].member_id = ""

    @rule(number=st.integers(0, CLIENTS - 1))
    def commit(self, number: int) -> None:
        group = self.world.coordinator.group(GROUP)
        if group is not None:
            group.commit_heard(self.clients[number].member_id, self.world.now_ms)

    @rule(ms=st.sampled_from((1, 500, 3_000, 6_000, 11_000, 61_000)))
    def pass_time(self, ms: int) -> None:
        self.world.pass_time(ms)
        self.note()

    @rule(
        numbers=st.lists(st.integers(0, CLIENTS - 1), min_size=1, max_size=CLIENTS, unique=True),
        patient=st.booleans(),
        syncing=st.booleans(),
    )
    def good_round(self, numbers: list[int], patient: bool, syncing: bool) -> None:
        """These do as they should, so that groups get stable more often than chance would have it."""
        for number in numbers:
            for _ in range(2):  # With the id they are given, if they are given one.
                if self.clients[number].joins is None:
                    self.join(number, 9, NAMES[1], TOPICS[0], SESSION_MS)
        for _ in range(7 if patient else 2):
            self.pass_time(3_000)
            for number in numbers:
                if self.clients[number].joins is None:
                    self.heartbeat(number)
        if syncing:
            for number in sorted(numbers, key=lambda one: self.clients[one].leads):
                if self.clients[number].joins is None:
                    self.sync(number)

    @precondition(lambda self: self.world.log)
    @rule()
    def restart(self) -> None:
        self.world.reload()
        self.life += 1
        for client in self.clients:
            client.joins = client.syncs = None
        self.note()

    # Answers to clients

    def note(self) -> None:
        for client in self.clients:
            if client.joins in self.world.answers:
                self.note_join(client, self.world.joined(client.joins))
                client.joins = None
            if client.syncs in self.world.answers:
                self.note_sync(client, self.world.synced(client.syncs))
                client.syncs = None

    def note_join(self, client: Client, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""
        if answer.error_code:
            assert not answer.members
            return
        client.member_id, client.generation = answer.member_id, answer.generation_id
        client.leads = answer.leader == answer.member_id and not answer.skip_assignment
        client.told = tuple(one.member_id for one in answer.members)
        if answer.members:
            assert answer.leader == answer.member_id, "only the leader is told who is in the group"
            assert answer.member_id in client.told
            self.leaders.setdefault((self.life, answer.generation_id), set()).add(answer.member_id)
        if client.instance is not None:
            before = self.instances.setdefault(client.instance, [])
            if answer.member_id not in before:
                self.replaced[answer.member_id] = set(before)
                before.append(answer.member_id)

    def note_sync(self, client: Client, answer: SyncGroupResponse) -> None:
        if answer.error_code:
            assert answer.assignment == b""
            return
        if answer.assignment:
            ours = {client.member_id} | self.replaced.get(client.member_id, set())
            assert answer.assignment in {part(client.generation, one) for one in ours}

    # What always holds

    @invariant()
    def it_is_consistent(self) -> None:
        group = self.world.coordinator.group(GROUP)
        if group is None:
            return
        members = group.members.values()
        assert (group.leader_id in group.members) if group.members else group.leader_id is None
        instances = [one.group_instance_id for one in members if one.group_instance_id is not None]
        assert len(instances) == len(set(instances))
        assert group.static_members == {
            one.group_instance_id: one.member_id for one in members if one.group_instance_id is not None
        }
        assert group.awaiting_join == sum(one.join_ticket is not None for one in members)
        assert not group.pending_joins.keys() & group.members.keys()
        assert group.pending_syncs.keys() <= group.members.keys()
        common = {"range", "sticky"}.intersection(*(one.protocol_names() for one in members))
        assert common or not members
        assert (group.initial_delay is not None) <= (group.state is ClassicGroupState.PREPARING_REBALANCE)
        waiting: set[object] = {one.join_ticket for one in members} | {one.sync_ticket for one in members}
        assert waiting - {None} == set(self.world.open), "what is open is held by a member"
        match group.state:
            case ClassicGroupState.EMPTY:
                assert not members
            case ClassicGroupState.PREPARING_REBALANCE:
                assert not any(one.sync_ticket for one in members)
            case ClassicGroupState.COMPLETING_REBALANCE:
                assert members
                assert not group.awaiting_join
                assert group.protocol_name in common
            case ClassicGroupState.STABLE:
                assert members
                assert not group.awaiting_join
                assert not any(one.sync_ticket for one in members)
                assert group.protocol_name in common
            case ClassicGroupState.DEAD:
                raise AssertionError("nobody deleted it")

    @invariant()
    def the_log_holds_it(self) -> None:
        group = self.world.coordinator.group(GROUP)
        replayed = self.world.fork().coordinator.group(GROUP)
        assert (group is None) == (replayed is None)
        if group is None or replayed is None:
            return
        assert replayed.state in (ClassicGroupState.EMPTY, ClassicGroupState.STABLE)
        if group.state is replayed.state and group.generation_id == replayed.generation_id:
            assert what_survives(group) == what_survives(replayed)
        else:
            assert group.state in (
                ClassicGroupState.PREPARING_REBALANCE,
                ClassicGroupState.COMPLETING_REBALANCE,
            )

    def teardown(self) -> None:
        self.world.pass_time(HOURS_MS)
        self.note()
        assert not self.world.open
        assert self.world.state in ("none", "Empty")
        assert self.world.coordinator.next_deadline_ms() is None
        for leaders in self.leaders.values():
            # More than one id only if it is the same static member, come back.
            roots = {next((i for i, ids in self.instances.items() if one in ids), one) for one in leaders}
            assert len(roots) == 1, leaders


def part(generation: int, member_id: str) -> bytes:
    return f"{generation}:{member_id}".encode()


def what_survives(group: ClassicGroup) -> object:
    name = group.protocol_name or ""
    return (
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        group.subscribed_topics,
        {
            one.member_id: (
                one.group_instance_id,
                one.client_id,
                one.client_host,
                one.session_timeout_ms,
                one.rebalance_timeout_ms,
                one.metadata(name),
                one.assignment,
            )
            for one in group.members.values()
        },
    )


TestLives = Lives.TestCase
TestLives.settings = settings(stateful_step_count=40)
