"""Consume, transform, produce: the offsets of what was read are committed in the transaction of what was written.

    python examples/ex08_consume_transform_produce.py

The seed of this example commits each record's own offset: the last record would be read again. Here it is the next one.
"""

from typing import Any

from ex07_only_produce import build_producer
from here import bootstrap
from orders import RECORDS, build_consumer, show, show_committed, write_orders
from semel import KafkaException, OffsetAndMetadata

GROUP = "group0323"


def consume_transfer_produce(servers: str, source: str, target: str, *, crash: bool = False) -> None:
    """Pass on everything that is left, two records in a transaction; or die before the second commit."""
    with build_producer(servers, "transfer") as producer, build_consumer(servers, GROUP) as consumer:
        producer.init_transactions()
        consumer.subscribe([source])
        passed = 0
        while passed < RECORDS:
            records = consumer.poll(500, max_records=2)
            if not records:
                continue
            producer.begin_transaction()
            try:
                commits: dict[Any, OffsetAndMetadata] = {}
                for record in records:
                    show(record)
                    commits[record.topic_partition] = OffsetAndMetadata(record.offset + 1)
                    producer.send(target, f"{record.value} done", key=record.key)
                    passed = record.offset + 1
                producer.send_offsets_to_transaction(commits, consumer.group_metadata())
                if crash and passed > 2:
                    return  # Nothing of this transaction will be seen, neither its records nor its offsets.
                producer.commit_transaction()
            except KafkaException:
                producer.abort_transaction()
                raise


def main() -> None:
    with bootstrap() as servers:
        write_orders(servers, "transfer-in")
        consume_transfer_produce(servers, "transfer-in", "transfer-out", crash=True)
        show_committed(servers, GROUP, "transfer-in")
        consume_transfer_produce(servers, "transfer-in", "transfer-out")
        show_committed(servers, GROUP, "transfer-in")
        with build_consumer(servers, "readers") as consumer:
            consumer.subscribe(["transfer-out"])
            seen: list[str] = []
            while len(seen) < RECORDS:
                seen += [record.value for record in consumer.poll(500)]
            seen += [record.value for record in consumer.poll(200)]
        print(f"passed on: {seen}")


if __name__ == "__main__":
    main()
