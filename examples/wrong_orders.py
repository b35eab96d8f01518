"""The three wrong orders of committing and working, each with the loss or the repeat it leads to.

    python examples/wrong_orders.py

1. Commit first, then work: the work fails, the record is lost.
2. Work first, then commit: the commit fails, the record is worked on again.
3. Hand the work to somebody else, then commit: the work fails later, the record is lost.
The cures: `exactly_once_sink` and `Deduplicator` for 1 and 2, `consumer.process` for 3.
"""

from collections import Counter
from collections.abc import Callable

from here import bootstrap
from orders import RECORDS, build_consumer, write_orders
from semel import Consumer, ConsumerRecord
from semel.once import RetryPolicy

FAILS = "value-2"


class CrashError(Exception):
    """The process dies here."""


class Story:
    """What was done, and one failure."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self._fails = True

    def crash_once_at(self, record: ConsumerRecord) -> None:
        if record.value == FAILS and self._fails:
            self._fails = False
            raise CrashError

    def work(self, record: ConsumerRecord) -> None:
        self.done[record.value] += 1


def commit(consumer: Consumer, record: ConsumerRecord) -> None:
    consumer.commit_sync({record.topic_partition: record.offset + 1})


def commit_first(consumer: Consumer, record: ConsumerRecord, story: Story) -> None:
    commit(consumer, record)
    story.crash_once_at(record)
    story.work(record)


def work_first(consumer: Consumer, record: ConsumerRecord, story: Story) -> None:
    story.work(record)
    story.crash_once_at(record)
    commit(consumer, record)


def read(servers: str, group: str, step: Callable[[Consumer, ConsumerRecord], None]) -> None:
    """A life that crashes in the middle, and another one that goes on where the group was."""
    for _ in range(2):
        try:
            with build_consumer(servers, group) as consumer:
                consumer.subscribe(["wrong-orders"])
                at = 0
                while at < RECORDS:
                    for record in consumer.poll(500, max_records=1):
                        step(consumer, record)
                        at = record.offset + 1
                return
        except CrashError:
            continue


def hand_on(servers: str, story: Story) -> None:
    """The records are given to a queue, everything is committed, and then the work on one fails."""
    with build_consumer(servers, "hand-on") as consumer:
        consumer.subscribe(["wrong-orders"])
        queue: list[ConsumerRecord] = []
        while len(queue) < RECORDS:
            queue += consumer.poll(500)
            consumer.commit_sync()
    for record in queue:
        try:
            story.crash_once_at(record)
        except CrashError:
            continue  # Nobody will ever see it again: its offset is committed.
        story.work(record)


def pooled(servers: str, story: Story) -> None:
    """The same work in the pool: what failed is not committed before it is done."""

    def work(record: ConsumerRecord) -> None:
        story.crash_once_at(record)
        story.work(record)

    with build_consumer(servers, "pooled") as consumer:
        consumer.subscribe(["wrong-orders"])
        consumer.process(
            work,
            workers=3,
            retries=RetryPolicy(attempts_max=2, backoff_ms=1),
            until=lambda: len(story.done) == RECORDS,
        )


def show(what: str, story: Story) -> None:
    lost = [f"value-{n}" for n in range(RECORDS) if not story.done[f"value-{n}"]]
    repeated = [value for value, times in sorted(story.done.items()) if times > 1]
    print(f"{what}: lost {lost}, repeated {repeated}")


def main() -> None:
    with bootstrap() as servers:
        write_orders(servers, "wrong-orders")
        first, second, third, cure = Story(), Story(), Story(), Story()
        read(servers, "commit-first", lambda consumer, record: commit_first(consumer, record, first))
        show("commit, then work", first)
        read(servers, "work-first", lambda consumer, record: work_first(consumer, record, second))
        show("work, then commit", second)
        hand_on(servers, third)
        show("hand on, then commit", third)
        pooled(servers, cure)
        show("worker pool", cure)


if __name__ == "__main__":
    main()
