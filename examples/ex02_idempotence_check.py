"""Which settings hold in a producer: idempotence, and the three that follow from it.

python examples/ex02_idempotence_check.py
"""

from here import bootstrap
from semel import Producer


def check_idempotence_status(producer: Producer) -> None:
    metrics = producer.metrics()  # `producer.config` is the proper place; these four are answered here too.
    if metrics.get("enable.idempotence") is True:
        print("✅ idempotence is on")
    else:
        print("❌ idempotence is off")
    print(f"retries: {metrics.get('retries')}")
    print(f"acks: {metrics.get('acks')}")
    print(f"max in flight: {metrics.get('max.in.flight.requests.per.connection')}")


def main() -> None:
    with bootstrap() as servers, Producer({"bootstrap.servers": servers}) as producer:
        check_idempotence_status(producer)


if __name__ == "__main__":
    main()
