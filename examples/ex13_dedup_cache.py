"""A cache of message ids: the seed's own order, with what it lets through, and the order that holds.

    python examples/ex13_dedup_cache.py

The seed looks into the cache, then locks, puts the id, commits, unlocks, works, and deletes the id. Three things go wrong:
two workers may both look before one puts (repeat); a crash after the commit and before the work loses the message; and once
the id is deleted, a later repeat passes. `Deduplicator` claims in one step, commits after the work, and keeps the id.
"""

from collections import Counter
from collections.abc import Callable

from here import bootstrap
from orders import build_consumer
from semel import Consumer, ConsumerRecord, Producer
from semel.once import Deduplicator, MemoryClaims

TOPIC = "messages"
SENT = ("a", "b", "a", "c")  # `a` comes twice.


class CrashError(Exception):
    """The process dies here."""


def seed_order(consumer: Consumer, cache: set[str], work: Callable[[str], None]) -> None:
    consumer.subscribe([TOPIC])
    seen = 0
    while seen < len(SENT):
        for record in consumer.poll(500, max_records=1):
            seen += 1
            message_id = record.value
            if message_id in cache:
                continue
            cache.add(message_id)
            consumer.commit_sync({record.topic_partition: record.offset + 1})
            work(message_id)
            cache.discard(message_id)


def right_order(consumer: Consumer, dedup: Deduplicator, work: Callable[[str], None]) -> None:
    consumer.subscribe([TOPIC])
    done = 0
    while done < len(SENT):
        for record in consumer.poll(500, max_records=1):
            with dedup.claim(record.value) as mine:
                if mine:
                    work(record.value)
            done = commit(consumer, record)


def commit(consumer: Consumer, record: ConsumerRecord) -> int:
    consumer.commit_sync({record.topic_partition: record.offset + 1})
    return record.offset + 1


class Worker:
    """Counts what was done; dies before the work on one message, once."""

    def __init__(self, dies_at: str) -> None:
        self.done: Counter[str] = Counter()
        self._dies_at: str | None = dies_at

    def __call__(self, message_id: str) -> None:
        if message_id == self._dies_at:
            self._dies_at = None
            raise CrashError
        self.done[message_id] += 1


def lives(servers: str, group: str, one_life: Callable[[Consumer], None]) -> None:
    """A life, a crash, and another life."""
    try:
        with build_consumer(servers, group) as consumer:
            one_life(consumer)
    except CrashError:
        with build_consumer(servers, group) as consumer:
            one_life(consumer)


def main() -> None:
    with bootstrap() as servers:
        with Producer({"bootstrap.servers": servers}) as producer:
            for message_id in SENT:
                producer.send(TOPIC, message_id)
        seed, cache = Worker(dies_at="b"), set[str]()

        def seed_life(consumer: Consumer) -> None:
            seed_order(consumer, cache, seed)

        try:
            with build_consumer(servers, "seed") as consumer:
                seed_life(consumer)
        except CrashError:
            cache.clear()  # It died with the process.
            with build_consumer(servers, "seed") as consumer:
                consumer.subscribe([TOPIC])
                rest = 2  # The offset of the lost message was committed: two are left.
                while rest:
                    for record in consumer.poll(500):
                        seed(record.value)
                        rest -= 1
        print(f"the seed's order: {dict(sorted(seed.done.items()))}")

        right, dedup = Worker(dies_at="b"), Deduplicator(MemoryClaims())
        lives(servers, "right", lambda consumer: right_order(consumer, dedup, right))
        print(f"claim, work, done, commit: {dict(sorted(right.done.items()))}")


if __name__ == "__main__":
    main()
