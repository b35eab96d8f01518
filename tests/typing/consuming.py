"""A consumer: records, positions, and partitions given as pairs or by name."""

from typing import reveal_type

from semel import Consumer, TopicPartition

partition = TopicPartition("orders", 1)
reveal_type(partition)  # reveals: TopicPartition
reveal_type(partition.partition)  # reveals: int
topic, number = partition
reveal_type((topic, number))  # reveals: tuple[str, int]

with Consumer(bootstrap_servers="localhost:9092", group_id="g") as consumer:
    consumer.subscribe(["orders"])
    for record in consumer:
        reveal_type(record)  # reveals: ConsumerRecord
        reveal_type(record.offset)  # reveals: int
        reveal_type(record.headers)  # reveals: tuple[tuple[str, bytes | None], ...]
        reveal_type(record.value)  # reveals: Any
    reveal_type(consumer.poll(timeout_ms=100))  # reveals: ConsumerRecords
    consumer.poll(timeout_ms="100")  # refused: arg-type

    consumer.assign([("orders", 0), partition])
    consumer.assign(["orders"])  # refused: list-item
    consumer.seek(("orders", 0), 17)
    consumer.seek("orders", 17)  # refused: arg-type
    reveal_type(consumer.assignment())  # reveals: set[TopicPartition]
    reveal_type(consumer.position(("orders", 0)))  # reveals: int
    reveal_type(consumer.current_lag(partition))  # reveals: int | None
    reveal_type(consumer.committed([partition]))  # reveals: dict[TopicPartition, OffsetAndMetadata | None]
    reveal_type(consumer.consumed())  # reveals: dict[TopicPartition, OffsetAndMetadata]
    reveal_type(consumer.end_offsets([("orders", 0)]))  # reveals: dict[TopicPartition, int]
    reveal_type(consumer.group_metadata())  # reveals: ConsumerGroupMetadata
    reveal_type(consumer.partitions_for("orders"))  # reveals: list[PartitionInfo]
    consumer.commit({partition: 18})
