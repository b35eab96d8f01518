"""Group commit: many answers share one sync, and no answer leaves before its batch survives a power cut.

Method: writers on a simulated host with a slow disk; the power fails at some moment; what was answered must be there.
"""

import asyncio
import errno

import pytest

from semel.errors import LogError
from semel.log.config import LogConfig
from semel.log.flush_job import FlushJob
from semel.log.group_commit import GroupCommit
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation
from support.log.log_kit import NOW, batch_of, disk, open_at, send

EVERY_BATCH = LogConfig(flush_messages=1, segment_bytes=2000)
WRITERS = 20


def test_answers_that_wait_together_share_a_sync() -> None:
    simulation = Simulation(1)
    host = simulation.host("broker")
    host.disk.sync_delay_seconds = (0.01, 0.02)

    async def program(runtime: Runtime) -> tuple[int, int]:
        log = open_at(runtime.files, EVERY_BATCH)
        commits = GroupCommit(log, runtime.tasks, runtime.clock)

        async def writer(producer_id: int) -> None:
            for n in range(10):
                send(log, batch_of(b"x", producer_id=producer_id, sequence=n), now_ms=runtime.clock.now_ms())
                end_offset = log.log_end_offset
                await commits.durable(end_offset)
                assert log.recovery_point >= end_offset

        async with asyncio.TaskGroup() as group:
            for producer_id in range(WRITERS):
                group.create_task(writer(producer_id))
        await runtime.tasks.close()
        return log.log_end_offset, commits.syncs

    async def main() -> tuple[int, int]:
        return await host.start(program)

    stored, syncs = simulation.run(main())
    assert stored == 10 * WRITERS
    assert syncs <= 2 * 10 + 2


@pytest.mark.parametrize("seed", range(40))
def test_trap_23_what_was_answered_survives_a_power_cut(seed: int) -> None:
    simulation = Simulation(seed)
    host = simulation.host("broker")
    host.disk.sync_delay_seconds = (0.001, 0.02)
    answered: dict[int, int] = {}

    async def program(runtime: Runtime) -> None:
        log = open_at(runtime.files, EVERY_BATCH)
        commits = GroupCommit(log, runtime.tasks, runtime.clock)

        async def writer(producer_id: int) -> None:
            for n in range(50):
                await runtime.tasks.sleep(runtime.dice.random() * 0.01)
                send(log, batch_of(b"x", producer_id=producer_id, sequence=n), now_ms=runtime.clock.now_ms())
                await commits.durable(log.log_end_offset)
                answered[producer_id] = n

        async with asyncio.TaskGroup() as group:
            for producer_id in range(WRITERS):
                group.create_task(writer(producer_id))

    async def main() -> dict[int, int]:
        host.start(program)
        await asyncio.sleep(0.2 + seed * 0.003)
        host.cut_power()
        log = open_at(host.boot().files, EVERY_BATCH, clean=False)
        return {entry.producer_id: entry.last_sequence for entry in log.producers.entries()}

    stored = simulation.run(main())
    assert answered
    for producer_id, sequence in answered.items():
        assert stored.get(producer_id, -1) >= sequence, f"producer {producer_id} lost an answered batch"


def test_a_sync_that_fails_answers_nobody() -> None:
    simulation = Simulation(3)
    host = simulation.host("broker")

    async def program(runtime: Runtime) -> None:
        log = open_at(runtime.files, EVERY_BATCH)
        commits = GroupCommit(log, runtime.tasks, runtime.clock)
        send(log, batch_of(b"x"))
        host.disk.fail("sync", errno.EIO)
        for _attempt in range(2):
            with pytest.raises(LogError, match="a sync failed"):
                await commits.durable(1)
        await runtime.tasks.close()

    async def main() -> None:
        await host.start(program)

    simulation.run(main())


def test_a_truncation_under_a_running_sync_is_not_taken_for_durable() -> None:
    simulation = Simulation(4)
    host = simulation.host("broker")
    host.disk.sync_delay_seconds = (0.01, 0.02)

    async def program(runtime: Runtime) -> None:
        log = open_at(runtime.files, EVERY_BATCH)
        commits = GroupCommit(log, runtime.tasks, runtime.clock)
        send(log, batch_of(b"a"))
        send(log, batch_of(b"b"))
        waiting = asyncio.create_task(commits.durable(2))
        await asyncio.sleep(0)
        log.truncate_to(1, runtime.clock.now_ms())
        with pytest.raises(LogError, match="truncated before offset 1 was synced"):
            await waiting
        assert log.recovery_point <= 1
        await runtime.tasks.close()

    async def main() -> None:
        await host.start(program)

    simulation.run(main())


def test_a_batch_that_was_cut_off_is_not_answered_for_another_at_its_offset() -> None:
    simulation = Simulation(5)
    host = simulation.host("broker")
    host.disk.sync_delay_seconds = (0.01, 0.02)

    async def program(runtime: Runtime) -> None:
        log = open_at(runtime.files, EVERY_BATCH)
        commits = GroupCommit(log, runtime.tasks, runtime.clock)
        send(log, batch_of(b"a"))
        send(log, batch_of(b"b"))
        waiting = asyncio.create_task(commits.durable(2))
        await asyncio.sleep(0)
        log.truncate_to(1, runtime.clock.now_ms())
        send(log, batch_of(b"the new leader's"))
        await commits.durable(2)
        with pytest.raises(LogError, match="truncated before offset 1 was synced"):
            await waiting
        await runtime.tasks.close()

    async def main() -> None:
        await host.start(program)

    simulation.run(main())


def test_a_sync_touches_the_log_and_what_was_written_beside_it_since_the_last_one() -> None:
    """The snapshot of the last roll is synced once, not with every group of answers."""
    files = disk()
    log = open_at(files, LogConfig(segment_bytes=300))
    while len(log.segments) < 3:
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=log.log_end_offset))
    log.flush(NOW)
    for _ in range(2):
        send(log, batch_of(b"x", producer_id=1, sequence=log.log_end_offset))
        before = (files.counters.syncs, files.counters.directory_syncs)
        log.flush(NOW)
        assert (files.counters.syncs - before[0], files.counters.directory_syncs - before[1]) == (1, 0)


def test_a_sync_that_could_not_begin_is_begun_again() -> None:
    """The disk is full when the indexes of a closed segment are to be written: nothing is lost, and later there is room."""
    simulation = Simulation(1)

    async def program(runtime: Runtime) -> None:
        log = open_at(runtime.files, EVERY_BATCH)
        commits = GroupCommit(log, runtime.tasks, runtime.clock)
        begin_flush, is_full = log.begin_flush, True

        def begin() -> FlushJob:
            if is_full:
                raise OSError(errno.ENOSPC, "no space left")
            return begin_flush()

        log.begin_flush = begin  # type: ignore[method-assign]
        send(log, batch_of(b"x"), now_ms=runtime.clock.now_ms())
        for _ in range(2):
            with pytest.raises(LogError, match="no space left"):
                await commits.durable(log.log_end_offset)
        is_full = False
        await commits.durable(log.log_end_offset)
        assert (log.recovery_point, log.offline) == (1, None)

    async def main() -> None:
        await simulation.host("broker").start(program)

    simulation.run(main())
