"""Commit after every record, and wait for it: a crash repeats at most the record it happened in.

python examples/ex03_commit_sync.py
"""

import logging

from here import bootstrap
from orders import RECORDS, build_consumer, show, show_committed, write_orders
from semel import KafkaException, OffsetAndMetadata

logger = logging.getLogger(__name__)


def read_with_sync_commit(servers: str, topic: str) -> None:
    with build_consumer(servers, "sync") as consumer:
        consumer.subscribe([topic])
        seen = 0
        while seen < RECORDS:
            for record in consumer.poll(500):
                show(record)
                seen += 1
                try:
                    # Without an argument everything the poll brought would be committed, also what was not yet looked at.
                    consumer.commit_sync({record.topic_partition: OffsetAndMetadata(record.offset + 1)})
                except KafkaException:
                    logger.exception("commit error")


def main() -> None:
    with bootstrap() as servers:
        write_orders(servers, "sync-orders")
        read_with_sync_commit(servers, "sync-orders")
        show_committed(servers, "sync", "sync-orders")


if __name__ == "__main__":
    main()
