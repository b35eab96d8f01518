"""Sending one record twice stores it twice: idempotence is about repeats on the way, not about repeats by the application.

python examples/ex14_send_twice.py
"""

from here import bootstrap
from semel import Producer


def main() -> None:
    with bootstrap() as servers, Producer({"bootstrap.servers": servers}) as producer:
        for _ in range(2):
            stored = producer.send("twice", key="key", value="msg").result(30)
            print(f"stored at offset {stored.offset}")


if __name__ == "__main__":
    main()
