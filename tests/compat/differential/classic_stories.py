"""Both brokers as one, for stories of classic groups: every request goes to both and must be answered alike.

A `Troupe` plays one group. Each actor has a connection of its own to each broker, so that one may wait for a rebalance
while others go on. Member ids differ between the brokers; in answers they are shown by the actor's name and a number, and
a story names them by the actor. Every field of every answer is compared, except how long a client is throttled.
"""

import difflib
import pprint
import re
import select
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from compat.differential.exchange import Side
from semel.core.groups.rows import GROUP_ROWS
from semel.core.records import batch
from semel.core.records.build import iter_records
from semel.core.wire import framing
from semel.core.wire.framing import RequestHeader
from semel.core.wire.message import Message
from semel.core.wire.messages import describe_groups, heartbeat, join_group, leave_group, sync_group
from semel.core.wire.messages.group_rows import GroupMetadataKey, GroupMetadataValue
from semel.core.wire.registry import BY_KEY, ApiKey
from semel.core.wire.schema import Struct
from support.compat.compat_kit import eventually

_UNIQUE: Final = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_CLIENT: Final = "client"
_IGNORED: Final = frozenset({"throttle_time_ms", "error_message", "current_state_timestamp"})
Build = Callable[[int], Message]


@dataclass
class Troupe:
    """Everybody in one group, at both brokers. Side 0 is ours."""

    group: str
    brokers: tuple[Side, Side]
    labels: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))
    """For each side: member id -> what the story calls it."""
    ids: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Actor -> its latest member id at each side."""
    generation: int = 0
    """The last that anybody was told of: what members say they are in."""
    log: list[str] = field(default_factory=list)
    _connections: dict[tuple[str, int], Side] = field(default_factory=dict)
    _waiting: dict[str, tuple[str, ApiKey, int]] = field(default_factory=dict)

    # Requests

    def join(
        self,
        actor: str,
        member: str | None = None,
        *,
        instance: str | None = None,
        version: int = 9,
        names: Sequence[str] = ("range",),
        metadata: bytes = b"\x00\x00",
        protocol_type: str = "consumer",
        session_ms: int = 30_000,
        rebalance_ms: int = 30_000,
        waits: bool = False,
        group: str | None = None,
    ) -> Any:
        """`member` is an actor whose latest id is meant, or an id itself; None: no id yet."""

        def build(side: int) -> Message:
            return join_group.JoinGroupRequest(
                group_id=self.group if group is None else group,
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                member_id=self.id_of(member, side),
                group_instance_id=instance,
                protocol_type=protocol_type,
                protocols=[
                    join_group.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names
                ],
            )

        before = [self._look(side) for side in (0, 1)] if waits else []
        said = self._say(actor, f"{actor} joins as {member} {instance or ''}", build, version, waits=waits)
        for side, seen in enumerate(before):
            self._until_heard(side, seen, self.id_of(member, side))
        return said

    def sync(
        self,
        actor: str,
        member: str | None = None,
        *,
        older: int = 0,
        instance: str | None = None,
        version: int = 5,
        given: Mapping[str, bytes] | None = None,
        protocol: tuple[str | None, str | None] = ("consumer", "range"),
        waits: bool = False,
        group: str | None = None,
    ) -> Any:
        def build(side: int) -> Message:
            return sync_group.SyncGroupRequest(
                group_id=self.group if group is None else group,
                generation_id=self.generation - older,
                member_id=self.id_of(actor if member is None else member, side),
                group_instance_id=instance,
                protocol_type=protocol[0],
                protocol_name=protocol[1],
                assignments=[
                    sync_group.SyncGroupRequestAssignment(member_id=self.id_of(one, side), assignment=part)
                    for one, part in (given or {}).items()
                ],
            )

        return self._say(actor, f"{actor} syncs -{older} {instance or ''}", build, version, waits=waits)

    def beat(
        self,
        actor: str,
        member: str | None = None,
        *,
        older: int = 0,
        instance: str | None = None,
        version: int = 4,
        group: str | None = None,
    ) -> Any:
        def build(side: int) -> Message:
            return heartbeat.HeartbeatRequest(
                group_id=self.group if group is None else group,
                generation_id=self.generation - older,
                member_id=self.id_of(actor if member is None else member, side),
                group_instance_id=instance,
            )

        return self._say(actor, f"{actor} beats -{older} {instance or ''}", build, version)

    def leave(
        self,
        actor: str,
        *leavers: tuple[str | None, str | None],
        version: int = 5,
        group: str | None = None,
    ) -> Any:
        """Before version 3 one leaves, by its id; since then any number, each by id, instance or both."""

        def build(side: int) -> Message:
            request = leave_group.LeaveGroupRequest(group_id=self.group if group is None else group)
            if version < 3:
                request.member_id = self.id_of(leavers[0][0], side)
            else:
                request.members = [
                    leave_group.MemberIdentity(member_id=self.id_of(one, side), group_instance_id=instance)
                    for one, instance in leavers
                ]
            return request

        return self._say(actor, f"{actor} says that {leavers} leave", build, version)

    def describe(self) -> Any:
        request = describe_groups.DescribeGroupsRequest(groups=[self.group])
        return self._say("somebody", "describe", lambda _side: request, 6)["groups"][0]

    def ask(self, title: str, request: Message, version: int) -> Any:
        return self._say("somebody", title, lambda _side: request, version)

    def beat_until(self, actor: str, code: int) -> None:
        """Heartbeats, at each broker until it answers this: their clocks differ by a little."""
        for side in (0, 1):
            request = heartbeat.HeartbeatRequest(
                group_id=self.group, generation_id=self.generation, member_id=self.ids[actor][side]
            )
            eventually(partial(self._is_told, actor, side, request, code), f"{actor} is told {code}", 30)

    def _is_told(self, actor: str, side: int, request: Message, code: int) -> bool:
        self._send(actor, side, request, 4)
        answer = self._receive(actor, side, ApiKey.HEARTBEAT, 4)
        assert isinstance(answer, heartbeat.HeartbeatResponse)
        return answer.error_code == code

    def _look(self, side: int) -> describe_groups.DescribedGroup:
        request = describe_groups.DescribeGroupsRequest(groups=[self.group])
        self._send("somebody", side, request, 6)
        found = self._receive("somebody", side, ApiKey.DESCRIBE_GROUPS, 6)
        assert isinstance(found, describe_groups.DescribeGroupsResponse)
        return found.groups[0]

    def _until_heard(self, side: int, before: describe_groups.DescribedGroup, member_id: str) -> None:
        """Requests on other connections may overtake one that waits: let it be heard first, where that shows."""
        again = member_id in {one.member_id for one in before.members}
        if not (again and before.group_state == "PreparingRebalance"):
            eventually(lambda: repr(self._look(side)) != repr(before), "the request is heard", 10)

    # Between the brokers

    def id_of(self, member: str | None, side: int) -> str:
        if member is None:
            return ""
        return self.ids[member][side] if member in self.ids else member

    def answer(self, actor: str) -> Any:
        """What an actor that waits is told at last."""
        title, key, version = self._waiting.pop(actor)
        return self._compare(actor, title, [self._receive(actor, side, key, version) for side in (0, 1)])

    def still_waits(self, actor: str) -> None:
        """At neither broker has the actor been answered."""
        for side in (0, 1):
            socket = self._connections[actor, side]._socket
            assert socket is not None
            assert not select.select([socket], [], [], 0)[0], f"{actor} is answered by side {side}"

    def _say(self, actor: str, title: str, build: Build, version: int, *, waits: bool = False) -> Any:
        key = ApiKey(build(0).schema.api_key)
        title = f"{title} ({key.name} v{version})"
        for side in (0, 1):
            self._send(actor, side, build(side), version)
        self._waiting[actor] = title, key, version
        if waits:
            self.log.append(f"{title} waits")
            return None
        return self.answer(actor)

    def _send(self, actor: str, side: int, request: Message, version: int) -> None:
        connection = self._connections.get((actor, side))
        if connection is None:
            connection = Side(self.brokers[side].name, self.brokers[side].address)
            self._connections[actor, side] = connection
        header = RequestHeader(request.schema.api_key, version, 1, _CLIENT)
        assert not connection._send(framing.request_frame(header, request))

    def _receive(self, actor: str, side: int, key: ApiKey, version: int) -> Message:
        found = self._connections[actor, side]._receive()
        assert isinstance(found, bytes), f"{actor} at {self.brokers[side].name}: {found}\n{self._story()}"
        _, position = framing.read_response_header(found, BY_KEY[key].response_header(version))
        return BY_KEY[key].response.decode(found, version, position)

    def _compare(self, actor: str, title: str, answers: list[Message]) -> Any:
        for side, answer in enumerate(answers):
            if isinstance(answer, join_group.JoinGroupResponse):
                self._learn(actor, side, answer.member_id)
        shown = [self.plain(answer, side) for side, answer in enumerate(answers)]
        self.log.append(f"{title} -> {shown[0]}")
        lines = [pprint.pformat(one, width=100).splitlines() for one in shown]
        differ = "\n".join(difflib.unified_diff(lines[0], lines[1], "ours", "Kafka's", lineterm="", n=2))
        assert shown[0] == shown[1], f"{title}:\n{differ}\n{self._story()}"
        self.generation = max(self.generation, shown[0].get("generation_id", 0))
        return shown[0]

    def _learn(self, actor: str, side: int, member_id: str) -> None:
        if member_id and member_id not in self.labels[side] and re.search(_UNIQUE, member_id):
            prefix = re.sub(_UNIQUE, "", member_id)
            number = sum(label.startswith(f"{actor}#") for label in self.labels[side].values())
            self.labels[side][member_id] = f"{actor}#{number} {prefix}"
            both = list(self.ids.get(actor, ("", "")))
            both[side] = member_id
            self.ids[actor] = (both[0], both[1])

    def _story(self) -> str:
        return "\n".join(self.log[-15:])

    def plain(self, value: Any, side: int) -> Any:
        """As dictionaries and lists, members by what the story calls them."""
        if isinstance(value, Struct):
            return {
                name: self.plain(getattr(value, name), side)
                for name in type(value).__annotations__
                if name[0] != "_" and name not in _IGNORED
            }
        if isinstance(value, list):
            return sorted((self.plain(item, side) for item in value), key=repr)
        if isinstance(value, str):
            return self.labels[side].get(value, re.sub(_UNIQUE, "not told yet", value))
        return value

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    # What they wrote

    def rows(self, directory: Path, side: int) -> list[Any]:
        """Every row of this group, in order."""
        rows = []
        for file in sorted(directory.glob("__consumer_offsets-*/*.log")):
            data = file.read_bytes()
            for position, header in batch.headers(data):
                for record in iter_records(data, position, header):
                    row = GROUP_ROWS.decode(record)
                    if (
                        row is None
                        or not isinstance(row.key, GroupMetadataKey)
                        or row.key.group != self.group
                    ):
                        continue
                    value = row.value
                    assert value is None or isinstance(value, GroupMetadataValue)
                    rows.append((row.value_version, None if value is None else self.plain(value, side)))
        return rows
