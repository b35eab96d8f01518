"""Mistakes in sending: arguments, Arrow tables, states of a producer and of its transactions, a broker that is not there.

Method: tables; every row is one call on a producer of a real broker.
"""

from typing import Any

import pyarrow as pa

from semel.exceptions import (
    IllegalArgumentException,
    IllegalStateException,
    InvalidProducerEpochException,
    InvalidTopicException,
    RecordTooLargeException,
    SerializationException,
    TimeoutException,
)
from support.client.mistakes_kit import DEAD, IMPATIENT_MS, TOPIC, Mistake, World, judge, rows

WRONG = IllegalArgumentException
STATE = IllegalStateException


def impatient(w: World, **settings: Any) -> Any:
    """A producer that gives up after a second."""
    times = {
        "max_block_ms": IMPATIENT_MS,
        "request_timeout_ms": IMPATIENT_MS // 2,
        "delivery_timeout_ms": IMPATIENT_MS,
    }
    return w.producer(**{**times, **settings})


def send(w: World, *given: Any, **named: Any) -> object:
    return w.producer().send(*given, **named)


def table(w: World, **columns: Any) -> object:
    return w.producer().send_arrow(TOPIC, pa.table(columns))


def fenced(w: World) -> None:
    earlier = w.transactional()
    w.transactional()
    earlier.begin_transaction()
    earlier.send(TOPIC, b"v")
    earlier.commit_transaction()


@rows(
    Mistake("no topic", send, TypeError, ("send()",), "'topic'"),
    Mistake("a misspelled argument", lambda w: send(w, TOPIC, valu=b"v"), TypeError, ("send()",), "'valu'"),
    Mistake("no topic at all", lambda w: send(w, None, b"v"), WRONG, ("topic=None",), "a non-empty str"),
    Mistake("a topic in bytes", lambda w: send(w, b"orders", b"v"), WRONG, ("topic=b'orders'", "got bytes"), "a non-empty str"),
    Mistake("a topic with a space", lambda w: send(w, "my topic!", b"v"), InvalidTopicException, ("'my topic!'",), "use 1 to 249 ASCII letters"),
    Mistake("an empty topic", lambda w: send(w, "", b"v"), WRONG, ("topic=''",), "a non-empty str"),
    Mistake("a topic too long", lambda w: send(w, "x" * 300, b"v"), InvalidTopicException, ("xxx…",), "use 1 to 249 ASCII letters"),
    Mistake("a number for a value", lambda w: send(w, TOPIC, 42), SerializationException, ("value=42", "an int"), "set value.serializer"),
    Mistake("a dict for a value", lambda w: send(w, TOPIC, {"a": 1}), SerializationException, ("value={'a': 1}", "a dict"), "set value.serializer"),
    Mistake("a list for a value", lambda w: send(w, TOPIC, [1]), SerializationException, ("value=[1]", "a list"), "set value.serializer"),
    Mistake("a number for a key", lambda w: send(w, TOPIC, b"v", key=1), SerializationException, ("key=1", "an int"), "set key.serializer"),
    Mistake("a serializer that gives text", lambda w: w.producer(value_serializer=lambda one: one).send(TOPIC, 1), SerializationException, ("value.serializer gave an int for 1",), "not bytes"),
    Mistake("a negative partition", lambda w: send(w, TOPIC, b"v", partition=-1), WRONG, ("-1",), "non-negative"),
    Mistake("a partition in text", lambda w: send(w, TOPIC, b"v", partition="0"), WRONG, ("partition='0'", "is a str"), "a whole number from 0 on"),
    Mistake("a partition that is not there", lambda w: impatient(w).send(TOPIC, b"v", partition=7).result(), TimeoutException, ("Partition 7 of topic orders", "1000 ms"), "0 to 1", seconds=3),
    Mistake("a topic that is not there", lambda w: impatient(w).send("absent", b"v").result(), TimeoutException, ("Topic absent", "1000 ms"), "UNKNOWN_TOPIC_OR_PARTITION", seconds=3),
    Mistake("a negative time", lambda w: send(w, TOPIC, b"v", timestamp=-5), WRONG, ("-5",), "non-negative"),
    Mistake("seconds for milliseconds", lambda w: send(w, TOPIC, b"v", timestamp=1.5), WRONG, ("timestamp=1.5", "is a float"), "use int(seconds * 1000)"),
    Mistake("a time in text", lambda w: send(w, TOPIC, b"v", timestamp="2026-01-01"), WRONG, ("timestamp='2026-01-01'",), "datetime.fromisoformat"),
    Mistake("headers in text", lambda w: send(w, TOPIC, b"v", headers={"a": "text"}), WRONG, ("('a', 'text')",), "a pair of text and bytes"),
    Mistake("headers without values", lambda w: send(w, TOPIC, b"v", headers=["a"]), WRONG, ("'a'",), "a pair of text and bytes"),
    Mistake("headers with numbers for names", lambda w: send(w, TOPIC, b"v", headers={1: b"x"}), WRONG, ("(1, b'x')",), "a pair of text and bytes"),
    Mistake("a record too large", lambda w: w.producer(max_request_size=1000).send(TOPIC, b"v" * 2000), RecordTooLargeException, ("a record for orders has 20",), "max.request.size"),
    Mistake("two megabytes", lambda w: send(w, TOPIC, b"v" * 2_000_000), RecordTooLargeException, ("2000030 bytes",), "send less at once"),
    Mistake("a callback that is none", lambda w: send(w, TOPIC, b"v", callback="x"), WRONG, ("callback='x'",), "a callable of metadata and error"),
    Mistake("sent after the end", lambda w: w.closed(w.producer()).send(TOPIC, b"v"), STATE, ("closed",), "make a new one"),
    Mistake("flushed after the end", lambda w: w.closed(w.producer()).flush(), STATE, ("closed",), "make a new one"),
    Mistake("Arrow after the end", lambda w: w.closed(w.producer()).send_arrow(TOPIC, pa.table({"value": [b"a"]})), STATE, ("closed",), "make a new one"),
    Mistake("nobody listens: send", lambda w: impatient(w, bootstrap_servers=DEAD).send(TOPIC, b"v").result(), TimeoutException, (DEAD, "1000 ms"), "start one with 'semel broker'", seconds=3),
    Mistake("nobody listens: partitions_for", lambda w: impatient(w, bootstrap_servers=DEAD).partitions_for(TOPIC), TimeoutException, (DEAD, "1000 ms"), "bootstrap.servers", seconds=3),
    Mistake("nobody listens: init_transactions", lambda w: impatient(w, bootstrap_servers=DEAD, transactional_id="t").init_transactions(), TimeoutException, (DEAD, "1000 ms"), "bootstrap.servers", seconds=3),
)  # fmt: skip
def test_a_mistake_in_sending(mistake: Mistake, world: World) -> None:
    judge(mistake, world)


@rows(
    Mistake("begin without an id", lambda w: w.producer().begin_transaction(), STATE, ("non-transactional",), "set transactional.id"),
    Mistake("init without an id", lambda w: w.producer().init_transactions(), STATE, ("non-transactional",), "set transactional.id"),
    Mistake("with, without an id", lambda w: w.producer().transaction().__enter__(), STATE, ("non-transactional",), "set transactional.id"),
    Mistake("begin before init", lambda w: w.producer(transactional_id="t").begin_transaction(), STATE, ("t: begin_transaction", "uninitialized"), "call init_transactions first"),
    Mistake("send before init", lambda w: w.producer(transactional_id="t").send(TOPIC, b"v").result(), STATE, ("t: send", "uninitialized"), "call init_transactions first"),
    Mistake("send before begin", lambda w: w.transactional().send(TOPIC, b"v").result(), STATE, ("shop-1: send", "ready"), "call begin_transaction first"),
    Mistake("Arrow before begin", lambda w: w.transactional().send_arrow(TOPIC, pa.table({"value": [b"a"]})).result(), STATE, ("shop-1: send", "ready"), "call begin_transaction first"),
    Mistake("commit without begin", lambda w: w.transactional().commit_transaction(), STATE, ("shop-1: commit_transaction", "ready"), "call begin_transaction first"),
    Mistake("abort without begin", lambda w: w.transactional().abort_transaction(), STATE, ("shop-1: abort_transaction", "ready"), "call begin_transaction first"),
    Mistake("begin twice", lambda w: w.beginning().begin_transaction(), STATE, ("shop-1: begin_transaction", "in transaction"), "commit or abort the transaction"),
    Mistake("init twice", lambda w: w.transactional().init_transactions(), STATE, ("shop-1: init_transactions", "ready"), "called once in a producer's life"),
    Mistake("offsets before begin", lambda w: w.transactional().send_offsets_to_transaction({(TOPIC, 0): 1}, "g"), STATE, ("shop-1: send_offsets_to_transaction", "ready"), "call begin_transaction first"),
    Mistake("offsets of no group", lambda w: w.beginning().send_offsets_to_transaction({(TOPIC, 0): 1}, 5), WRONG, ("group_metadata=5", "is an int"), "consumer.group_metadata()"),
    Mistake("a negative offset", lambda w: w.beginning().send_offsets_to_transaction({(TOPIC, 0): -1}, "g"), WRONG, ("offsets[orders-0]", "-1"), "the first one is 0"),
    Mistake("offsets in a list", lambda w: w.beginning().send_offsets_to_transaction([1], "g"), WRONG, ("offsets=[1]", "is a list"), "a mapping of partitions to offsets"),  # type: ignore[arg-type]
    Mistake("prepare without two phases", lambda w: w.beginning().prepare_transaction(), STATE, ("2PC",), "set transaction.two.phase.commit.enable=true"),
    Mistake("complete what is no state", lambda w: w.transactional().complete_transaction("x"), WRONG, ("x",), "state format"),
    Mistake("two with one id", fenced, InvalidProducerEpochException, ("shop-1", "INVALID_PRODUCER_EPOCH"), "Abort it"),
)  # fmt: skip
def test_a_mistake_in_transactions(mistake: Mistake, world: World) -> None:
    judge(mistake, world)


@rows(
    Mistake("a dict for a table", lambda w: w.producer().send_arrow(TOPIC, {"value": [b"a"]}), WRONG, ("a dict",), "takes a pyarrow Table"),
    Mistake("nothing for a table", lambda w: w.producer().send_arrow(TOPIC, None), WRONG, ("None",), "takes a pyarrow Table"),
    Mistake("a topic that is a number", lambda w: w.producer().send_arrow(5, pa.table({"value": [b"a"]})), WRONG, ("topic=5", "an int"), "a non-empty str"),  # type: ignore[arg-type]
    Mistake("no column of a record", lambda w: table(w, x=[1]), WRONG, ("column x",), "Drop or rename it"),
    Mistake("a column too many", lambda w: table(w, value=[b"a"], extra=[1]), WRONG, ("column extra",), "ignore_columns=['extra']"),
    Mistake("numbers for values", lambda w: table(w, value=[1]), WRONG, ("column value has type int64",), "Convert it first"),
    Mistake("numbers for keys", lambda w: table(w, value=[b"a"], key=[1]), WRONG, ("column key has type int64",), "Convert it first"),
    Mistake("partitions in text", lambda w: table(w, value=[b"a"], partition=["0"]), WRONG, ("column partition has type string",), "pyarrow.int32()"),
    Mistake("a partition too high", lambda w: w.producer().send_arrow(TOPIC, pa.table({"value": [b"a"], "partition": [9]})).result(), WRONG, ("row 0: partition 9",), "orders has 2 partitions"),
    Mistake("times in text", lambda w: table(w, value=[b"a"], timestamp=["today"]), WRONG, ("column timestamp has type string",), "pyarrow.timestamp('ms'"),
    Mistake("headers in text", lambda w: table(w, value=[b"a"], headers=["x"]), WRONG, ("column headers has type string",), "pyarrow.list_(pyarrow.struct"),
    Mistake("a row too large", lambda w: w.producer(max_request_size=1000).send_arrow(TOPIC, pa.table({"value": [b"a" * 5000]})).result(), RecordTooLargeException, ("5070 bytes",), "split it"),
)  # fmt: skip
def test_a_mistake_with_arrow(mistake: Mistake, world: World) -> None:
    judge(mistake, world)
