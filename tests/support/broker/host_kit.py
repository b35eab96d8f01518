"""Shared by the tests of a coordinator's host: a shard as small as can be, on a real broker's partitions.

Names with numbers, and people who wait. The broker's applier has the host lead what the broker leads; `led_by` moves leadership as a
controller elsewhere would.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from semel.broker.coordinators.host import CoordinatorHost
from semel.broker.coordinators.internal_topics import create_internal_topic
from semel.core.coordination.outcome import LogRow, Origin, Outcome, Ticket
from semel.core.coordination.row_format import RowFormat
from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.metadata.rows import BrokerRow
from semel.core.wire.messages.group_rows import GroupMetadataKey, GroupMetadataValue
from semel.core.wire.messages.heartbeat import HeartbeatResponse
from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_ID
from support.broker.admin_kit import Client

TOPIC = "__toy"
HERE, ELSEWHERE = 1, 2
ROWS = RowFormat(TOPIC, {2: (GroupMetadataKey, GroupMetadataValue)})
NOTHING = HeartbeatResponse()
Host: TypeAlias = "CoordinatorHost[Toy, str]"


@dataclass
class Toy:
    """Names with numbers. Implements `Shard[str]`."""

    numbers: dict[str, int] = field(default_factory=dict)
    pending: dict[int, dict[str, int]] = field(default_factory=dict)
    waiting: list[Ticket] = field(default_factory=list)
    deadline_ms: int | None = None
    rung_at_ms: list[int] = field(default_factory=list)
    times: dict[str, int] = field(default_factory=dict)
    loads: int = 0

    def apply(self, row: LogRow, origin: Origin) -> None:
        assert isinstance(row.key, GroupMetadataKey)
        assert isinstance(row.value, GroupMetadataValue)
        where = self.numbers
        if origin.producer_id != NO_PRODUCER_ID:
            where = self.pending.setdefault(origin.producer_id, {})
        where[row.key.group] = row.value.generation
        self.times[row.key.group] = row.value.current_state_timestamp

    def apply_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        ended = self.pending.pop(producer_id, {})
        if commit:
            self.numbers |= ended

    def loaded(self, now_ms: int) -> Outcome[str]:
        self.loads += 1
        return Outcome()

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms

    def due(self, now_ms: int) -> Outcome[str]:
        if self.deadline_ms is not None and now_ms >= self.deadline_ms:
            self.deadline_ms = None
            self.rung_at_ms.append(now_ms)
        return Outcome()

    def answer(self, ticket: Ticket, row: LogRow | None = None, *, rows_only: bool = False) -> Outcome[str]:
        """Write the row and answer this ticket and everyone who waits."""
        tickets = [ticket, *self.waiting]
        self.waiting = []
        return Outcome(
            rows=[row] if row is not None else [],
            replies=[(one, HeartbeatResponse(throttle_time_ms=len(self.numbers))) for one in tickets],
            effects=[f"told {len(tickets)}"],
            rows_only=rows_only,
        )


def named(name: str, number: int, padding: int = 0) -> LogRow:
    value = GroupMetadataValue(protocol_type="p" * padding, generation=number, protocol="", leader="")
    return LogRow(GroupMetadataKey(group=name), value, 3)


def put(
    name: str, number: int, *, padding: int = 0, rows_only: bool = True
) -> Callable[[Toy, Ticket, int], Outcome[str]]:
    return lambda toy, ticket, _now_ms: toy.answer(ticket, named(name, number, padding), rows_only=rows_only)


def in_transaction(producer_id: int, _toy: Toy, _now_ms: int) -> Outcome[str]:
    rows = [named(f"by-{producer_id}", producer_id)]
    return Outcome(rows=rows, producer_id=producer_id, producer_epoch=0)


def wait(toy: Toy, ticket: Ticket, _now_ms: int) -> Outcome[str]:
    toy.waiting.append(ticket)
    return Outcome()


def numbers(host: Host) -> dict[str, int]:
    found = host.look(lambda toy: toy.numbers)
    assert not isinstance(found, ErrorCode), found
    return {name: number for one in found for name, number in one.items()}


def host_of(client: Client, effects: list[str] | None = None, partitions: int = 1) -> Host:
    parts = client.broker.parts

    async def create() -> None:
        await create_internal_topic(
            parts.store,
            client.broker.runtime,
            name=TOPIC,
            partitions_count=partitions,
            replication_factor=1,
            configs={"cleanup.policy": "compact"},
        )

    host: Host = CoordinatorHost(
        topic=TOPIC,
        row_format=ROWS,
        make_shard=lambda _index: Toy(),
        create_topic=create,
        partitions=parts.partitions,
        runtime=client.broker.runtime,
        row_times={GroupMetadataValue: ("current_state_timestamp",)},
        run_effect=lambda _index, effect: None if effects is None else effects.append(effect),
    )
    client.broker.applier.drive(host)
    return host


async def got(answer: object) -> object:
    return await answer if isinstance(answer, Awaitable) else answer


async def with_topic(client: Client, partitions: int = 1) -> Host:
    host = host_of(client, partitions=partitions)
    made = host.ensure_topic()
    assert isinstance(made, Awaitable)
    assert await made is ErrorCode.NONE
    assert host.ensure_topic() is ErrorCode.NONE
    return host


async def settled_host(client: Client) -> tuple[Host, list[str]]:
    """A host that was asked once, and where its effects will be seen from now on."""
    effects: list[str] = []
    host = host_of(client, effects)
    await got(host.ask("a", put("a", 1)))
    await client.broker.runtime.tasks.sleep(0)
    effects.clear()
    return host, effects


async def led_by(client: Client, leader: int, epoch: int, *, topic: str = TOPIC, index: int = 0) -> None:
    """A controller has decided it."""
    image = client.broker.parts.store.image
    row = image.topic(topic)
    assert row is not None
    states = list(row.states)
    states[index] = replace(states[index], leader=leader, leader_epoch=epoch, partition_epoch=epoch)
    await client.broker.applier.apply(image.apply(replace(row, states=tuple(states))))


async def another_broker(client: Client) -> None:
    registered = RegisteredBroker(ELSEWHERE, {"PLAINTEXT": Endpoint("elsewhere", 9093)})
    await client.broker.applier.apply(client.broker.parts.store.image.apply(BrokerRow(registered)))
