"""confluent-kafka's transactions as loads on a broker.

Role.   Each function does a number of transactions as people write them and gives a `Load`; the broker is any.
Rules.  * Clients run at their defaults; only queues are enlarged where records come faster than the client would take them.
        * The clock starts when every producer has its identity, and, where it reads, with the first record that came.
        * The written records are counted: every record once, and one marker per transaction and partition.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from semel.bench.broker_clients import PARTITIONS
from semel.bench.broker_load import Load, LoadError, Stopwatch

_TIMEOUT_SECONDS: Final = 60.0
_QUEUES: Final = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1 << 20}


def _producer(bootstrap: str, name: str, **settings: Any) -> Any:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **settings})
    producer.init_transactions(_TIMEOUT_SECONDS)
    return producer


def confluent_transact(
    bootstrap: str, topic: str, names: Sequence[str], *, count: int, size_bytes: int = 100
) -> Load:
    """`count` transactions of one record by each producer, a thread and a partition each. Latencies are commit's."""
    producers = [_producer(bootstrap, name) for name in names]
    latencies: list[float] = []
    failures: list[BaseException] = []

    def work(partition: int, producer: Any) -> None:
        value = bytes(size_bytes)
        try:
            for _ in range(count):
                producer.begin_transaction()
                producer.produce(topic, value, partition=partition)
                began = time.perf_counter()
                producer.commit_transaction(_TIMEOUT_SECONDS)
                latencies.append(time.perf_counter() - began)
        except Exception as error:  # Told where the threads are joined.
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(producers)]
    watch = Stopwatch()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, cpu = watch.seconds()
    if failures:
        raise LoadError(f"a transaction failed: {failures[0]}")
    transactions = count * len(names)
    check_end(bootstrap, topic, len(names), 2 * transactions)
    return Load(seconds, cpu, transactions, transactions * size_bytes, latencies)


def confluent_copy(
    bootstrap: str,
    source: str,
    target: str,
    name: str,
    *,
    records: int,
    per_transaction: int,
    size_bytes: int,
) -> Load:
    """Consume, transform, produce: the records of a topic into another, offsets in the transaction, exactly once."""
    from confluent_kafka import Consumer

    producer = _producer(bootstrap, name, **_QUEUES)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.subscribe([source])
        took = consumer.consume(1, _TIMEOUT_SECONDS)
        done = transactions = 0
        watch = Stopwatch()
        while took:
            producer.begin_transaction()
            for message in took:
                producer.produce(target, message.value()[::-1], partition=0)
            places = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), _TIMEOUT_SECONDS)
            producer.commit_transaction(_TIMEOUT_SECONDS)
            done += len(took)
            transactions += 1
            left = records - done
            took = consumer.consume(min(per_transaction, left), _TIMEOUT_SECONDS) if left else []
        seconds, cpu = watch.seconds()
        stored = sum(
            max(0, place.offset) for place in consumer.committed(consumer.assignment(), _TIMEOUT_SECONDS)
        )
    finally:
        consumer.close()
    if (done, stored) != (records, records):
        raise LoadError(f"{done} of {records} records were copied, the group stands at {stored}")
    check_end(bootstrap, target, 1, records + transactions)
    return Load(seconds, cpu, records, records * size_bytes)


def confluent_stream(
    bootstrap: str, topic: str, name: str | None, *, records: int, size_bytes: int, every_seconds: float = 0.1
) -> Load:
    """Records as fast as they are taken, the partitions in turn; with a name in transactions of `every_seconds`."""
    from confluent_kafka import Producer

    if name is None:
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **_QUEUES})
        producer.list_topics(topic, timeout=_TIMEOUT_SECONDS)
    else:
        producer = _producer(bootstrap, name, **_QUEUES)
    value = bytes(size_bytes)
    watch = Stopwatch()
    if name is not None:
        producer.begin_transaction()
    commit_at = time.perf_counter() + every_seconds
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.01)
        if not number % 100:
            producer.poll(0)
            if name is not None and time.perf_counter() >= commit_at:
                producer.commit_transaction(_TIMEOUT_SECONDS)
                producer.begin_transaction()
                commit_at = time.perf_counter() + every_seconds
    if name is not None:
        producer.commit_transaction(_TIMEOUT_SECONDS)
    left = producer.flush(_TIMEOUT_SECONDS)
    seconds, cpu = watch.seconds()
    if left:
        raise LoadError(f"{left} of {records} records were not acknowledged in {_TIMEOUT_SECONDS:.0f} s")
    return Load(seconds, cpu, records, records * size_bytes)


def confluent_scan(bootstrap: str, topic: str, *, records: int, size_bytes: int, committed: bool) -> Load:
    """All records of partition 0 that the isolation level shows, 10,000 at a time."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1 << 20,
            "fetch.queue.backoff.ms": 1,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        first = got = len(consumer.consume(1, _TIMEOUT_SECONDS))
        watch = Stopwatch()
        deadline = time.perf_counter() + _TIMEOUT_SECONDS
        while got < records and time.perf_counter() < deadline:
            got += len(consumer.consume(min(10_000, records - got), 1.0))
        seconds, cpu = watch.seconds()
        more = len(consumer.consume(1, 0.05))
    finally:
        consumer.close()
    if got != records or more:
        raise LoadError(f"{got + more} records came where the isolation level shows {records}")
    return Load(seconds, cpu, records - first, (records - first) * size_bytes)


def check_end(
    bootstrap: str,
    topic: str,
    partitions: int,
    offsets: int,
    *,
    patience_seconds: float = _TIMEOUT_SECONDS,
) -> None:
    """The log ends of a topic's first partitions, which count records and markers."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})
    deadline = time.perf_counter() + patience_seconds
    try:
        while True:  # Kafka writes its markers after the answer.
            held = sum(
                consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_TIMEOUT_SECONDS)[1]
                for number in range(partitions)
            )
            if held == offsets or time.perf_counter() > deadline:
                break
            time.sleep(0.01)
    finally:
        consumer.close()
    if held != offsets:
        raise LoadError(f"{topic} ends at {held}, with {offsets} records and markers written")
