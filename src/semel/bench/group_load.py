"""Members of consumer groups as load on a broker that is not bound by its client.

Role.   `MemberWire` is one member on a plain socket. `WireGroup` is many of them that rebalance; `join_to_first_record` is the whole
        way of a new consumer; `commit` stores offsets as fast as they are taken.
Rules.  * Frames are encoded once, through the codec; what changes from one rebalance to the next (the generation, who leads) is
          written into their bytes. The driver's share of a rebalance of 50 members stays far below the broker's.
        * The leader's assignment is made beforehand: dividing is the clients' work.
        * Members are told of a rebalance by the heartbeat they send at once: no client waits for its interval.
        * Every answer is checked.
"""

import time
from struct import Struct
from typing import Final

from semel.bench.broker_load import (
    Load,
    LoadError,
    SmallRequests,
    Stopwatch,
    Wire,
    check,
    exchange,
    fetch_first,
    frame,
)
from semel.core.groups.assignors.members import Member
from semel.core.groups.assignors.protocol import (
    PROTOCOL_TYPE,
    MemberAssignment,
    encode_assignment,
    encode_subscription,
)
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from semel.core.wire.messages.leave_group import LeaveGroupRequest
from semel.core.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from semel.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from semel.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.types import TopicPartition

# The newest versions without compact lengths: their fields stand where they stand.
_JOIN_VERSION: Final = 5
_JOIN_UNASKED_VERSION: Final = 3  # Gives a member its id at once.
_SYNC_VERSION: Final = 3
_HEARTBEAT_VERSION: Final = 3
_LEAVE_VERSION: Final = 2
_COMMIT_VERSION: Final = 7
_OFFSET_FETCH_VERSION: Final = 5
_FIND_VERSION: Final = 2
_LIST_VERSION: Final = 5
_SESSION_MS: Final = 45_000
_REBALANCE_MS: Final = 60_000
_ASSIGNOR: Final = "range"
_EARLIEST: Final = -2
_READY_SECONDS: Final = 60.0
_GENERATION: Final = Struct(">i")
_GENERATION_MARK: Final = 0x5E4E15E4
_THROTTLED_CODE: Final = Struct(">iih")  # Correlation id, throttle time, error code: how these answers begin.
_JOINED: Final = Struct(">iihi")  # The same, and the generation.


class MemberWire:
    """One member on a connection of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.wire = Wire(bootstrap)
        self._group = group
        self._subscription = encode_subscription(Member("", [topic]), version=1)
        self.member_id = ""
        self.assignment = b""
        self._heartbeat = self._sync = b""
        self._leading_sync = b""
        self._join = b""

    def close(self) -> None:
        self.wire.socket.close()

    def join_anew(self) -> None:
        """Ask to be a member; the answer comes when the group has rebalanced."""
        self.wire.socket.sendall(self._join_frame(_JOIN_UNASKED_VERSION, ""))

    def _join_frame(self, version: int, member_id: str) -> bytes:
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=_ASSIGNOR, metadata=self._subscription)],
        )
        return frame(ApiKey.JOIN_GROUP, request, version, 1)

    def learn(self) -> tuple[int, bool]:
        """Take the answer of `join_anew`: the generation, and whether this member leads."""
        answer = self.wire.receive()
        response = JoinGroupResponse.decode(answer, _JOIN_UNASKED_VERSION, 4)
        check("joining", response.error_code)
        self.member_id = response.member_id
        self._prepare()
        return response.generation_id, response.leader == response.member_id

    def _prepare(self) -> None:
        self._join = self._join_frame(_JOIN_VERSION, self.member_id)
        self._heartbeat = frame(
            ApiKey.HEARTBEAT,
            HeartbeatRequest(group_id=self._group, generation_id=_GENERATION_MARK, member_id=self.member_id),
            _HEARTBEAT_VERSION,
            1,
        )
        self._sync = self._sync_frame([])

    def _sync_frame(self, assignments: list[SyncGroupRequestAssignment]) -> bytes:
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=_GENERATION_MARK,
            member_id=self.member_id,
            assignments=assignments,
        )
        return frame(ApiKey.SYNC_GROUP, request, _SYNC_VERSION, 1)

    def prepare_to_lead(self, members: "list[MemberWire]") -> None:
        """Have the assignment of everybody ready."""
        self._leading_sync = self._sync_frame(
            [
                SyncGroupRequestAssignment(member_id=one.member_id, assignment=one.assignment)
                for one in members
            ]
        )

    def beat(self, generation: int) -> None:
        self.wire.socket.sendall(_in_generation(self._heartbeat, generation))

    def must_rejoin(self) -> bool:
        """Take the answer of `beat`."""
        code = _THROTTLED_CODE.unpack_from(self.wire.receive())[2]
        if code != ErrorCode.REBALANCE_IN_PROGRESS:
            check("a heartbeat", code)
        return bool(code)

    def rejoin(self) -> None:
        self.wire.socket.sendall(self._join)

    def joined(self) -> int:
        """Take the answer of `rejoin`: the generation."""
        _id, _throttle, code, generation = _JOINED.unpack_from(self.wire.receive())
        check("joining again", code)
        return int(generation)

    def sync(self, generation: int, *, leads: bool) -> None:
        self.wire.socket.sendall(_in_generation(self._leading_sync if leads else self._sync, generation))

    def synced(self) -> None:
        """Take the answer of `sync`: this member's part, as the leader gave it."""
        answer = self.wire.receive()
        check("syncing", _THROTTLED_CODE.unpack_from(answer)[2])
        if not answer.endswith(self.assignment):
            raise LoadError(f"{self.member_id} got another part than its leader gave it")

    def leave(self) -> None:
        request = LeaveGroupRequest(group_id=self._group, member_id=self.member_id)
        check("leaving", self.wire.ask(ApiKey.LEAVE_GROUP, request, _LEAVE_VERSION).error_code)


def _in_generation(request: bytes, generation: int) -> bytes:
    return request.replace(_GENERATION.pack(_GENERATION_MARK), _GENERATION.pack(generation), 1)


class WireGroup:
    """A group of members that stays, and one that comes and goes."""

    def __init__(self, bootstrap: str, group: str, topic: str, size: int) -> None:
        self.members = [MemberWire(bootstrap, group, topic) for _ in range(size)]
        self.guest = MemberWire(bootstrap, group, topic)
        for number, member in enumerate([*self.members, self.guest]):
            member.assignment = encode_assignment(
                MemberAssignment([TopicPartition(topic, number)]), version=1
            )
        self._leader = self.members[0]
        self.generation = 0
        self._found()

    def close(self) -> None:
        for member in (*self.members, self.guest):
            member.close()

    def _found(self) -> None:
        """All join the empty group one after the other; the first leads."""
        self._leader.join_anew()
        self.generation, leads = self._leader.learn()
        if not leads:
            raise LoadError("the first member of an empty group does not lead it")
        self._leader.prepare_to_lead([self._leader])
        self._leader.sync(self.generation, leads=True)
        self._leader.synced()
        inside = [self._leader]
        for member in self.members[1:]:
            self._let_in(member, inside)
            inside.append(member)

    def _let_in(self, newcomer: MemberWire, inside: list[MemberWire]) -> None:
        newcomer.join_anew()
        self._call_back(inside)
        for one in inside:
            self.generation = one.joined()
        newcomer.learn()
        everybody = [*inside, newcomer]
        self._leader.prepare_to_lead(everybody)
        self._divide(everybody)

    def _call_back(self, inside: list[MemberWire]) -> None:
        """Everybody hears of the rebalance and joins again."""
        deadline = time.monotonic() + _READY_SECONDS
        waiting = inside
        while waiting:
            for one in waiting:
                one.beat(self.generation)
            waiting = [one for one in waiting if not self._rejoins(one)]
            if time.monotonic() > deadline:
                raise LoadError("nobody was told of the rebalance")

    @staticmethod
    def _rejoins(one: MemberWire) -> bool:
        if not one.must_rejoin():
            return False
        one.rejoin()
        return True

    def _divide(self, everybody: list[MemberWire]) -> None:
        for one in everybody:
            one.sync(self.generation, leads=one is self._leader)
        for one in everybody:
            one.synced()

    def rebalances(self, count: int) -> Load:
        """The guest comes and goes: a rebalance each time, timed from its request to the last member's part."""
        self.guest.join_anew()  # Once untimed: its id, and the frames that hang on it, are new each time it comes.
        self._finish_coming()
        self._guest_goes()
        watch = Stopwatch()
        latencies: list[float] = []
        for number in range(count):
            began = time.perf_counter()
            if number % 2 == 0:
                self.guest.join_anew()
                self._finish_coming()
            else:
                self._guest_goes()
            latencies.append(time.perf_counter() - began)
        seconds, cpu = watch.seconds()
        if count % 2:
            self._guest_goes()
        return Load(seconds, cpu, count, 0, latencies)

    def _finish_coming(self) -> None:
        self._call_back(self.members)
        for one in self.members:
            self.generation = one.joined()
        self.guest.learn()
        everybody = [*self.members, self.guest]
        self._leader.prepare_to_lead(everybody)
        self._divide(everybody)

    def _guest_goes(self) -> None:
        self.guest.leave()
        self._call_back(self.members)
        for one in self.members:
            self.generation = one.joined()
        self._leader.prepare_to_lead(self.members)
        self._divide(self.members)


def await_coordinator(wire: Wire, group: str) -> None:
    """Until the broker coordinates this group: the first one has its topic made."""
    deadline = time.monotonic() + _READY_SECONDS
    request = FindCoordinatorRequest(key=group)
    fetch = OffsetFetchRequest(group_id=group, topics=[])
    while True:
        found = wire.ask(ApiKey.FIND_COORDINATOR, request, _FIND_VERSION)
        if not found.error_code:
            asked = wire.ask(ApiKey.OFFSET_FETCH, fetch, _OFFSET_FETCH_VERSION)
            if not asked.error_code:
                return
        if time.monotonic() > deadline:
            raise LoadError(f"no coordinator for {group}: {ErrorCode(found.error_code).name}")
        time.sleep(0.02)


def join_to_first_record(bootstrap: str, topic: str, group: str) -> float:
    """Seconds from nothing to records: connect, find, join, sync, where to begin, fetch."""
    began = time.perf_counter()
    member = MemberWire(bootstrap, group, topic)
    try:
        wire = member.wire
        found = wire.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key=group), _FIND_VERSION)
        check("finding the coordinator", found.error_code)
        member.assignment = encode_assignment(MemberAssignment([TopicPartition(topic, 0)]), version=1)
        member.join_anew()
        generation, _leads = member.learn()
        member.prepare_to_lead([member])
        member.sync(generation, leads=True)
        member.synced()
        places = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
        stored = wire.ask(
            ApiKey.OFFSET_FETCH, OffsetFetchRequest(group_id=group, topics=places), _OFFSET_FETCH_VERSION
        )
        check("asking for committed offsets", stored.error_code)
        earliest = ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=_EARLIEST)]
        )
        asked = ListOffsetsRequest(replica_id=-1, topics=[earliest])
        begins = wire.ask(ApiKey.LIST_OFFSETS, asked, _LIST_VERSION).topics[0].partitions[0]
        check("asking where the log begins", begins.error_code)
        fetch_first(wire, topic)
        seconds = time.perf_counter() - began
        member.leave()
        return seconds
    finally:
        member.close()


def commit(bootstrap: str, topic: str, group: str, *, count: int, in_flight: int) -> Load:
    """A member stores an offset of one partition, again and again."""
    member = MemberWire(bootstrap, group, topic)
    try:
        member.assignment = encode_assignment(MemberAssignment([TopicPartition(topic, 0)]), version=1)
        member.join_anew()
        generation, _leads = member.learn()
        member.prepare_to_lead([member])
        member.sync(generation, leads=True)
        member.synced()
        frames = [_commit_frame(member, group, topic, generation, number) for number in range(count)]
        requests = SmallRequests(b"".join(frames), len(frames[0]), 0, count)
        load, answers = exchange(member.wire, requests, in_flight=in_flight)
        for answer in answers:
            stored = OffsetCommitResponse.decode(answer, _COMMIT_VERSION, 4)
            check("committing", stored.topics[0].partitions[0].error_code)
        if len(answers) != count:
            raise LoadError(f"{len(answers)} answers to {count} commits")
        member.leave()
        return load
    finally:
        member.close()


def _commit_frame(member: MemberWire, group: str, topic: str, generation: int, offset: int) -> bytes:
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member.member_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[place])],
    )
    return frame(ApiKey.OFFSET_COMMIT, request, _COMMIT_VERSION, 1)
