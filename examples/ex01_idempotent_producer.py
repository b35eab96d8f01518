"""Ten records from a producer that is idempotent: a send that is repeated on the way is stored once.

python examples/ex01_idempotent_producer.py
"""

from here import bootstrap
from semel import Producer, RecordMetadata


def create_idempotent_config(servers: str) -> dict[str, str | bool]:
    return {
        "bootstrap.servers": servers,
        "key.serializer": "StringSerializer",
        "value.serializer": "StringSerializer",
        # Switch idempotence on. acks, retries and the number of requests in flight follow by themselves.
        "enable.idempotence": True,
    }


def told(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
    if metadata is not None:
        print(f"Message sent successfully: offset={metadata.offset}")
    else:
        print(f"Message not sent: {exception}")


def main() -> None:
    with bootstrap() as servers, Producer(create_idempotent_config(servers)) as producer:
        for i in range(10):
            producer.send("test-topic", key=f"key-{i}", value=f"message-{i}", callback=told)
        producer.flush()  # Returns once all of them are stored, and told.


if __name__ == "__main__":
    main()
