"""A pool of transactional producers: an id each, made once, used again, joined within, replaced when fenced.

Method: threads and tasks on real brokers, Semel's and Apache Kafka's; whether a transaction was committed is read by another client.
"""

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import semel
from semel import aio
from support.compat.compat_kit import ThreadBroker, eventually
from support.transactions.transaction_clients import read


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadBroker]:
    with ThreadBroker(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A name no other test has, on brokers that are others' too."""
    return f"pool-{uuid.uuid4()}"


def visible(bootstrap: str, topic: str) -> list[bytes]:
    return sorted(read(bootstrap, topic, 0, committed=True))


def transactional_id(producer: semel.Producer | aio.Producer) -> str:
    return str(producer.config["transactional.id"])


@pytest.mark.mission("TXN-19", "R-23")
def test_producers_are_numbered_used_again_and_replaced_when_fenced(any_bootstrap: str, topic: str) -> None:
    with semel.TransactionalProducerPool(bootstrap_servers=any_bootstrap, prefix=f"{topic}-") as pool:
        with pool.transaction() as first:
            first.send(topic, b"1")
        with pool.transaction() as again:
            again.send(topic, b"2")
        assert again is first
        assert transactional_id(first) == f"{topic}-0"

        both = threading.Barrier(2, timeout=30)

        def work(value: bytes) -> str:
            with pool.transaction() as producer:
                both.wait()
                producer.send(topic, value)
                return transactional_id(producer)

        with ThreadPoolExecutor(2) as threads:
            assert sorted(threads.map(work, [b"3", b"4"])) == [f"{topic}-0", f"{topic}-1"]

        def be_fenced() -> None:
            with pool.transaction() as producer:
                with semel.Producer(
                    bootstrap_servers=any_bootstrap, transactional_id=transactional_id(producer)
                ) as thief:
                    thief.init_transactions()
                producer.send(topic, b"never")

        with pytest.raises(semel.ProducerFencedException):
            be_fenced()
        with pool.transaction() as one, pool.transaction() as joined:
            assert joined is one
            joined.send(topic, b"5")
        with ThreadPoolExecutor(2) as threads:
            assert f"{topic}-2" in list(threads.map(work, [b"6", b"7"])), (
                "the number of the fenced one is not used again"
            )
    eventually(
        lambda: visible(any_bootstrap, topic) == [b"%d" % n for n in range(1, 8)], "all that was committed"
    )
    with pytest.raises(semel.IllegalStateException, match="closed"), pool.transaction():
        pass


@pytest.mark.mission("TXN-20")
def test_a_thread_joins_the_transaction_it_is_in_and_an_error_ends_all_of_it(
    any_bootstrap: str, topic: str
) -> None:
    with semel.TransactionalProducerPool(bootstrap_servers=any_bootstrap, prefix=f"{topic}-") as pool:

        def inner(value: bytes) -> None:
            with pool.transaction() as producer:
                producer.send(topic, value)

        with pool.transaction():
            inner(b"a")
            inner(b"b")

        def fail() -> None:
            with pool.transaction():
                inner(b"never")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        inner(b"c")
    eventually(lambda: visible(any_bootstrap, topic) == [b"a", b"b", b"c"], "all but the failed one")


@pytest.mark.mission("TXN-20")
def test_tasks_have_producers_of_their_own_and_wait_for_one_if_there_are_enough(
    any_bootstrap: str, topic: str
) -> None:
    async def story() -> set[str]:
        async with aio.TransactionalProducerPool(
            bootstrap_servers=any_bootstrap, prefix=f"{topic}-", producers_max=2
        ) as pool:

            async def work(value: bytes) -> str:
                async with pool.transaction() as producer, pool.transaction() as joined:
                    assert joined is producer
                    await producer.send(topic, value)
                    return transactional_id(producer)

            return set(await asyncio.gather(*(work(b"%d" % n) for n in range(6))))

    assert asyncio.run(story()) == {f"{topic}-0", f"{topic}-1"}
    eventually(lambda: visible(any_bootstrap, topic) == [b"%d" % n for n in range(6)], "all of them")


def test_what_was_idle_for_too_long_is_closed(broker: ThreadBroker) -> None:
    with semel.TransactionalProducerPool(
        bootstrap_servers=broker.bootstrap, prefix="idle-", idle_seconds=0.0
    ) as pool:
        with pool.transaction() as first:
            pass
        with pool.transaction() as second:
            pass
        assert transactional_id(second) == "idle-1"
        with pytest.raises(semel.IllegalStateException, match="closed"):
            first.begin_transaction()


def test_what_a_pool_cannot_be_made_of() -> None:
    for keywords, text in (
        ({"prefix": ""}, "a prefix of its own"),
        ({"prefix": "p", "producers_max": 0}, "at least one"),
        ({"prefix": "p", "transactional_id": "x"}, "gives out the ids itself"),
    ):
        with pytest.raises(semel.ConfigException, match=text):
            semel.TransactionalProducerPool(bootstrap_servers="localhost:1", **keywords)


def test_a_task_that_was_started_within_a_transaction_has_its_own(broker: ThreadBroker) -> None:
    """It inherits the context of its parent, and goes on when the parent's producer is another task's already."""

    async def story() -> None:
        async with aio.TransactionalProducerPool(bootstrap_servers=broker.bootstrap, prefix="child-") as pool:

            async def child() -> str:
                async with pool.transaction() as own:
                    await own.send("children", b"child")
                    return transactional_id(own)

            async with pool.transaction() as parent:
                assert await asyncio.create_task(child()) != transactional_id(parent)
                await parent.abort_transaction()
                await parent.begin_transaction()

    asyncio.run(story())
    assert visible(broker.bootstrap, "children") == [b"child"], "it was not the parent's to abort"


def test_a_thread_or_task_within_a_blocking_transaction_has_its_own(broker: ThreadBroker) -> None:
    """`asyncio.to_thread` copies the context, and so does a new task."""

    async def story() -> None:
        with semel.TransactionalProducerPool(bootstrap_servers=broker.bootstrap, prefix="thread-") as pool:

            def work() -> str:
                with pool.transaction() as own, pool.transaction() as joined:
                    assert joined is own
                    return transactional_id(own)

            async def task() -> str:
                return work()

            with pool.transaction() as parent:
                assert await asyncio.to_thread(work) != transactional_id(parent)
                assert await asyncio.create_task(task()) != transactional_id(parent)

    asyncio.run(story())


class Interrupted(BaseException):
    """Ctrl-C, or a task that is cancelled."""


@pytest.mark.parametrize("producers", [1, 2])
def test_who_is_interrupted_while_it_borrows_gives_back_what_it_had(
    broker: ThreadBroker, monkeypatch: pytest.MonkeyPatch, producers: int
) -> None:
    """The interrupt comes while what was idle for too long is being closed; the pool has no more than it needs."""

    async def story() -> None:
        async with aio.TransactionalProducerPool(
            bootstrap_servers=broker.bootstrap, prefix=f"cut-{producers}-", producers_max=producers
        ) as pool:
            close, interrupts = aio.Producer.close, 0

            async def interrupted(self: aio.Producer, timeout: float | None = None) -> None:
                nonlocal interrupts
                await close(self, timeout)
                interrupts += 1
                if interrupts == 1:
                    raise Interrupted

            async with contextlib.AsyncExitStack() as stack:
                for _ in range(producers):
                    task = asyncio.create_task(_enter(stack, pool))
                    await task
            monkeypatch.setattr(aio.Producer, "close", interrupted)
            pool._shelf._idle[0] = (-1e9, pool._shelf._idle[0][1])  # Only the first was idle for too long.
            with pytest.raises(Interrupted):
                await _use(pool)
            assert interrupts == 1
            await asyncio.wait_for(asyncio.gather(*(_use(pool) for _ in range(producers))), 30)

    asyncio.run(story())


async def _enter(stack: contextlib.AsyncExitStack, pool: aio.TransactionalProducerPool) -> None:
    await stack.enter_async_context(pool.transaction())


async def _use(pool: aio.TransactionalProducerPool) -> None:
    async with pool.transaction():
        await asyncio.sleep(0)


def test_who_is_cancelled_while_it_waits_passes_its_turn_on(broker: ThreadBroker) -> None:
    async def story() -> None:
        async with aio.TransactionalProducerPool(
            bootstrap_servers=broker.bootstrap, prefix="turn-", producers_max=1
        ) as pool:
            async with pool.transaction():
                first, second = asyncio.create_task(_use(pool)), asyncio.create_task(_use(pool))
                while len(pool._free._waiters) < 2:
                    await asyncio.sleep(0)
            first.cancel()  # It was told that it is its turn, and has not run since.
            with pytest.raises(asyncio.CancelledError):
                await first
            await asyncio.wait_for(second, 30)

    asyncio.run(story())


def test_a_blocking_pool_that_is_interrupted_gives_back_what_it_had(
    broker: ThreadBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with semel.TransactionalProducerPool(
        bootstrap_servers=broker.bootstrap, prefix="ctrl-c-", producers_max=1, idle_seconds=0.0
    ) as pool:
        with pool.transaction():
            pass
        close = semel.Producer.close

        def interrupted(self: semel.Producer, timeout: float | None = None) -> None:
            close(self, timeout)
            monkeypatch.undo()
            raise Interrupted

        monkeypatch.setattr(semel.Producer, "close", interrupted)
        with pytest.raises(Interrupted), pool.transaction():
            pass
        assert pool._shelf.may_make(), "the one that was to be made counts for ever"
        with pool.transaction():
            pass
