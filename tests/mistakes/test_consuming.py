"""Mistakes in reading: subscriptions, partitions, positions, offsets of a group, a broker that is not there.

Method: a table; every row is one call on a consumer of a real broker.
"""

from typing import Any

from semel import Consumer
from semel.errors import ConfigError
from semel.exceptions import (
    IllegalArgumentException,
    IllegalStateException,
    InvalidGroupIdException,
    NoOffsetForPartitionException,
    RecordDeserializationException,
    TimeoutException,
)
from support.client.mistakes_kit import DEAD, IMPATIENT_MS, TOPIC, Mistake, World, judge, rows

WRONG = IllegalArgumentException
STATE = IllegalStateException
GROUPLESS = InvalidGroupIdException


def dead(w: World, **settings: Any) -> Consumer:
    """One that gives up after a second, of a broker that is not there."""
    return w.consumer(
        bootstrap_servers=DEAD,
        default_api_timeout_ms=IMPATIENT_MS,
        request_timeout_ms=IMPATIENT_MS // 2,
        **settings,
    )


def assigned(consumer: Consumer, partition: int) -> Consumer:
    consumer.assign([(TOPIC, partition)])
    return consumer


def unreadable(w: World) -> None:
    """A record whose value is no number, read as one."""
    sent = w.producer().send(TOPIC, b"x", partition=1).result()
    reader = assigned(w.consumer(value_deserializer=int), 1)
    reader.seek((TOPIC, 1), sent.offset)
    reader.poll(10_000)


def absent_position(w: World) -> int:
    return assigned(w.consumer(), 2).position((TOPIC, 2), timeout_ms=IMPATIENT_MS)


@rows(
    Mistake("poll without a subscription", lambda w: w.consumer(group_id="g").poll(0), STATE, ("not subscribed",), "assigned any partitions"),
    Mistake("a loop without a subscription", lambda w: next(iter(w.consumer(group_id="g"))), STATE, ("not subscribed",), "assigned any partitions"),
    Mistake("poll after the end", lambda w: w.closed(w.consumer()).poll(0), STATE, ("closed",), "make a new one"),
    Mistake("subscribe after the end", lambda w: w.closed(w.consumer(group_id="g")).subscribe([TOPIC]), STATE, ("closed",), "make a new one"),
    Mistake("subscribe to nothing", lambda w: w.consumer(group_id="g").subscribe(None), WRONG, ("topics",), "exactly one of the two"),
    Mistake("subscribe to numbers", lambda w: w.consumer(group_id="g").subscribe([1]), WRONG, (": 1 is",), "Topic collection"),  # type: ignore[list-item]
    Mistake("subscribe without a group", lambda w: w.consumer().subscribe([TOPIC]), GROUPLESS, ("group.id",), "provide a valid group.id"),
    Mistake("a pattern that is none", lambda w: w.consumer(group_id="g").subscribe(pattern="["), WRONG, ("pattern='['",), "regular expression"),
    Mistake("topics and a pattern", lambda w: w.consumer(group_id="g").subscribe([TOPIC], pattern="o.*"), WRONG, ("topics", "pattern"), "exactly one of the two"),
    Mistake("a listener that is text", lambda w: w.consumer(group_id="g").subscribe([TOPIC], on_assign="x"), WRONG, ("on_assign='x'",), "a callable of partitions"),  # type: ignore[arg-type]
    Mistake("assign after subscribe", lambda w: w.member().assign([(TOPIC, 0)]), STATE, ("has topics",), "call unsubscribe() first"),
    Mistake("subscribe after assign", lambda w: assigned(w.consumer(group_id="g"), 0).subscribe([TOPIC]), STATE, ("has partitions",), "call unsubscribe() first"),
    Mistake("assign a name", lambda w: w.consumer().assign(TOPIC), WRONG, ("partitions='orders'", "is a str"), "a list of partitions"),  # type: ignore[arg-type]
    Mistake("assign names", lambda w: w.consumer().assign([TOPIC]), WRONG, ("='orders' is",), "use TopicPartition(topic, partition)"),  # type: ignore[list-item]
    Mistake("assign a negative partition", lambda w: w.consumer().assign([(TOPIC, -1)]), WRONG, ("partition=-1",), "from 0 on"),
    Mistake("assign a partition in text", lambda w: w.consumer().assign([(TOPIC, "0")]), WRONG, ("partition='0'",), "from 0 on"),  # type: ignore[list-item]
    Mistake("seek what is not assigned", lambda w: w.consumer().seek((TOPIC, 0), 1), STATE, ("orders-0",), "assign() it first"),
    Mistake("seek below zero", lambda w: w.reader().seek((TOPIC, 0), -3), WRONG, ("-3",), "the first one is 0"),
    Mistake("seek in words", lambda w: w.reader().seek((TOPIC, 0), "end"), WRONG, ("offset='end'",), "an offset or an OffsetAndMetadata"),  # type: ignore[arg-type]
    Mistake("pause what is not assigned", lambda w: w.reader().pause([(TOPIC, 1)]), STATE, ("orders-1",), "assign() it first"),
    Mistake("position of what is not assigned", lambda w: w.reader().position((TOPIC, 1)), STATE, ("orders-1",), "assign() it first"),
    Mistake("a partition that is not there", absent_position, TimeoutException, ("orders-2", "1000ms"), "partitions 0 to 1", seconds=3),
    Mistake("no offset and no reset", lambda w: w.reader(auto_offset_reset="none").poll(5000), NoOffsetForPartitionException, ("orders-0",), "set auto.offset.reset"),
    Mistake("commit without a group", lambda w: w.reader().commit(), GROUPLESS, ("group.id",), "provide a valid group.id"),
    Mistake("committed without a group", lambda w: w.consumer().committed([(TOPIC, 0)]), GROUPLESS, ("group.id",), "provide a valid group.id"),
    Mistake("commit below zero", lambda w: w.consumer(group_id="g").commit({(TOPIC, 0): -1}), WRONG, ("offsets[orders-0]", "-1"), "the first one is 0"),
    Mistake("commit in text", lambda w: w.consumer(group_id="g").commit({(TOPIC, 0): "1"}), WRONG, ("offsets[orders-0]='1'",), "an offset or an OffsetAndMetadata"),  # type: ignore[dict-item]
    Mistake("commit a list", lambda w: w.consumer(group_id="g").commit([1]), WRONG, ("offsets=[1]",), "a mapping of partitions to offsets"),  # type: ignore[arg-type]
    Mistake("commit a topic", lambda w: w.consumer(group_id="g").commit({TOPIC: 1}), WRONG, ("='orders' is",), "use TopicPartition(topic, partition)"),
    Mistake("poll in words", lambda w: w.reader().poll("1s"), WRONG, ("timeout_ms='1s'",), "a number of milliseconds"),  # type: ignore[arg-type]
    Mistake("poll for a negative time", lambda w: w.reader().poll(-1), WRONG, ("timeout_ms=-1",), "from 0 on"),
    Mistake("poll for no records", lambda w: w.reader().poll(0, max_records=0), WRONG, ("max_records=0",), "from 1 on"),
    Mistake("Arrow for a negative time", lambda w: w.reader().poll_arrow(-1), WRONG, ("timeout_ms=-1",), "from 0 on"),
    Mistake("a time in words", lambda w: w.consumer().offsets_for_times({(TOPIC, 0): "today"}), WRONG, ("timestamps[orders-0]='today'",), "datetime.fromisoformat"),  # type: ignore[dict-item]
    Mistake("a time before 1970", lambda w: w.consumer().offsets_for_times({(TOPIC, 0): -7}), WRONG, ("orders-0", "-7"), "cannot be negative"),
    Mistake("a value that cannot be read", unreadable, RecordDeserializationException, ("orders-1", "b'x'"), "to go on behind it", seconds=12),
    Mistake("work that is none", lambda w: w.member(enable_auto_commit=False).process("x"), ConfigError, ("work='x'",), "a callable of a record"),  # type: ignore[arg-type]
    Mistake("work under auto commit", lambda w: w.member().process(print), ConfigError, ("enable.auto.commit is true",), "Set it to false"),
    Mistake("work by nobody", lambda w: w.member(enable_auto_commit=False).process(print, workers=0), ConfigError, ("workers is 0",), "from 1 to 1000"),
    Mistake("nobody listens: list_topics", lambda w: dead(w).list_topics(), TimeoutException, (DEAD, "1000 ms"), "start one with 'semel broker'", seconds=3),
    Mistake("nobody listens: position", lambda w: assigned(dead(w), 0).position((TOPIC, 0)), TimeoutException, (DEAD, "orders-0"), "1000ms", seconds=3),
    Mistake("nobody listens: commit", lambda w: dead(w, group_id="g").commit({(TOPIC, 0): 1}), TimeoutException, (DEAD, "orders-0"), "start one with 'semel broker'", seconds=3),
    Mistake("nobody listens: end_offsets", lambda w: dead(w).end_offsets([(TOPIC, 0)]), TimeoutException, (DEAD,), "start one with 'semel broker'", seconds=3),
    Mistake("ends of a topic that is not there", lambda w: w.consumer().end_offsets([("absent", 0)], timeout_ms=IMPATIENT_MS), Exception, ("absent",), "1000", seconds=3),
)  # fmt: skip
def test_a_mistake_in_reading(mistake: Mistake, world: World) -> None:
    judge(mistake, world)
