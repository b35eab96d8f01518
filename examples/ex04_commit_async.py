"""Commit without waiting; a callback tells how it went.

python examples/ex04_commit_async.py
"""

import logging
from collections.abc import Mapping

from here import bootstrap
from orders import RECORDS, build_consumer, show, show_committed, write_orders
from semel import OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)
failures: list[BaseException] = []


def on_complete(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: BaseException | None) -> None:
    if error is not None:
        failures.append(error)
        logger.error("Commit failed for offsets %s: %s", dict(offsets), error)


def read_with_async_commit(servers: str, topic: str) -> None:
    with build_consumer(servers, "async") as consumer:
        consumer.subscribe([topic])
        seen = 0
        while seen < RECORDS:
            for record in consumer.poll(500):
                show(record)
                seen += 1
                consumer.commit_async({record.topic_partition: record.offset + 1}, on_complete)
        # Closing waits for commits that are on their way, and calls back.


def main() -> None:
    with bootstrap() as servers:
        write_orders(servers, "async-orders")
        read_with_async_commit(servers, "async-orders")
        show_committed(servers, "async", "async-orders")
        print(f"failed commits = {len(failures)}")


if __name__ == "__main__":
    main()
