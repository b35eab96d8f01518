"""The Python clients at the same jobs: how each of them sends, reads and commits.

Role.   A function per client and job makes the run that `client` times: connected and warmed up before, then the job from its
        first record to its last acknowledgement.
Rules.  * Clients run at their defaults, with idempotence on where there is a choice. confluent-kafka's queues are enlarged:
          as they come it waits for itself.
        * A run checks that it did the whole job, and raises otherwise.
        * Values are given the way a program has them: rows of a table to `send_arrow`, one object per record elsewhere.
"""

import asyncio
import atexit
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from semel.bench.broker_load import LoadError, ProduceFrame, Wire, produce_large, records_of

PARTITIONS: Final = 4
_TIMEOUT_SECONDS: Final = 60.0
_CONSUMED_AT_ONCE: Final = 10_000
_BARE_RECORDS: Final = 9_000  # Just below a megabyte of them, at 100 B.
Run = Callable[[], object]


def _done(got: int, wanted: int, who: str) -> None:
    if got < wanted:
        raise LoadError(f"{who}: {got} of {wanted} records in {_TIMEOUT_SECONDS:.0f} s")


# Producing


def semel_arrow(bootstrap: str, topic: str, table: pa.Table) -> Run:
    """All rows by `send_arrow`."""
    producer = _semel_producer(bootstrap)

    def run() -> None:
        producer.send_arrow(topic, table)
        producer.flush()

    return run


def written_only(table: pa.Table) -> Run:
    """The batches of `send_arrow`, without a broker."""
    from semel.core.records.arrow_encode import encode_batches

    def run() -> None:
        for _batch in encode_batches(table, timestamp_ms=0):
            pass

    return run


def bare_socket(wire: Wire, topic: str, records: int, size_bytes: int) -> Run:
    """As many records as one finished batch, sent again and again by a socket that does nothing else."""
    request = ProduceFrame.of(topic, records_of(size_bytes, count=_BARE_RECORDS))

    def run() -> None:
        produce_large(wire, request, records // _BARE_RECORDS, in_flight=5)

    return run


def semel_records(bootstrap: str, topic: str, values: Sequence[bytes], **settings: Any) -> Run:
    """One `send` per record."""
    producer = _semel_producer(bootstrap, **settings)

    def run() -> None:
        futures = [producer.send(topic, value) for value in values]
        producer.flush()
        futures[-1].result(0)

    return run


def _semel_producer(bootstrap: str, **settings: Any) -> Any:
    from semel import Producer

    producer = Producer({"bootstrap.servers": bootstrap}, **settings)
    atexit.register(producer.close)
    return producer


def confluent_records(bootstrap: str, topic: str, values: Sequence[bytes]) -> Run:
    """One `produce` per record."""
    producer = _confluent_producer(bootstrap)

    def run() -> None:
        produce = producer.produce
        for number, value in enumerate(values):
            produce(topic, value)
            if not number % 1000:
                producer.poll(0)
        left = producer.flush(_TIMEOUT_SECONDS)
        _done(len(values) - left, len(values), "confluent-kafka")

    return run


def _confluent_producer(bootstrap: str, **settings: Any) -> Any:
    from confluent_kafka import Producer

    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            **settings,
        }
    )


def kafka_python_records(bootstrap: str, topic: str, values: Sequence[bytes]) -> Run:
    """One `send` per record."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    atexit.register(producer.close)

    def run() -> None:
        futures = [producer.send(topic, value) for value in values]
        producer.flush(_TIMEOUT_SECONDS)
        futures[-1].get(0)

    return run


def aiokafka_records(bootstrap: str, topic: str, values: Sequence[bytes]) -> Run:
    """One `await send` per record."""
    from aiokafka import AIOKafkaProducer

    runner = asyncio.Runner()

    async def started() -> Any:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        return producer

    producer = runner.run(started())
    atexit.register(lambda: runner.run(producer.stop()))

    async def send_all() -> None:
        futures = [await producer.send(topic, value) for value in values]
        await producer.flush()
        await futures[-1]

    return lambda: runner.run(send_all())


# Consuming


def semel_to_arrow(bootstrap: str, topic: str, count: int) -> Run:
    """`poll_arrow` until all rows are there."""
    consumer = _semel_consumer(bootstrap, topic)

    def run() -> None:
        consumer.seek_to_beginning()
        got = 0
        while got < count:
            rows = consumer.poll_arrow(timeout_ms=int(_TIMEOUT_SECONDS * 1000))
            _done(rows.num_rows, 1, "semel")
            got += rows.num_rows

    return run


def semel_to_records(bootstrap: str, topic: str, count: int) -> Run:
    """`poll`, and every record's value."""
    consumer = _semel_consumer(bootstrap, topic)

    def run() -> None:
        consumer.seek_to_beginning()
        got = 0
        while got < count:
            records = consumer.poll(timeout_ms=int(_TIMEOUT_SECONDS * 1000))
            _done(len(records), 1, "semel")
            got += sum(record.value is not None for record in records)

    return run


def _semel_consumer(bootstrap: str, topic: str) -> Any:
    from semel import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False})
    consumer.assign([(topic, number) for number in range(PARTITIONS)])
    atexit.register(consumer.close)
    return consumer


def confluent_to_arrow(bootstrap: str, topic: str, count: int) -> Run:
    """`consume`, and columns of offsets, keys and values made of its messages."""

    def columns(messages: list[Any]) -> int:
        rows = pa.record_batch(
            {
                "partition": pa.array([one.partition() for one in messages], pa.int32()),
                "offset": pa.array([one.offset() for one in messages], pa.int64()),
                "key": pa.array([one.key() for one in messages], pa.binary()),
                "value": pa.array([one.value() for one in messages], pa.binary()),
            }
        )
        return int(rows.num_rows)

    return _confluent_consuming(bootstrap, topic, count, columns)


def confluent_to_records(bootstrap: str, topic: str, count: int) -> Run:
    """`consume`, and every message's value."""
    return _confluent_consuming(
        bootstrap, topic, count, lambda messages: sum(one.value() is not None for one in messages)
    )


def _confluent_consuming(bootstrap: str, topic: str, count: int, use: Callable[[list[Any]], int]) -> Run:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1 << 20,
            "fetch.queue.backoff.ms": 1,
        }
    )
    atexit.register(consumer.close)

    def run() -> None:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        got = 0
        while got < count:
            messages = consumer.consume(_CONSUMED_AT_ONCE, _TIMEOUT_SECONDS)
            _done(len(messages), 1, "confluent-kafka")
            got += use(messages)

    return run


def kafka_python_to_records(bootstrap: str, topic: str, count: int) -> Run:
    """`poll`, and every record's value."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, group_id=None)
    consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
    atexit.register(consumer.close)

    def run() -> None:
        consumer.seek_to_beginning()
        got = 0
        while got < count:
            polled = consumer.poll(timeout_ms=int(_TIMEOUT_SECONDS * 1000))
            _done(len(polled), 1, "kafka-python")
            got += sum(record.value is not None for records in polled.values() for record in records)

    return run


def aiokafka_to_records(bootstrap: str, topic: str, count: int) -> Run:
    """`getmany`, and every record's value."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    runner = asyncio.Runner()

    async def started() -> Any:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, group_id=None)
        await consumer.start()
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        return consumer

    consumer = runner.run(started())
    atexit.register(lambda: runner.run(consumer.stop()))

    async def read_all() -> None:
        await consumer.seek_to_beginning()
        got = 0
        while got < count:
            polled = await consumer.getmany(timeout_ms=int(_TIMEOUT_SECONDS * 1000))
            _done(len(polled), 1, "aiokafka")
            got += sum(record.value is not None for records in polled.values() for record in records)

    return lambda: runner.run(read_all())


# Transactions


def semel_transactions(bootstrap: str, topic: str, count: int) -> Run:
    """One record each, committed."""
    producer = _semel_producer(bootstrap, transactional_id="bench-semel")
    producer.init_transactions()

    def run() -> None:
        for _ in range(count):
            with producer.transaction():
                producer.send(topic, b"x" * 100)

    return run


def confluent_transactions(bootstrap: str, topic: str, count: int) -> Run:
    """One record each, committed."""
    producer = _confluent_producer(bootstrap, **{"transactional.id": "bench-confluent"})
    producer.init_transactions(_TIMEOUT_SECONDS)

    def run() -> None:
        for _ in range(count):
            producer.begin_transaction()
            producer.produce(topic, b"x" * 100)
            producer.commit_transaction(_TIMEOUT_SECONDS)

    return run
