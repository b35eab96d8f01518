"""The inbox: nothing that was received is forgotten, and what is processed is processed once.

Method: a topic in memory, a real database, time that the test moves. A crash is put at every statement and commit; messages
that fail, that kill their worker, and workers that freeze are tried by name.
"""

import pytest
import sqlalchemy as sa

from semel.errors import ConfigError
from semel.once import Inbox, InboxMessage, InboxState, RetryPolicy, Worked
from support.once.once_doubles import ConsumerDouble, Crash, TopicsDouble

bills = sa.Table("bills", sa.MetaData(), sa.Column("value", sa.LargeBinary))
POLICY = RetryPolicy(attempts_max=3, backoff_ms=1_000, backoff_max_ms=1_500)


class Clock:
    ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def topics() -> TopicsDouble:
    topics = TopicsDouble()
    for n in range(6):
        topics.write(
            "orders", b"%d" % n, partition=n % 2, key=b"k%d" % n, headers=[("id", b"i%d" % n), ("n", None)]
        )
    return topics


@pytest.fixture
def database(engine: sa.Engine) -> sa.Engine:
    bills.create(engine)
    return engine


def bill(db: sa.Connection, message: InboxMessage) -> None:
    db.execute(sa.insert(bills).values(value=message.value))


def billed(engine: sa.Engine) -> list[bytes]:
    with engine.connect() as db:
        return sorted(db.scalars(sa.select(bills.c.value)))


def received(inbox: Inbox, topics: TopicsDouble) -> ConsumerDouble:
    consumer = ConsumerDouble(topics)
    inbox.subscribe(consumer, ["orders"])
    inbox.receive(consumer)
    return consumer


def test_three_lines(topics: TopicsDouble, database: sa.Engine) -> None:
    inbox, consumer = Inbox(database, name="orders"), ConsumerDouble(topics)
    inbox.subscribe(consumer, ["orders"])
    inbox.run(consumer, bill, until=lambda: len(billed(database)) == 6)
    assert billed(database) == sorted(topics.values("orders"), key=str)


def test_a_message_comes_back_as_it_was(topics: TopicsDouble, database: sa.Engine) -> None:
    inbox = Inbox(database, name="orders")
    received(inbox, topics)
    message = inbox.unfinished()[0]
    first = topics.logs[message.topic, message.partition][0]  # type: ignore[index] # a plain tuple is one
    assert (message.offset, message.key, message.value) == (first.offset, first.key, first.value)
    assert (message.timestamp, message.headers) == (first.timestamp, tuple(first.headers))
    assert (message.state, message.attempts) == (InboxState.RECEIVED, 0)


@pytest.mark.mission("CID-08")
def test_a_crash_between_receiving_and_working_loses_nothing(
    topics: TopicsDouble, database: sa.Engine
) -> None:
    received(Inbox(database, name="orders"), topics)  # Received, committed; then the process dies.
    another = Inbox(database, name="orders")
    assert [message.value for message in another.unfinished()] == [b"0", b"2", b"4", b"1", b"3", b"5"]
    assert another.sweep(bill) == Worked(processed=6)
    assert billed(database) == sorted(topics.values("orders"), key=str)
    assert another.counts() == {InboxState.RECEIVED: 0, InboxState.PROCESSED: 6, InboxState.DEAD: 0}
    assert another.sweep(bill) == Worked(), "what is processed is not found again"


def test_a_crash_at_any_statement_loses_and_repeats_nothing(
    topics: TopicsDouble, database: sa.Engine, clock: Clock
) -> None:
    left = 0

    def step(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    def life(name: str) -> None:
        inbox = Inbox(database, name=name, lease_ms=1_000, clock=clock)
        consumer = ConsumerDouble(topics, records_max=4)
        inbox.subscribe(consumer, ["orders"])
        ends = iter([False] * 4 + [True])
        inbox.run(consumer, bill, until=lambda: next(ends))

    Inbox(database, name="the tables are there")
    sa.event.listen(database, "before_cursor_execute", step)
    sa.event.listen(database, "commit", step)
    crash_at, crashed = 0, True
    while crashed:
        crash_at += 1
        left = crash_at
        try:
            life(f"{crash_at}")
        except Crash:
            clock.ms += 1_000  # The leases of the dead run out.
            life(f"{crash_at}")
        else:
            crashed = False
        left = 0
        assert billed(database) == sorted(topics.values("orders"), key=str), (
            f"after a crash at step {crash_at}"
        )
        with database.begin() as db:
            db.execute(sa.delete(bills))
    assert crash_at > 20, "there were fewer steps than there must be"


def test_what_fails_is_tried_again_later_and_then_put_aside(
    topics: TopicsDouble, database: sa.Engine, clock: Clock
) -> None:
    buried: list[InboxMessage] = []

    def bury(db: sa.Connection, message: InboxMessage) -> None:
        bill(db, message)
        buried.append(message)

    inbox = Inbox(database, name="orders", retries=POLICY, clock=clock, on_dead=bury)
    received(inbox, topics)

    def work(db: sa.Connection, message: InboxMessage) -> None:
        bill(db, message)
        if message.value == b"2":
            raise ValueError("no such customer")

    assert inbox.sweep(work) == Worked(processed=5, failed=1)
    assert inbox.sweep(work) == Worked(), "it waits"
    clock.ms += 1_000
    assert inbox.sweep(work) == Worked(failed=1)
    clock.ms += 1_499
    assert inbox.sweep(work) == Worked()
    clock.ms += 1
    assert inbox.sweep(work) == Worked(buried=1)
    (dead,) = inbox.dead()
    assert (dead.value, dead.attempts, dead.error) == (b"2", 3, "ValueError: no such customer")
    assert buried == [dead]
    assert billed(database) == [b"0", b"1", b"2", b"3", b"4", b"5"], "the 2 was written by the burial alone"
    assert inbox.revive([dead.id]) == 1
    assert inbox.revive([dead.id]) == 0, "it lives already"
    assert inbox.sweep(bill) == Worked(processed=1)


def test_a_message_that_kills_its_worker_is_put_aside(
    topics: TopicsDouble, database: sa.Engine, clock: Clock
) -> None:
    inbox = Inbox(database, name="orders", retries=POLICY, lease_ms=1_000, clock=clock)
    received(inbox, topics)

    def work(db: sa.Connection, message: InboxMessage) -> None:
        bill(db, message)
        if message.value == b"0":
            raise Crash

    for _ in range(3):
        with pytest.raises(Crash):
            inbox.sweep(work)
        clock.ms += 1_000
    assert inbox.sweep(work, limit=1) == Worked(buried=1)
    (dead,) = inbox.dead()
    assert dead.error == "given up after 3 attempts: its worker died, or its lease ran out"
    assert billed(database) == [], "nothing of the attempts is left"


def test_a_message_that_kills_its_worker_costs_the_others_nothing(
    topics: TopicsDouble, database: sa.Engine, clock: Clock
) -> None:
    inbox = Inbox(database, name="orders", retries=POLICY, lease_ms=1_000, clock=clock)
    received(inbox, topics)

    def work(db: sa.Connection, message: InboxMessage) -> None:
        if message.value == b"0":
            raise Crash

    for _ in range(3):
        with pytest.raises(Crash):
            inbox.sweep(work)
        clock.ms += 1_000
    assert inbox.sweep(bill) == Worked(processed=5, buried=1)
    assert [message.value for message in inbox.dead()] == [b"0"]


def test_slow_work_does_not_use_up_the_leases_of_what_waits_behind_it(
    topics: TopicsDouble, database: sa.Engine, clock: Clock
) -> None:
    """Every message takes most of a lease, and another worker sweeps between any two of them."""
    policy = RetryPolicy(attempts_max=1)
    one = Inbox(database, name="orders", retries=policy, lease_ms=1_000, clock=clock)
    other = Inbox(database.url, name="orders", retries=policy, lease_ms=1_000, clock=clock)
    received(one, topics)
    worked: list[bytes | None] = []
    theirs: list[Worked] = []

    def slow(db: sa.Connection, message: InboxMessage) -> None:
        worked.append(message.value)
        clock.ms += 900

    def between(*_: object) -> None:
        if len(worked) > len(theirs):
            theirs.append(Worked())
            theirs[-1] = other.sweep(slow, limit=1)

    sa.event.listen(database, "checkin", between)  # After every transaction of the one.
    assert one.sweep(slow).processed + sum(swept.processed for swept in theirs) == 6
    other.engine.dispose()
    assert len(theirs) > 2, "they did not meet"
    assert one.dead() == []
    assert len(set(worked)) == len(worked)


def test_a_worker_looks_again_before_it_begins(
    topics: TopicsDouble, database: sa.Engine, clock: Clock
) -> None:
    """What another one finished since the sweep began is not worked on again."""
    inbox = Inbox(database, name="orders", clock=clock)
    received(inbox, topics)
    due = inbox._due(100)
    assert inbox.sweep(bill, limit=4) == Worked(processed=4)
    assert [inbox._claim(row_id) is None for row_id in due] == [True] * 4 + [False] * 2


def test_a_worker_that_froze_changes_nothing_any_more(
    topics: TopicsDouble, database: sa.Engine, clock: Clock
) -> None:
    """Its lease runs out while it holds its messages; another one does them; then it wakes up."""
    inbox = Inbox(database, name="orders", lease_ms=1_000, clock=clock)
    other = Inbox(database.url, name="orders", lease_ms=1_000, clock=clock)
    received(inbox, topics)
    woken = 0

    def freeze(db: sa.Connection, message: InboxMessage) -> None:
        nonlocal woken
        woken += 1
        bill(db, message)

    held = [message for row_id in inbox._due(100) if (message := inbox._claim(row_id)) is not None]
    assert len(held) == 6
    assert other.sweep(bill) == Worked(), "nobody else gets them while the lease lasts"
    clock.ms += 1_000
    assert other.sweep(bill) == Worked(processed=6)
    assert [inbox._process(message, freeze) for message in held] == [0] * 6
    assert woken == 0
    assert not inbox._fail(held[0], ValueError("late")), "nor can it mark a failure"
    assert billed(database) == sorted(topics.values("orders"), key=str)
    other.engine.dispose()


def test_an_id_of_its_own_enters_once(database: sa.Engine) -> None:
    topics = TopicsDouble()
    for message_id in (b"a", b"b", b"a"):
        topics.write("orders", message_id, headers=[("id", message_id)])
    inbox = Inbox(database, name="orders", message_id=lambda record: record.headers[0][1].decode())
    consumer = received(inbox, topics)
    assert [message.message_id for message in inbox.unfinished()] == ["a", "b"]
    topics.write("orders", b"b again", headers=[("id", b"b")])
    assert inbox.receive(consumer) == 1
    assert inbox.sweep(bill) == Worked(processed=2)


def test_what_was_forgotten_does_not_enter_again(
    topics: TopicsDouble, database: sa.Engine, clock: Clock
) -> None:
    """The positions are in the table's own transaction, so old rows can be deleted."""
    inbox = Inbox(database, name="orders", clock=clock)
    received(inbox, topics)
    inbox.sweep(bill, limit=4)
    assert inbox.forget(processed_before_ms=clock.ms) == 0
    assert inbox.forget(processed_before_ms=clock.ms + 1) == 4
    received(Inbox(database, name="orders", clock=clock), topics)
    clock.ms += 100_000
    inbox.sweep(bill)
    assert billed(database) == sorted(topics.values("orders"), key=str)


def test_what_cannot_be_is_refused(database: sa.Engine) -> None:
    with pytest.raises(ConfigError, match="lease_ms is 0"):
        Inbox(database, name="orders", lease_ms=0)
    topics = TopicsDouble()
    topics.write("orders", {"not": "bytes"})  # type: ignore[arg-type] # what a deserializer makes
    with pytest.raises(ConfigError, match="a value of type dict cannot be stored"):
        received(Inbox(database, name="orders"), topics)
