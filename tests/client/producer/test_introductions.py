"""`init_transactions` returns who the producer is, once what its predecessor left is ended: aborted, or, where it was decided, done.

Method: the real broker and producers in a simulation, where the disk refuses the writing of markers for a while.
"""

import pytest

from semel.client.producer.producer import AsyncProducer
from support.client.reading_kit import ADDRESS, ReadingWorld, told


def producer(world: ReadingWorld) -> AsyncProducer:
    return AsyncProducer(bootstrap_servers=ADDRESS, transactional_id="id", runtime=world.runtime)


@pytest.mark.mission("TXN-04")
@pytest.mark.parametrize("decided", [False, True])
def test_what_the_predecessor_left_is_ended_before_the_introduction_returns(decided: bool) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        before = producer(world)
        first = await before.initTransactions()  # Java's name.
        await before.begin_transaction()
        await (await before.send("t", b"of the predecessor", partition=0))
        log = world.partition("t").log
        world.simulation.host("broker").disk.fail("write", times=3, path_part="t-0/")  # Markers have to wait.
        if decided:
            await before.commit_transaction()
        assert (log.last_stable_offset, log.log_end_offset) == (0, 1)

        after = producer(world)
        second = await after.init_transactions()
        assert second.producer_id == first.producer_id
        assert second.epoch > first.epoch
        assert (log.last_stable_offset, log.log_end_offset) == (2, 2), "its marker is there"
        async with world.consumer() as consumer:
            consumer.assign([("t", 0)])
            seen = [record.value for record in await consumer.poll(2_000)]
        assert seen == ([b"of the predecessor"] if decided else [])
        await after.close()
        await before.close(0.0)

    told(story)
