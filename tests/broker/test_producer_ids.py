"""A producer id is given once: to 10,000 who ask at the same time, and across clean stops, kills and power cuts.

Method: the real store on a simulated disk; ids are collected over many lives of the broker's part that gives them. The blocks of
a member come when the test says so; those of a controller: tests/cluster/test_producer_id_blocks.py.
"""

import asyncio

import pytest

from semel.broker.member_producer_ids import MemberProducerIds
from semel.broker.producer_ids import BLOCK_SIZE, ProducerIds
from semel.cluster.standalone import METADATA_CONFIG, StandaloneStore
from semel.core.metadata.topic_names import METADATA_TOPIC
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.errors import ErrorCode, LogError
from semel.log.directory import LogDirectory
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation
from semel.types import TopicPartition
from support.broker.admin_kit import Client, told
from support.net.net_worlds import in_simulation

MANY = 10_000


def started(runtime: Runtime) -> ProducerIds:
    directory = LogDirectory.open(runtime.files, "/data", node_id=1, cluster_id="c", directory_id="d")
    log = directory.load(TopicPartition(METADATA_TOPIC, 0), METADATA_CONFIG, runtime.clock.now_ms())
    directory.load_all(lambda _: METADATA_CONFIG, runtime.clock.now_ms())
    log.advance_high_watermark(log.log_end_offset)
    return ProducerIds(StandaloneStore(log, runtime.tasks, runtime.clock, broker_id=1))


def test_ten_thousand_at_once_get_different_ids() -> None:
    simulation = Simulation(1)
    host = simulation.host("broker")

    async def program(runtime: Runtime) -> list[int]:
        ids = started(runtime)
        return await asyncio.gather(*(ids.next() for _ in range(MANY)))

    async def story() -> list[int]:
        return await host.start(program)

    given = simulation.run(story())
    assert sorted(given) == list(range(MANY)), "none twice, and none left out within a life"


@pytest.mark.parametrize("seed", range(20))
def test_no_id_comes_back_after_any_end(seed: int) -> None:
    simulation = Simulation(seed)
    host = simulation.host("broker")
    host.disk.sync_delay_seconds = (0.0, 0.01)
    given: list[int] = []

    async def program(runtime: Runtime) -> None:
        ids = started(runtime)
        while True:
            given.extend(await asyncio.gather(*(ids.next() for _ in range(runtime.dice.randint(1, 400)))))
            await runtime.tasks.sleep(runtime.dice.uniform(0, 0.02))

    async def story() -> None:
        dice = simulation.network.dice
        for _ in range(24):
            host.start(program)
            await asyncio.sleep(dice.uniform(0.001, 0.1))
            if dice.random() < 0.5:
                host.kill()
            else:
                host.cut_power()

    simulation.run(story())
    assert len(given) > BLOCK_SIZE
    assert len(given) == len(set(given))


def test_no_id_is_given_that_is_not_set_aside_durably() -> None:
    simulation = Simulation(1)
    host = simulation.host("broker")

    async def program(runtime: Runtime) -> None:
        ids = started(runtime)
        host.disk.fail("sync", path_part=".log")
        with pytest.raises(LogError, match="offline"):
            await ids.next()
        with pytest.raises(LogError):
            await ids.next()

    async def story() -> None:
        await host.start(program)

    simulation.run(story())


class Blocks:
    """Blocks that come when the test says so."""

    def __init__(self) -> None:
        self.asked = 0
        self.given: asyncio.Queue[range] = asyncio.Queue()

    async def next_block(self) -> range:
        self.asked += 1
        return await self.given.get()


def test_a_member_asks_for_the_next_block_when_nine_tenths_are_used() -> None:
    async def story(runtime: Runtime) -> None:
        blocks = Blocks()
        ids = MemberProducerIds(blocks, runtime.tasks)
        await runtime.tasks.sleep(1)
        assert (ids.is_at_hand, blocks.asked) == (False, 0), "nobody wanted an id yet"
        assert (ids.take(), await ids.next()) == (None, None)
        await runtime.tasks.sleep(1)
        assert (ids.take(), blocks.asked) == (None, 1)
        blocks.given.put_nowait(range(5000, 6000))
        await runtime.tasks.sleep(1)
        assert (ids.is_at_hand, blocks.asked) == (True, 1)
        assert [ids.take() for _ in range(899)] == list(range(5000, 5899))
        await runtime.tasks.sleep(1)
        assert blocks.asked == 1
        assert await ids.next() == 5899
        await runtime.tasks.sleep(1)
        assert blocks.asked == 2
        assert [ids.take() for _ in range(100)] == list(range(5900, 6000))
        assert (ids.is_at_hand, ids.take()) == (False, None)
        blocks.given.put_nowait(range(9000, 9010))
        await runtime.tasks.sleep(1)
        assert [ids.take() for _ in range(9)] == list(range(9000, 9009))
        await runtime.tasks.sleep(1)
        assert blocks.asked == 3
        blocks.given.put_nowait(range(9010, 9020))
        await runtime.tasks.sleep(1)
        assert [ids.take(), blocks.asked] == [9009, 3]
        assert [ids.take() for _ in range(8)] == list(range(9010, 9018)), "no gap where the next one is there"
        await runtime.tasks.sleep(1)
        assert blocks.asked == 3
        assert ids.take() == 9018
        await runtime.tasks.sleep(1)
        assert blocks.asked == 4
        blocks.given.put_nowait(range(9020, 9030))
        await runtime.tasks.sleep(1)
        assert ids.take() == 9019
        await runtime.tasks.sleep(1)
        assert blocks.asked == 4, "one block ahead is enough"

    in_simulation(story)


async def _init(client: Client, transactional_id: str | None) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    return await client.ask(request, 5)


def test_a_member_sends_producers_away_until_its_controller_has_given_a_block() -> None:
    """As Kafka: with a transactional id too, but not a producer whose id is known already."""

    async def known(client: Client) -> None:
        find = FindCoordinatorRequest(coordinator_keys=["known"], key_type=1)
        assert (await client.ask(find, 5)).coordinators[0].error_code == ErrorCode.NONE
        assert (await _init(client, "known")).producer_epoch == 0

    async def story(client: Client) -> None:
        blocks = Blocks()
        parts = client.broker.parts
        ids = MemberProducerIds(blocks, client.broker.runtime.tasks)
        object.__setattr__(parts.coordinators, "producer_ids", ids)
        parts.transactions._producer_ids = ids
        for transactional_id in (None, "unknown"):
            refused = await _init(client, transactional_id)
            assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert (refused.producer_id, refused.producer_epoch) == (-1, -1)
        again = await _init(client, "known")
        assert (again.error_code, again.producer_epoch) == (ErrorCode.NONE, 1), "it needs no other id"
        blocks.given.put_nowait(range(77_000, 78_000))
        await client.broker.runtime.tasks.sleep(1)
        answers = [await _init(client, transactional_id) for transactional_id in (None, "unknown")]
        assert [(one.error_code, one.producer_id, one.producer_epoch) for one in answers] == [
            (0, 77_000, 0),
            (0, 77_001, 0),
        ]
        assert blocks.asked == 1

    told(known, story)
