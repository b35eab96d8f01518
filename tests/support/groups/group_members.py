"""Members of groups for tests: librdkafka consumers in this process, waited for until they own something."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer

_DEADLINE_SECONDS: Final = 60


@contextmanager
def member(
    bootstrap: str,
    group: str,
    topic: str,
    *,
    protocol: str = "classic",
    instance_id: str | None = None,
    client_id: str = "worker",
) -> Iterator[Consumer]:
    """A member that owns every partition of the topic, if it is the only one."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": client_id,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if protocol == "classic":
        settings["session.timeout.ms"] = 45_000
    if instance_id is not None:
        settings["group.instance.id"] = instance_id
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not consumer.assignment():
            consumer.poll(0.05)
            assert time.monotonic() < deadline, f"{group} gave its member nothing"
        yield consumer
    finally:
        consumer.close()
