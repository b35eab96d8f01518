"""One producer in a process of its own: how fast, how late and at what cost it sends, with the settings it is given.

Role.   `idempotence` starts it once for every look, so that its CPU seconds and its memory are those of one way to send.
Flow.   a few records nobody counts -> as many as can be sent -> records one at a time -> one line of JSON.
Rules.  It is our own client, whatever the broker: the settings are all that differs.

Usage.  python -m semel.bench.idempotence_client HOST:PORT TOPIC --records N --one-by-one N --bytes N KEY=VALUE…
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Sequence

from semel import Producer


def send(
    bootstrap: str, topic: str, settings: dict[str, str], *, records: int, one_by_one: int, size_bytes: int
) -> dict[str, float]:
    """The measured values, by name."""
    value = bytes(number * 31 % 251 for number in range(size_bytes))
    with Producer({"bootstrap.servers": bootstrap, **settings}) as producer:
        for _ in range(max(1, records // 20)):
            producer.send(topic, value)
        producer.flush()
        cpu, began = time.process_time(), time.perf_counter()
        for _ in range(records):
            producer.send(topic, value)
        producer.flush()
        seconds, spent = time.perf_counter() - began, time.process_time() - cpu
    latencies: list[float] = []
    with Producer({"bootstrap.servers": bootstrap, **settings, "linger.ms": "0"}) as producer:
        producer.send(topic, value).result()
        for _ in range(one_by_one):
            began = time.perf_counter()
            producer.send(topic, value).result()
            latencies.append(time.perf_counter() - began)
    return {
        "records_per_second": records / seconds,
        "seconds": seconds,
        "cpu_seconds": spent,
        "latency_ms": sorted(latencies)[len(latencies) // 2] * 1e3,
        "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m semel.bench.idempotence_client")
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--one-by-one", type=int, required=True)
    parser.add_argument("--bytes", type=int, required=True)
    options = parser.parse_args(arguments)
    settings = dict(given.split("=", 1) for given in options.settings)
    measured = send(
        options.bootstrap,
        options.topic,
        settings,
        records=options.records,
        one_by_one=options.one_by_one,
        size_bytes=options.bytes,
    )
    print(json.dumps(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
