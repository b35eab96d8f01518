"""An idempotent producer that sends one message; without a transactional.id the calls of transactions are refused.

python examples/ex11_idempotent_message.py
"""

from here import bootstrap
from semel import IllegalStateException, Producer


def build_idempotent_producer(servers: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,  # acks is "all" by itself.
            "retries": 3,
            "linger.ms": 1,
            "buffer.memory": 33554432,
            "key.serializer": "StringSerializer",
            "value.serializer": "StringSerializer",
        }
    )


def produce_idempotent_message(servers: str, topic: str, message: str) -> None:
    with build_idempotent_producer(servers) as producer:
        sent = producer.send(topic, message)
        producer.flush()
        print(f"stored at offset {sent.result(0).offset}")
        try:
            producer.init_transactions()
        except IllegalStateException as refused:
            print(f"{type(refused).__name__}: {refused}")


def main() -> None:
    with bootstrap() as servers:
        produce_idempotent_message(servers, "idempotent", "message")


if __name__ == "__main__":
    main()
