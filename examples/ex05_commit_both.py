"""Commit without waiting in the loop, and once with waiting at the end: fast, and nothing is read again after a clean stop.

python examples/ex05_commit_both.py
"""

from here import bootstrap
from orders import RECORDS, build_consumer, show, show_committed, write_orders


def read_with_both(servers: str, topic: str) -> None:
    consumer = build_consumer(servers, "both")
    consumer.subscribe([topic])
    try:
        seen = 0
        while seen < RECORDS:
            for record in consumer.poll(500):
                show(record)
                seen += 1
            consumer.commit_async()
    finally:
        try:
            consumer.commit_sync()
        finally:
            consumer.close()


def main() -> None:
    with bootstrap() as servers:
        write_orders(servers, "both-orders")
        read_with_both(servers, "both-orders")
        show_committed(servers, "both", "both-orders")
        with build_consumer(servers, "both") as consumer:
            consumer.subscribe(["both-orders"])
            print(f"read again = {len(consumer.poll(500)) + len(consumer.poll(500))}")


if __name__ == "__main__":
    main()
