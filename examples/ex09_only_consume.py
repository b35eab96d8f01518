"""Only consuming in a transaction: it works, and it is pointless. Committing by hand does the same.

    python examples/ex09_only_consume.py

The transaction holds nothing but the offsets: what the work did is not part of it. The seed of this example never subscribes,
begins once for many commits, and commits the record's own offset; here it subscribes, begins in the loop, and commits the next.
"""

from typing import Any

from ex07_only_produce import build_producer
from here import bootstrap
from orders import RECORDS, build_consumer, show, show_committed, write_orders
from semel import KafkaException, OffsetAndMetadata

GROUP = "group0323"


def only_consume_in_transaction(servers: str, topic: str) -> None:
    with build_producer(servers, "only-consume") as producer, build_consumer(servers, GROUP) as consumer:
        producer.init_transactions()
        consumer.subscribe([topic])
        seen = 0
        while seen < RECORDS:
            producer.begin_transaction()
            try:
                commits: dict[Any, OffsetAndMetadata] = {}
                for record in consumer.poll(500):
                    show(record)
                    seen += 1
                    commits[record.topic_partition] = OffsetAndMetadata(record.offset + 1)
                producer.send_offsets_to_transaction(commits, consumer.group_metadata())
                producer.commit_transaction()
            except KafkaException:
                producer.abort_transaction()
                raise


def main() -> None:
    with bootstrap() as servers:
        write_orders(servers, "only-consumed")
        only_consume_in_transaction(servers, "only-consumed")
        show_committed(servers, GROUP, "only-consumed")


if __name__ == "__main__":
    main()
