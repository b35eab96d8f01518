"""Members of one group as processes, and what their diaries and the broker's own rows say about who owned what.

`Crew` starts, stops, kills, freezes and thaws members (tests/support/groups/group_process.py, tests/java/GroupMember.java) and knows their diaries.
`Ownership` compares the diaries with the rows of __consumer_offsets, in which the broker wrote every generation:

* in a generation no partition belongs to two members;
* what a client says it owns in a generation is what the broker wrote for it;
* when a partition comes to a new owner, the one before has let it go, unless it is no member of that generation any more;
* nothing is processed that is not owned.
"""

import itertools
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from semel.core.groups.assignors.protocol import decode_assignment
from semel.core.groups.rows import GROUP_ROWS, OFFSETS_TOPIC
from semel.core.wire.messages.group_rows import GroupMetadataKey, GroupMetadataValue
from semel.peers.kafka import KafkaHome
from support.compat.compat_kit import stored

_TESTS: Final = Path(__file__).parents[2]
_JAVA_TERMINATED: Final = 128 + signal.SIGTERM
OFFSETS_PARTITIONS: Final = 1
"""A broker for these tests keeps all groups in one partition."""


@dataclass
class MemberProcess:
    """One process, from its start to its end."""

    name: str
    client: str
    process: subprocess.Popen[bytes]
    diary_path: Path
    ended_ns: int | None = None
    """When it was killed, if it was."""
    is_frozen: bool = False

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def diary(self) -> list[dict[str, Any]]:
        """What it has written so far; a last line that is being written is left out."""
        if not self.diary_path.exists():
            return []
        lines = self.diary_path.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines]

    def owns(self) -> set[int]:
        owned: set[int] = set()
        for one in self.diary():
            match one["kind"]:
                case "owned":
                    owned = set(one["partitions"])
                case "revoked" | "lost":
                    owned -= set(one["partitions"])
                case "closed":
                    owned = set()
        return owned


@dataclass
class Crew:
    """All members of a group there ever were."""

    directory: Path
    bootstrap: str
    group: str
    topic: str
    assignor: str
    session_ms: int = 6000
    kafka_home: KafkaHome | None = None
    members: list[MemberProcess] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def start(self, client: str) -> MemberProcess:
        name = f"{client}-{next(self._numbers)}"
        diary = self.directory / f"{name}.diary"
        fields = [self.bootstrap, self.group, self.topic, self.assignor, str(diary), str(self.session_ms)]
        if client == "java":
            assert self.kafka_home is not None
            command = self.kafka_home.java(str(_TESTS / "java" / "GroupMember.java"), *fields, heap="128M")
        else:
            command = [sys.executable, str(Path(__file__).with_name("group_process.py")), client, *fields]
        with (self.directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        member = MemberProcess(name, client, process, diary)
        self.members.append(member)
        return member

    @property
    def alive(self) -> list[MemberProcess]:
        return [member for member in self.members if member.is_alive]

    def stop(self, member: MemberProcess, seconds: float = 60) -> None:
        """Ask it to leave and wait until it has."""
        self.thaw(member)
        member.process.send_signal(signal.SIGTERM)
        code = member.process.wait(seconds)
        if diary := member.diary():  # Else it was stopped before it was there.
            assert code in (0, _JAVA_TERMINATED), self.output(member)
            assert diary[-1]["kind"] == "closed", self.output(member)

    def kill(self, member: MemberProcess) -> None:
        member.process.kill()
        member.process.wait()
        member.ended_ns = time.monotonic_ns()

    def freeze(self, member: MemberProcess) -> None:
        member.process.send_signal(signal.SIGSTOP)
        member.is_frozen = True

    def thaw(self, member: MemberProcess) -> None:
        if member.is_frozen:
            member.process.send_signal(signal.SIGCONT)
            member.is_frozen = False

    def output(self, member: MemberProcess) -> str:
        """What it printed, for a failing test."""
        return (
            f"{member.name}: " + (self.directory / f"{member.name}.log").read_text(errors="replace")[-3000:]
        )

    def processed(self) -> Counter[tuple[int, int]]:
        """How often each offset of each partition was processed."""
        return Counter(
            (one["partition"], offset)
            for member in self.members
            for one in member.diary()
            if one["kind"] == "processed"
            for offset in one["offsets"]
        )

    def is_shared(self, partitions: int, members: Sequence[MemberProcess]) -> bool:
        """Whether these members own everything, each something, and nothing twice."""
        for member in members:
            assert member.is_alive, self.output(member)
        owned = [member.owns() for member in members]
        everything = [one for some in owned for one in some]
        return all(owned) and sorted(everything) == list(range(partitions))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for member in self.members:
            if member.is_alive:
                member.process.kill()
            member.process.wait()


@dataclass
class Ownership:
    """The broker's generations beside the members' diaries."""

    generations: list[GroupMetadataValue]

    @classmethod
    def read(cls, data_directory: Path, group: str) -> Self:
        """From the files of a broker that has stopped, or that nobody asks for changes any more."""
        rows = [
            GROUP_ROWS.decode(record)
            for partition in range(OFFSETS_PARTITIONS)
            for record in stored(data_directory, OFFSETS_TOPIC, partition)
        ]
        return cls(
            [
                row.value
                for row in rows
                if row is not None
                and isinstance(row.key, GroupMetadataKey)
                and row.key.group == group
                and isinstance(row.value, GroupMetadataValue)
            ]
        )

    def parts(self, generation: int) -> dict[str, set[int]]:
        """Who got what in it; empty if the broker wrote no such generation."""
        return {
            member.member_id: {one.partition for one in decode_assignment(member.assignment).partitions}
            for row in self.generations
            if row.generation == generation
            for member in row.members
        }

    def check(self, members: Sequence[MemberProcess], partitions: int, *, is_complete: bool) -> None:
        self._check_generations(partitions, is_complete=is_complete)
        for member in members:
            self._check_claims(member)
            _check_processing(member)
        for partition in range(partitions):
            self._check_handovers(partition, members)

    def _check_generations(self, partitions: int, *, is_complete: bool) -> None:
        assert any(row.members for row in self.generations), "nobody was ever a member"
        for row in self.generations:
            parts = self.parts(row.generation)
            given = Counter(one for part in parts.values() for one in part)
            twice = [one for one, count in given.items() if count > 1]
            assert not twice, f"generation {row.generation} gives {twice} to two members: {parts}"
            if is_complete and parts:
                assert len(given) == partitions, f"generation {row.generation} leaves partitions out: {parts}"

    def _check_claims(self, member: MemberProcess) -> None:
        for one in member.diary():
            if one["kind"] == "owned" and one["partitions"]:
                given = self.parts(one["generation"]).get(one["member"], set())
                assert set(one["partitions"]) <= given, f"{member.name} claims {one}, it was given {given}"

    def _check_handovers(self, partition: int, members: Sequence[MemberProcess]) -> None:
        """Each time somebody gets the partition, whoever had it before has let it go or is out."""
        turns = sorted(
            (turn for member in members for turn in _turns(member, partition)), key=lambda turn: turn.since_ns
        )
        for index, later in enumerate(turns):
            for earlier in turns[:index]:
                if earlier.process is later.process or earlier.until_ns <= later.since_ns:
                    continue
                if later.generation < earlier.generation:
                    continue  # It heard of its generation after the group had gone on: it is the one that is out.
                assert earlier.member_id not in self.parts(later.generation), (
                    f"partition {partition} came to {later.process.name} in generation {later.generation} while "
                    f"{earlier.process.name}, a member of that generation, still had it from {earlier.generation}"
                )


@dataclass
class _Turn:
    """One process owned a partition for a while."""

    process: MemberProcess
    member_id: str
    generation: int
    since_ns: int
    until_ns: int


def _turns(member: MemberProcess, partition: int) -> list[_Turn]:
    turns: list[_Turn] = []
    current: _Turn | None = None
    end_ns = member.ended_ns if member.ended_ns is not None else sys.maxsize
    for one in member.diary():
        if one["kind"] == "owned" and partition in one["partitions"]:
            if current is None:
                current = _Turn(member, one["member"], one["generation"], one["at"], end_ns)
                turns.append(current)
            current.member_id = one["member"]
        elif current is not None and (
            one["kind"] == "closed" or (one["kind"] in ("revoked", "lost") and partition in one["partitions"])
        ):
            current.until_ns = one["at"]
            current = None
    return turns


def _check_processing(member: MemberProcess) -> None:
    owned: set[int] = set()
    for one in member.diary():
        match one["kind"]:
            case "owned":
                owned = set(one["partitions"])
            case "revoked" | "lost":
                owned -= set(one["partitions"])
            case "processed":
                assert one["partition"] in owned, f"{member.name} processes {one}, it owns {owned}"
