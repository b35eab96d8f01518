"""Two records in one transaction: readers see both, or none.

python examples/ex07_only_produce.py
"""

from here import bootstrap
from orders import build_consumer
from semel import KafkaException, Producer


def build_producer(servers: str, transactional_id: str = "first-transactional") -> Producer:
    return Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": transactional_id,
            "enable.idempotence": True,  # Implied by transactional.id; saying it does no harm.
            "acks": "all",
            "retries": 1,
            "linger.ms": 1,  # batch.size needs no flush(): what is full or has waited is sent.
            "buffer.memory": 33554432,
            "key.serializer": "StringSerializer",
            "value.serializer": "StringSerializer",
        }
    )


def only_produce_in_transaction(servers: str, *, fail: bool) -> None:
    with build_producer(servers) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        try:
            producer.send("test", "transaction-data-1")
            producer.send("test", "transaction-data-2")
            if fail:
                raise KafkaException("the business logic failed")
            producer.commit_transaction()
        except KafkaException as error:
            print(f"aborted: {error}")
            producer.abort_transaction()


def main() -> None:
    with bootstrap() as servers:
        only_produce_in_transaction(servers, fail=True)
        only_produce_in_transaction(servers, fail=False)
        with build_consumer(servers, "readers") as consumer:
            consumer.subscribe(["test"])
            seen: list[str] = []
            while len(seen) < 2:
                seen += [record.value for record in consumer.poll(500)]
            seen += [record.value for record in consumer.poll(200)]
        print(f"visible: {seen}")


if __name__ == "__main__":
    main()
