"""A producer: records, transactions, and positions that are committed with them."""

from typing import reveal_type

from semel import Consumer, Producer, TopicPartition, exceptions

with Producer({"bootstrap.servers": "localhost:9092"}, linger_ms=5, transactional_id="orders-1") as producer:
    reveal_type(producer)  # reveals: Producer
    future = producer.send("orders", {"any": "value"}, key=b"k", partition=3, timestamp=1)
    reveal_type(future)  # reveals: SendFuture
    reveal_type(future.result(timeout=5))  # reveals: RecordMetadata
    reveal_type(future.result().offset)  # reveals: int
    reveal_type(producer.flush())  # reveals: None
    producer.send(7, "a topic is a name")  # refused: arg-type
    producer.send("orders", "v", partition="3")  # refused: arg-type
    producer.flush(timeout=1)  # refused: call-arg

    producer.init_transactions()
    with producer.transaction() as itself, Consumer({"group.id": "g"}) as consumer:
        reveal_type(itself)  # reveals: Producer
        producer.send_offsets_to_transaction({("orders", 0): 5}, consumer.group_metadata())
        producer.send_offsets_to_transaction({TopicPartition("orders", 0): 5}, consumer.group_metadata())
        producer.send_offsets_to_transaction({"orders": 5}, consumer.group_metadata())  # refused: arg-type
        with producer.transaction(consumer) as both:
            reveal_type(both)  # reveals: Producer

try:
    producer.commit_transaction()
except exceptions.ProducerFencedException as fenced:
    reveal_type(fenced.fatal)  # reveals: bool
    reveal_type(fenced.code)  # reveals: ErrorCode
except exceptions.KafkaException as error:
    reveal_type(error.retriable)  # reveals: bool
    reveal_type(error.abortable)  # reveals: bool
