"""A pool of transactional producers: a thread gets one of its own, whose transactional.id is a prefix and a number.

    python examples/ex10_producer_pool.py

As in spring-kafka: the producer is bound to the thread for the length of a transaction, begun, found again by whoever joins,
and kept for the next one. No two instances ever share a transactional.id, so none is fenced by its neighbour.
"""

from concurrent.futures import ThreadPoolExecutor

from here import bootstrap
from orders import build_consumer
from semel import Producer, TransactionalProducerPool


def save(pool: TransactionalProducerPool, order: int) -> str:
    with pool.transaction() as producer:
        producer.send("pool-orders", f"order-{order}")
        confirm(pool, producer, order)
        return str(producer.config["transactional.id"])


def confirm(pool: TransactionalProducerPool, outer: Producer, order: int) -> None:
    with pool.transaction() as producer:  # Joins the thread's transaction: the same producer.
        assert producer is outer
        producer.send("pool-orders", f"confirmation-{order}")


def main() -> None:
    with bootstrap() as servers:
        settings = {"bootstrap.servers": servers}
        with (
            TransactionalProducerPool(settings, prefix="order-service-") as pool,
            ThreadPoolExecutor(3) as threads,
        ):
            ids = list(threads.map(lambda order: save(pool, order), range(12)))
        print(f"transactional ids: {sorted(set(ids))}")
        with build_consumer(servers, "readers") as consumer:
            consumer.subscribe(["pool-orders"])
            seen: list[str] = []
            while len(seen) < 24:
                seen += [record.value for record in consumer.poll(500)]
        print(
            f"orders: {sum(v.startswith('order-') for v in seen)}, confirmations: {sum(v.startswith('conf') for v in seen)}"
        )


if __name__ == "__main__":
    main()
