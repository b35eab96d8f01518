"""The clients people use, as loads on a broker: confluent-kafka, and Kafka's own Java producer and consumer.

Role.   Each function produces or consumes a number of records and gives a `Load`; the broker is any.
Rules.  * Clients run at their defaults, with idempotence on. Only confluent-kafka's queues are enlarged: as they come,
          its consumer waits for itself most of the time, and any broker would look the same.
        * The clock is the client's: JVMs start before it, and so do connections. The CPU of a JVM's start is counted.
        * ConsumerPerformance joins a group; the time until it has its partitions is not counted. confluent-kafka's consumer
          is measured both ways: assigned its partitions, and in a group.
"""

import importlib.util
import re
import resource
import time
from typing import Any, Final

from semel.bench.broker_load import Load, LoadError, Stopwatch
from semel.peers.kafka import KafkaHome

PARTITIONS: Final = 4
_TIMEOUT_SECONDS: Final = 60.0
_CONSUMED_FIELDS: Final = 10
_CONSUMED_COUNT: Final = 4
_CONSUMED_FETCHING_MS: Final = 7
_PRODUCED: Final = re.compile(r"(\d+) records sent, ([\d.]+) records/sec .*?([\d.]+) ms avg latency")


def has_confluent() -> bool:
    """Whether confluent-kafka is installed; a measurement without it has no such rows."""
    return importlib.util.find_spec("confluent_kafka") is not None


def confluent_produce(bootstrap: str, topic: str, *, records: int, size_bytes: int) -> Load:
    """confluent-kafka's producer, one call per record, the partitions in turn."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    producer.list_topics(topic, timeout=_TIMEOUT_SECONDS)
    value = bytes(size_bytes)
    watch = Stopwatch()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.01)
        if not number % 10_000:
            producer.poll(0)
    left = producer.flush(_TIMEOUT_SECONDS)
    seconds, cpu = watch.seconds()
    if left:
        raise LoadError(f"{left} of {records} records were not acknowledged in {_TIMEOUT_SECONDS:.0f} s")
    check_count(bootstrap, topic, records)
    return Load(seconds, cpu, records, records * size_bytes)


def confluent_consume(bootstrap: str, topic: str, *, records: int, size_bytes: int) -> Load:
    """confluent-kafka's consumer, 10,000 records at a time."""
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
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        return _consumed(consumer, records, size_bytes)
    finally:
        consumer.close()


def confluent_consume_in_group(
    bootstrap: str, topic: str, group: str, *, records: int, size_bytes: int
) -> Load:
    """confluent-kafka's consumer as the only member of a group, 10,000 records at a time, committing by itself."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1 << 20,
            "fetch.queue.backoff.ms": 1,
        }
    )
    try:
        consumer.subscribe([topic])
        return _consumed(consumer, records, size_bytes)
    finally:
        consumer.close()


def _consumed(consumer: Any, records: int, size_bytes: int) -> Load:
    """All records, timed from the first one that came."""
    first = len(consumer.consume(1, _TIMEOUT_SECONDS))
    got = first
    watch = Stopwatch()
    deadline = time.perf_counter() + _TIMEOUT_SECONDS
    while got < records and time.perf_counter() < deadline:
        got += len(consumer.consume(min(10_000, records - got), 1.0))
    seconds, cpu = watch.seconds()
    if got != records:
        raise LoadError(f"{got} of {records} records came in {_TIMEOUT_SECONDS:.0f} s")
    return Load(seconds, cpu, records - first, (records - first) * size_bytes)


def check_count(bootstrap: str, topic: str, records: int) -> None:
    """The topic holds exactly these many records."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})
    try:
        held = sum(
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_TIMEOUT_SECONDS)[1]
            for number in range(PARTITIONS)
        )
    finally:
        consumer.close()
    if held != records:
        raise LoadError(f"{topic} holds {held} records, {records} were produced")


def java_produce(home: KafkaHome, bootstrap: str, topic: str, *, records: int, size_bytes: int) -> Load:
    """Kafka's ProducerPerformance."""
    printed, cpu = _run(
        home,
        "org.apache.kafka.tools.ProducerPerformance",
        "--topic", topic,
        "--num-records", str(records),
        "--record-size", str(size_bytes),
        "--throughput", "-1",
        "--bootstrap-server", bootstrap,
    )  # fmt: skip
    return produced_by_java(printed, cpu, records, size_bytes)


def produced_by_java(printed: str, cpu: float, records: int, size_bytes: int) -> Load:
    """The load from the last line of ProducerPerformance."""
    lines = [found for line in printed.splitlines() if (found := _PRODUCED.search(line))]
    if not lines or int(lines[-1][1]) != records:
        raise LoadError(f"ProducerPerformance did not say that it sent {records} records:\n{printed[-2000:]}")
    return Load(records / float(lines[-1][2]), cpu, records, records * size_bytes)


def java_consume(home: KafkaHome, bootstrap: str, topic: str, *, records: int, size_bytes: int) -> Load:
    """Kafka's ConsumerPerformance, the only member of a new group."""
    printed, cpu = _run(
        home,
        "org.apache.kafka.tools.ConsumerPerformance",
        "--topic", topic,
        "--num-records", str(records),
        "--timeout", str(int(_TIMEOUT_SECONDS * 1000)),
        "--bootstrap-server", bootstrap,
    )  # fmt: skip
    return consumed_by_java(printed, cpu, records, size_bytes)


def consumed_by_java(printed: str, cpu: float, records: int, size_bytes: int) -> Load:
    """The load from the output of ConsumerPerformance, without the time to join its group."""
    lines = [line.split(", ") for line in printed.splitlines() if line.count(", ") == _CONSUMED_FIELDS - 1]
    if not lines or not lines[-1][_CONSUMED_COUNT].isdecimal() or int(lines[-1][_CONSUMED_COUNT]) < records:
        raise LoadError(f"ConsumerPerformance did not say that it read {records} records:\n{printed[-2000:]}")
    count, fetching_ms = int(lines[-1][_CONSUMED_COUNT]), float(lines[-1][_CONSUMED_FETCHING_MS])
    return Load(fetching_ms / 1000, cpu, count, count * size_bytes)


def _run(home: KafkaHome, *arguments: str) -> tuple[str, float]:
    """The output of a Java program, and its CPU seconds, including the JVM's start."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = home.run(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return printed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
