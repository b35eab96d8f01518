"""What the consuming examples have in common: five records to read, and a consumer that reads text."""

from semel import Consumer, ConsumerRecord, Producer

RECORDS = 5


def write_orders(servers: str, topic: str, count: int = RECORDS) -> None:
    with Producer({"bootstrap.servers": servers}) as producer:
        for n in range(count):
            producer.send(topic, key=f"key-{n}", value=f"value-{n}")


def build_consumer(servers: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 30000,
            "key.deserializer": "StringDeserializer",
            "value.deserializer": "StringDeserializer",
        }
    )


def show(record: ConsumerRecord) -> None:
    print(f"offset = {record.offset}, key = {record.key}, value = {record.value}")


def show_committed(servers: str, group: str, topic: str) -> None:
    with build_consumer(servers, group) as consumer:
        committed = consumer.committed([(topic, 0)])[topic, 0]  # type: ignore[index] # a plain tuple is a TopicPartition
        print(f"committed = {None if committed is None else committed.offset}")
