"""Mistakes with asyncio's clients, with counting once outside of Kafka, with the embedded broker and the pytest plugin.

Method: tables; every row is one call.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import semel
from semel import Broker, TransactionalProducerPool, aio, once
from semel.embedded import EmbeddedError, EmbeddedStartError
from semel.errors import ConfigError, LogDirLockedError, SemelError
from semel.exceptions import (
    ConfigException,
    IllegalArgumentException,
    IllegalStateException,
    SerializationException,
    TimeoutException,
)
from semel.once import OnceError
from semel.verify.fault_proxy import FaultProxy
from support.client.mistakes_kit import DEAD, IMPATIENT_MS, TOPIC, Mistake, World, judge, rows

HERE = Path(__file__)


def with_client(kind: Any, w: World, use: Callable[[Any], Any], **settings: Any) -> object:
    """An asyncio client's one call, on a loop of its own."""

    async def run() -> object:
        async with kind(**{"bootstrap_servers": w.bootstrap, **settings}) as client:
            done = use(client)
            return await done if isinstance(done, Awaitable) else done

    return asyncio.run(run())


def after_the_end(w: World, topic: str = TOPIC) -> object:
    async def run() -> object:
        async with aio.Producer(bootstrap_servers=w.bootstrap) as producer:
            pass
        return await producer.send(topic, b"v")

    return asyncio.run(run())


def nobody_listens(w: World) -> object:
    async def send(producer: Any) -> object:
        return await (await producer.send(TOPIC, b"v"))

    times = {
        "max_block_ms": IMPATIENT_MS,
        "request_timeout_ms": IMPATIENT_MS // 2,
        "delivery_timeout_ms": IMPATIENT_MS,
    }
    return with_client(aio.Producer, w, send, bootstrap_servers=DEAD, **times)


@rows(
    Mistake("an unknown setting", lambda w: with_client(aio.Producer, w, lambda p: None, linger=5), ConfigException, ("linger",), "did you mean linger.ms?"),
    Mistake("a number for a value", lambda w: with_client(aio.Producer, w, lambda p: p.send(TOPIC, 5)), SerializationException, ("value=5",), "set value.serializer"),
    Mistake("begin without an id", lambda w: with_client(aio.Producer, w, lambda p: p.begin_transaction()), IllegalStateException, ("non-transactional",), "set transactional.id"),
    Mistake("begin before init", lambda w: with_client(aio.Producer, w, lambda p: p.begin_transaction(), transactional_id="t"), IllegalStateException, ("t: begin_transaction",), "call init_transactions first"),
    Mistake("poll without a subscription", lambda w: with_client(aio.Consumer, w, lambda c: c.poll(0), group_id="g"), IllegalStateException, ("not subscribed",), "assigned any partitions"),
    Mistake("poll for a negative time", lambda w: with_client(aio.Consumer, w, lambda c: (c.assign([(TOPIC, 0)]), c.poll(-1))[1]), IllegalArgumentException, ("timeout_ms=-1",), "from 0 on"),
    Mistake("assign a name", lambda w: with_client(aio.Consumer, w, lambda c: c.assign(TOPIC)), IllegalArgumentException, ("partitions='orders'",), "a list of partitions"),
    Mistake("a topic that exists", lambda w: with_client(aio.Admin, w, lambda a: a.create_topics(TOPIC)), SemelError, ("'orders'",), "already exists"),
    Mistake("sent after the end to a topic that is not there", lambda w: after_the_end(w, "absent"), IllegalStateException, ("closed",), "make a new one"),
    Mistake("sent after the end", after_the_end, IllegalStateException, ("closed",), "make a new one"),
    Mistake("nobody listens", nobody_listens, TimeoutException, (DEAD, "1000 ms"), "start one with 'semel broker'", seconds=3),
    Mistake("a pool without a prefix", lambda w: TransactionalProducerPool(size=2), TypeError, ("__init__()",), "'prefix'"),  # type: ignore[call-arg]
)  # fmt: skip
def test_a_mistake_with_asyncio(mistake: Mistake, world: World) -> None:
    judge(mistake, world)


def claimed(message_id: Any) -> Callable[[World], object]:
    return lambda w: once.Deduplicator(once.MemoryClaims()).claim(message_id).__enter__()


@rows(
    Mistake("a store that is text", lambda w: once.Deduplicator("redis"), ConfigError, ("store='redis'",), "use MemoryClaims()"),  # type: ignore[arg-type]
    Mistake("no time to live", lambda w: once.Deduplicator(once.MemoryClaims(), ttl_ms=0), ConfigError, ("ttl_ms is 0",), "at least 1 ms"),
    Mistake("a negative lease", lambda w: once.Deduplicator(once.MemoryClaims(), lease_ms=-1), ConfigError, ("lease_ms is -1",), "at least 1 ms"),
    Mistake("no id", claimed(None), OnceError, ("message_id=None",), "record.headers['id'].decode()"),
    Mistake("an empty id", claimed(""), OnceError, ("message_id=''",), "not empty"),
    Mistake("an id in bytes", claimed(b"17"), OnceError, ("message_id=b'17'", "bytes"), ".decode()"),
    Mistake("a memory of nothing", lambda w: once.MemoryClaims(entries_max=0), ConfigError, ("entries_max is 0",), "at least one id"),
    Mistake("no client of Redis", lambda w: once.RedisClaims(None), ConfigError, ("client=None",), "redis.Redis.from_url"),  # type: ignore[arg-type]
    Mistake("text that is no URL", lambda w: once.SqlClaims("not a url", name="x"), ConfigError, ("database",), "sqlite:///file.db"),
    Mistake("a number for a database", lambda w: once.ExactlyOnceSink(5, name="s"), ConfigError, ("database is an int",), "sqlite:///file.db"),  # type: ignore[arg-type]
    Mistake("an unknown database", lambda w: once.ExactlyOnceSink("nothing://x", name="s"), ConfigError, ("nothing://x",), "sqlite and postgresql"),
    Mistake("a file that cannot be made", lambda w: once.ExactlyOnceSink("sqlite:////no/such/directory/x.db", name="s"), OnceError, ("sqlite:////no/such/directory/x.db",), "see that it is there"),
    Mistake("no name", lambda w: once.SqlClaims("sqlite://", name=""), ConfigError, ("name ''",), "from 1 to 200"),
    Mistake("an unknown start", lambda w: once.ExactlyOnceSink("sqlite://", name="s", start="first"), ConfigError, ("start is 'first'",), "'earliest' or 'latest'"),  # type: ignore[arg-type]
    Mistake("an inbox without a lease", lambda w: once.Inbox("sqlite://", name="i", lease_ms=0), ConfigError, ("lease_ms is 0",), "at least 1 ms"),
    Mistake("an outbox with no topic", lambda w: once.Outbox("sqlite://", name="o", topic="my topic!"), ConfigError, ("topic='my topic!'",), "ASCII alphanumerics"),
    Mistake("no attempt", lambda w: once.RetryPolicy(attempts_max=0), ConfigError, ("attempts_max is 0",), "at least 1"),
)  # fmt: skip
def test_a_mistake_in_counting_once(mistake: Mistake, world: World) -> None:
    judge(mistake, world)


def port_of(w: World) -> int:
    return int(w.bootstrap.rpartition(":")[2])


def taken_directory(w: World) -> None:
    first = w.closing.enter_context(Broker())
    Broker(data_dir=first.data_dir).start()


def started_twice(w: World) -> None:
    w.closing.enter_context(Broker()).start()


def harmed(*given: Any) -> Callable[[World], object]:
    return lambda w: w.closing.enter_context(FaultProxy(w.bootstrap)).harm(*given)


@rows(
    Mistake("a misspelled setting", lambda w: Broker(num_partition=3), ConfigError, ("num_partition",), "did you mean num.partitions?"),
    Mistake("a number in words", lambda w: Broker(num_partitions="many"), ConfigError, ("many", "num.partitions"), "a number"),
    Mistake("no partitions", lambda w: Broker(num_partitions=0), ConfigError, ("0", "num.partitions"), "at least 1"),
    Mistake("a port that is none", lambda w: Broker(port=99999), ConfigError, ("99999",), "from 0 to 65535"),
    Mistake("a port in words", lambda w: Broker(port="http"), ConfigError, ("http",), "from 0 to 65535"),  # type: ignore[arg-type]
    Mistake("a port that is taken", lambda w: Broker(port=port_of(w)).start(), EmbeddedStartError, ("127.0.0.1:",), "port=0 picks a free one"),
    Mistake("a host of another machine", lambda w: Broker(host="203.0.113.7").start(), EmbeddedStartError, ("203.0.113.7:0",), "choose another host"),
    Mistake("a host that is not known", lambda w: Broker(host="no-such-host.invalid").start(), EmbeddedStartError, ("'no-such-host.invalid'",), "of this machine", seconds=5),
    Mistake("a file for a directory", lambda w: Broker(data_dir=HERE).start(), EmbeddedStartError, (str(HERE),), "name a directory that can be written"),
    Mistake("a directory of another broker", taken_directory, LogDirLockedError, (".lock",), "another broker"),
    Mistake("listeners", lambda w: Broker(listeners="PLAINTEXT://:1"), ConfigError, ("listeners",), "use host and port"),
    Mistake("log.dirs", lambda w: Broker(log_dirs="/data"), ConfigError, ("log_dirs",), "data_dir"),
    Mistake("metrics without a host", lambda w: Broker(metrics="9090"), ConfigError, ("metrics=9090",), "as 127.0.0.1:9404"),
    Mistake("started twice", started_twice, EmbeddedError, ("running already",), "stop it first"),
    Mistake("asked before the start", lambda w: Broker().bootstrap, EmbeddedError, ("not running",), "call start()"),
    Mistake("asked for metrics it has not", lambda w: w.closing.enter_context(Broker()).metrics_url, EmbeddedError, ("shows no metrics",), "metrics='127.0.0.1:0'"),
    Mistake("a misspelled name", lambda w: semel.Producr, AttributeError, ("'Producr'",), "did you mean Producer?"),
    Mistake("half a partition", lambda w: semel.TopicPartition(TOPIC), TypeError, ("TopicPartition",), "'partition'"),  # type: ignore[call-arg]
    Mistake("plugin: an unknown request", harmed("prodce", "cut_after"), Exception, ("prodce",), "produce"),
    Mistake("plugin: an unknown fate", harmed("produce", "explode"), Exception, ("explode",), "cut_after"),
)  # fmt: skip
def test_a_mistake_with_the_embedded_broker_and_the_plugin(mistake: Mistake, world: World) -> None:
    judge(mistake, world)


def test_the_port_that_is_taken_is_named(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        judge(
            Mistake(
                "",
                lambda w: Broker(port=port).start(),
                OSError,
                (f"127.0.0.1:{port}", "in use"),
                "stop what uses it",
            ),
            world,
        )
