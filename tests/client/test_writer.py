"""Records are stored exactly once and in order, whatever happens to the answers.

Method: the real broker and the real writer in one simulation; answers to Produce are lost after the broker gave them, in
every pattern, and the log is read back.
"""

from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from net_worlds import in_simulation
from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.client import admin, reader
from semel.client.cluster import Cluster
from semel.client.config import ClientConfig
from semel.client.writer import BATCH_BYTES_MAX, Writer
from semel.core.records.build import RecordInput
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.produce import ProduceRequest
from semel.errors import DisconnectedError, ErrorCode, RefusedError
from semel.runtime.bundle import Runtime

R = TypeVar("R", bound=Response)


class LossyCluster(Cluster):
    """Loses answers to Produce as `losses` says, when there is anything left in it."""

    def __init__(self, runtime: Runtime, config: ClientConfig, losses: list[bool]) -> None:
        super().__init__(runtime, config)
        self.losses = losses
        self.produced = 0

    async def send(self, request: Request[R], **more: Any) -> R:
        answer = await super().send(request, **more)
        if isinstance(request, ProduceRequest):
            self.produced += 1
            if self.losses and self.losses.pop():
                raise DisconnectedError("the answer was lost")
        return answer


class World:
    """A broker and a client in one simulation."""

    def __init__(self, runtime: Runtime, losses: list[bool] | None = None, **client: str) -> None:
        self.runtime = runtime
        given = {"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "/data"}
        self.broker = Broker(BrokerConfig.of(given), runtime)
        config = ClientConfig.of(
            {"bootstrap.servers": "127.0.0.1:9092"} | {k.replace("_", "."): v for k, v in client.items()}
        )
        self.cluster = LossyCluster(runtime, config, losses or [])

    async def __aenter__(self) -> "World":  # noqa: PYI034 - nobody derives from it
        await self.broker.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.cluster.close()
        await self.broker.stop()

    async def writer(self, topic: str = "t", partitions: int = 1) -> Writer:
        await admin.create_topic(self.cluster, topic, partitions=partitions)
        return Writer(self.cluster, await self.cluster.topic(topic))

    async def stored(self, topic: str = "t") -> dict[int, list[bytes | None]]:
        view = await self.cluster.topic(topic)
        starts = {one.partition: 0 for one in view.partitions}
        found: dict[int, list[bytes | None]] = {index: [] for index in starts}
        async for fetched in reader.read(self.cluster, view, starts):
            assert fetched.record.offset == len(found[fetched.partition])
            found[fetched.partition].append(fetched.record.value)
        return found


def records(*values: bytes, key: bytes | None = None) -> list[RecordInput]:
    return [RecordInput(key, value) for value in values]


@settings(max_examples=25)
@given(losses=st.lists(st.booleans(), max_size=30), calls=st.integers(1, 8))
def test_lost_answers_leave_one_copy_of_each_record_in_order(losses: list[bool], calls: int) -> None:
    async def story(runtime: Runtime) -> None:
        async with World(runtime, list(losses)) as world:
            writer = await world.writer()
            for call in range(calls):
                (stored,) = await writer.send(records(b"%d a" % call, b"%d b" % call))
                assert stored == (0, 2 * call, 2)  # A resent batch is answered with its first offset.
            expected = [b"%d %s" % (call, end) for call in range(calls) for end in (b"a", b"b")]
            assert await world.stored() == {0: expected}

    in_simulation(story)


def test_without_numbers_a_lost_answer_stores_twice() -> None:
    """What idempotence is for: the same loss with acks=1."""

    async def story(runtime: Runtime) -> None:
        async with World(runtime, [True], acks="1") as world:
            await (await world.writer()).send(records(b"x"))
            assert await world.stored() == {0: [b"x", b"x"]}

    in_simulation(story)


def test_records_without_keys_take_turns_and_keys_stay_at_home() -> None:
    async def story(runtime: Runtime) -> None:
        async with World(runtime) as world:
            writer = await world.writer(partitions=3)
            for number in range(6):
                await writer.send(records(b"keyless %d" % number))
            homes = {(await writer.send(records(b"keyed", key=b"k")))[0].partition for _ in range(3)}
            assert len(homes) == 1
            found = await world.stored()
            assert [sum(v != b"keyed" for v in found[index]) for index in range(3)] == [2, 2, 2]

    in_simulation(story)


def test_many_records_become_batches_a_broker_takes() -> None:
    async def story(runtime: Runtime) -> None:
        async with World(runtime) as world:
            value = b"x" * 10_000
            stored = await (await world.writer()).send(records(*[value] * 200))
            assert len(stored) == -(-200 * 10_024 // BATCH_BYTES_MAX)
            assert [one.base_offset for one in stored] == [
                sum(o.records for o in stored[:at]) for at in range(len(stored))
            ]
            assert await world.stored() == {0: [value] * 200}

    in_simulation(story)


def test_a_record_no_broker_takes_is_refused_and_nothing_is_stored() -> None:
    async def story(runtime: Runtime) -> None:
        async with World(runtime) as world:
            writer = await world.writer()
            with pytest.raises(
                RefusedError, match=r"refuses a batch of \d+ bytes for t-0: .*MESSAGE_TOO_LARGE"
            ) as caught:
                await writer.send(records(b"x" * 2_000_000))
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
            assert await world.stored() == {0: []}

    in_simulation(story)


def test_a_topic_that_goes_away_ends_the_retries() -> None:
    async def story(runtime: Runtime) -> None:
        async with World(runtime) as world:
            writer = await world.writer()
            await writer.send(records(b"x"))
            await admin.delete_topic(world.cluster, "t")
            with pytest.raises(RefusedError, match="topic t does not exist"):
                await writer.send(records(b"y"))

    in_simulation(story)


def test_an_answer_that_never_comes_is_given_up_after_the_delivery_timeout() -> None:
    async def story(runtime: Runtime) -> None:
        async with World(runtime, [True] * 1000, delivery_timeout_ms="5000") as world:
            writer = await world.writer()
            started = runtime.clock.monotonic()
            with pytest.raises(DisconnectedError, match="the answer was lost"):
                await writer.send(records(b"x"))
            assert 3 < runtime.clock.monotonic() - started <= 6
            assert await world.stored() == {0: [b"x"]}

    in_simulation(story)
