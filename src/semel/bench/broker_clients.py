"""The clients people use, as loads on a broker: confluent-kafka, and Kafka's own Java producer and consumer.

Role.   Each function produces or consumes a number of records and gives a `Load`; the broker is any.
Rules.  * Clients run at their defaults, with idempotence on. Only confluent-kafka's queues are enlarged: as they come,
          its consumer waits for itself most of the time, and any broker would look the same.
        * The clock is the client's: JVMs start before it, and so do connections. The CPU of a JVM's start is counted.
        * Consumers are assigned their partitions: Kafka's own ConsumerPerformance needs a group.
"""

import re
import resource
import time
from pathlib import Path
from typing import Final

from semel.bench.broker_load import Load, LoadError, Stopwatch
from semel.bench.kafka_peer import KafkaHome

PARTITIONS: Final = 4
_TIMEOUT_SECONDS: Final = 60.0
_PRODUCED: Final = re.compile(r"(\d+) records sent, ([\d.]+) records/sec .*?([\d.]+) ms avg latency")


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
        first = len(consumer.consume(1, _TIMEOUT_SECONDS))
        got = first
        watch = Stopwatch()
        deadline = time.perf_counter() + _TIMEOUT_SECONDS
        while got < records and time.perf_counter() < deadline:
            got += len(consumer.consume(min(10_000, records - got), 1.0))
        seconds, cpu = watch.seconds()
    finally:
        consumer.close()
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
    """What the last line of ProducerPerformance says."""
    lines = [found for line in printed.splitlines() if (found := _PRODUCED.search(line))]
    if not lines or int(lines[-1][1]) != records:
        raise LoadError(f"ProducerPerformance did not say that it sent {records} records:\n{printed[-2000:]}")
    return Load(records / float(lines[-1][2]), cpu, records, records * size_bytes)


def java_consume(home: KafkaHome, bootstrap: str, topic: str, *, records: int) -> Load:
    """Kafka's consumer, from a program of ours."""
    program = Path(__file__).with_name("AssignedConsumer.java")
    printed, cpu = _run(home, str(program), bootstrap, topic, str(PARTITIONS), str(records))
    counted, read_bytes, seconds = printed.split()[-3:]
    return Load(float(seconds), cpu, int(counted), int(read_bytes))


def _run(home: KafkaHome, *arguments: str) -> tuple[str, float]:
    """What a Java program printed, and its CPU seconds, the start of its JVM included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = home.run(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return printed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
