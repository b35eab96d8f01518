"""The outbox: a row committed in the database appears in its topic exactly once; a row rolled back never.

Method: a broker's transactions in memory, a real database, and a crash at every statement, commit and step of the producer;
then a new relay goes on, and the topic must equal the committed rows, in order. Real processes are killed in `test_kills.py`.
"""

import threading

import pytest
import sqlalchemy as sa

from semel.errors import ConfigError
from semel.exceptions import ProducerFencedException, TimeoutException
from semel.once import InDoubtError, LedgerMismatchError, Outbox, Relay
from semel.types import TopicPartition
from support.once.once_doubles import CommittedDouble, ConsumerDouble, Crash, ProducerDouble, TopicsDouble

LEDGER = TopicPartition("paid", 0)


@pytest.fixture
def topics() -> TopicsDouble:
    return TopicsDouble()


@pytest.fixture
def outbox(engine: sa.Engine) -> Outbox:
    return Outbox(engine, name="orders", topic="paid")


def put(outbox: Outbox, *values: bytes) -> None:
    with outbox.engine.begin() as db:
        for value in values:
            outbox.put(db, key=b"k", value=value)


def relay(outbox: Outbox, topics: TopicsDouble, **options: object) -> Relay:
    producer = ProducerDouble(topics, "relay-orders")
    return outbox.relay(producer, ConsumerDouble(topics, "relay-orders"), **options)  # type: ignore[arg-type] # by name


def test_five_lines(outbox: Outbox, topics: TopicsDouble) -> None:
    with outbox.engine.begin() as db:
        outbox.put(db, key=b"17", value=b"paid", headers=[("by", b"card"), ("note", None)])
        outbox.put(db, value="text", topic="other", partition=3)
        outbox.put(db, key="18", value=None)
    moves = relay(outbox, topics)
    moves.run(until=lambda: outbox.waiting() == 0)
    assert [(r.key, r.value, list(r.headers)) for r in topics.logs[LEDGER]] == [
        (b"17", b"paid", [("by", b"card"), ("note", None)]),
        (b"18", None, []),
    ]
    assert [r.value for r in topics.logs[TopicPartition("other", 3)]] == [b"text"]


def test_what_is_rolled_back_is_never_published(outbox: Outbox, topics: TopicsDouble) -> None:
    put(outbox, b"kept")

    def broken() -> None:
        with outbox.engine.begin() as db:
            outbox.put(db, value=b"undone")
            raise ValueError("the order was refused")

    with pytest.raises(ValueError, match="refused"):
        broken()
    assert relay(outbox, topics).step() == 1
    assert topics.values("paid") == [b"kept"]


@pytest.mark.mission("CID-09")
def test_a_crash_anywhere_publishes_each_row_once(outbox: Outbox, topics: TopicsDouble) -> None:
    """Every statement and commit of the database, and every step of the producer, dies in turn."""
    left = 0

    def step(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    def life(topics: TopicsDouble) -> None:
        producer = ProducerDouble(topics, "relay-orders")
        producer.steps = step
        moves = outbox.relay(producer, ConsumerDouble(topics, "relay-orders"), rows_max=2)
        for _ in range(4):
            moves.step()

    sa.event.listen(outbox.engine, "before_cursor_execute", step)
    sa.event.listen(outbox.engine, "commit", step)
    crash_at, crashed = 0, True
    while crashed:
        crash_at += 1
        topics = TopicsDouble()
        with outbox.engine.begin() as db:
            db.execute(sa.text("DELETE FROM semel_relays"))
        put(outbox, b"1", b"2", b"3")
        left = crash_at
        try:
            life(topics)
        except Crash:
            left = 0
            put(outbox, b"4")
            life(topics)
            assert topics.values("paid") == [b"1", b"2", b"3", b"4"], f"after a crash at step {crash_at}"
        else:
            crashed = False
            assert topics.values("paid") == [b"1", b"2", b"3"]
        left = 0
        assert outbox.waiting() == 0
    assert crash_at > 30, "there were fewer steps than there must be"


def test_a_row_that_is_committed_late_is_not_skipped(postgresql_url: str, topics: TopicsDouble) -> None:
    """Its id is lower than one that was published already: numbers are given when rows are visible, not by id."""
    engine = sa.create_engine(postgresql_url)
    outbox = Outbox(engine, name="late", topic="paid")
    moves = relay(outbox, topics)
    with engine.begin() as slow:
        outbox.put(slow, value=b"began first")
        put(outbox, b"committed first")
        assert moves.step() == 1
        put(outbox, b"and another")
        assert moves.step() == 1
    assert moves.step() == 1
    assert topics.values("paid") == [b"committed first", b"and another", b"began first"]
    engine.dispose()


def test_a_relay_that_lost_its_place_is_fenced(outbox: Outbox, topics: TopicsDouble) -> None:
    """The old one is frozen in the middle of its transaction; the new one publishes its rows; the old one wakes up."""
    put(outbox, b"1", b"2")
    old_producer = ProducerDouble(topics, "relay-orders")
    old = outbox.relay(old_producer, ConsumerDouble(topics, "relay-orders"))
    old.start()

    def frozen(step: str) -> None:
        if step == "before commit":
            assert relay(outbox, topics).step() == 2

    old_producer.steps = frozen
    with pytest.raises(ProducerFencedException):
        old.step()
    assert topics.values("paid") == [b"1", b"2"]
    assert outbox.waiting() == 0


def test_an_answer_that_is_lost_is_asked_for_again(
    outbox: Outbox, topics: TopicsDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(outbox, b"1")
    producer = ProducerDouble(topics, "relay-orders")
    real, asked = producer.commit_transaction, list[str]()

    def commit() -> None:
        asked.append("commit")
        if len(asked) == 2:
            raise TimeoutException("no answer in time")
        real()

    monkeypatch.setattr(producer, "commit_transaction", commit)
    moves = outbox.relay(producer, ConsumerDouble(topics, "relay-orders"))
    assert moves.step() == 1
    assert asked == ["commit"] * 3  # The first ledger, then the rows, asked for twice.
    assert topics.values("paid") == [b"1"]


def test_errors_that_pass_are_waited_out(outbox: Outbox, topics: TopicsDouble) -> None:
    put(outbox, b"1", b"2")
    producer = ProducerDouble(topics, "relay-orders")
    failures, slept = iter([True, True, False]), list[float]()

    def fail(step: str) -> None:
        if step == "send" and next(failures, False):
            raise TimeoutException("the broker is away", abortable=True)

    producer.steps = fail
    moves = outbox.relay(producer, ConsumerDouble(topics, "relay-orders"), sleep=slept.append)
    moves.run(until=lambda: outbox.waiting() == 0)
    assert topics.values("paid") == [b"1", b"2"]
    assert slept == [0.1, 0.2]


def test_a_lost_ledger_is_not_guessed_at(
    outbox: Outbox, topics: TopicsDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay dies between its two commits, and is down until the group's offsets have expired."""
    put(outbox, b"1", b"2")
    moves = relay(outbox, topics)
    moves.start()
    monkeypatch.setattr(moves, "_confirm", _dies)
    with pytest.raises(Crash):
        moves.step()
    topics.committed.clear()
    with pytest.raises(InDoubtError, match=r"rows 1 to 2 may or may not be in their topics.*in_doubt='skip'"):
        relay(outbox, topics).step()
    assert relay(outbox, topics, in_doubt="skip").step() == 0
    assert topics.values("paid") == [b"1", b"2"]
    assert outbox.waiting() == 0
    put(outbox, b"3")
    assert relay(outbox, topics).step() == 1, "the ledger is there again"


def test_doubt_can_be_settled_by_publishing(outbox: Outbox, topics: TopicsDouble) -> None:
    put(outbox, b"1")
    moves = relay(outbox, topics)
    moves.start()
    moves._number()  # Then the relay dies, before it published.
    topics.committed.clear()
    assert relay(outbox, topics, in_doubt="publish").step() == 1
    assert topics.values("paid") == [b"1"]


def test_books_that_do_not_belong_together_are_refused(outbox: Outbox, topics: TopicsDouble) -> None:
    put(outbox, b"1")
    relay(outbox, topics).step()
    ledger = topics.committed["relay-orders", LEDGER]
    topics.committed["relay-orders", LEDGER] = CommittedDouble(ledger.offset, "another outbox")
    with pytest.raises(LedgerMismatchError, match="belongs to outbox 'another outbox'"):
        relay(outbox, topics).step()
    topics.committed["relay-orders", LEDGER] = CommittedDouble(99, ledger.metadata)
    with pytest.raises(LedgerMismatchError, match="older than the topic"):
        relay(outbox, topics).step()


def test_another_transactional_id_is_refused(outbox: Outbox, topics: TopicsDouble) -> None:
    relay(outbox, topics).step()
    other = outbox.relay(ProducerDouble(topics, "relay-2"), ConsumerDouble(topics))
    with pytest.raises(ConfigError, match="'relay-2' would not fence it"):
        other.step()
    plain = outbox.relay(ProducerDouble(topics, None), ConsumerDouble(topics))
    with pytest.raises(ConfigError, match=r"no transactional\.id"):
        plain.step()


def test_what_cannot_be_is_refused(outbox: Outbox, topics: TopicsDouble) -> None:
    with pytest.raises(ConfigError, match="in_doubt is 'guess'"):
        relay(outbox, topics, in_doubt="guess")
    with pytest.raises(ConfigError, match="rows_max is 0"):
        relay(outbox, topics, rows_max=0)
    with (
        outbox.engine.begin() as db,
        pytest.raises(ConfigError, match="a value of type int cannot be stored"),
    ):
        outbox.put(db, value=3)  # type: ignore[arg-type] # the mistake
    with outbox.engine.begin() as db, pytest.raises(ConfigError, match="a header"):
        outbox.put(db, value=b"", headers=[("a", "text")])  # type: ignore[list-item] # the mistake


def test_writers_and_relay_at_once(outbox: Outbox, topics: TopicsDouble) -> None:
    """Eight threads write while the relay publishes: every row arrives once."""
    own = Outbox(outbox.engine.url, name="orders", topic="paid")

    def write(writer: int) -> None:
        for n in range(25):
            put(own, b"%d-%d" % (writer, n))

    writers = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in writers:
        thread.start()

    def done() -> bool:
        return not any(thread.is_alive() for thread in writers) and outbox.waiting() == 0

    relay(outbox, topics, rows_max=7, sleep=lambda _: None).run(until=done)
    own.engine.dispose()
    values = topics.values("paid")
    assert sorted(values, key=str) == sorted(
        (b"%d-%d" % (w, n) for w in range(8) for n in range(25)), key=str
    )
    for writer in range(8):
        mine = [value for value in values if value is not None and value.startswith(b"%d-" % writer)]
        assert mine == [b"%d-%d" % (writer, n) for n in range(25)], "each writer's rows are in its order"


def _dies(*_: object) -> None:
    raise Crash
