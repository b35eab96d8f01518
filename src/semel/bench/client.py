"""The Python client beside confluent-kafka, kafka-python and aiokafka, on Semel's broker and on Apache Kafka.

Everything a client does in its own process counts, the broker's part does not: CPU is the client's alone. Both brokers run as
processes of their own, on this machine, for as long as the measurement.
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from semel import profile
from semel.bench import client_subjects as subjects
from semel.bench.broker_load import Wire
from semel.bench.measure import Comparison, Subject, peer
from semel.bench.peer import Peer, side_of
from semel.peers.processes import BrokerProcess, RemoteBroker, SemelProcess

_VALUE_BYTES: Final = 100
_MANY: Final = 500_000
_SOME: Final = 40_000
_TRANSACTIONS: Final = 100
_SMALL_BATCH_BYTES: Final = 2000
_ARROW_PRODUCED: Final = ("10 times confluent-kafka's records per second", 10.0, 1)
_ARROW_CONSUMED: Final = ("5 times confluent-kafka's records per second", 5.0, 1)
_AS_FAST: Final = ("as many records per second as kafka-python and aiokafka", 1.0, 2)
"""In words, the ratio, and of how many of the peers that follow."""


def comparisons(other: Peer | None) -> Iterator[Comparison]:
    """Every row, first on Semel's broker; a broker is started when its first row is asked for."""
    root = Path(tempfile.mkdtemp(prefix="semel-bench-client-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    yield from _on("Semel", SemelProcess(root / "semel"))
    if other is not None:
        yield from _on(other.name, other.broker(root / "kafka", {}))


def _on(name: str, broker: BrokerProcess) -> Iterator[Comparison]:
    """The rows on one broker. Clients live until the process ends, and so does what they are connected to."""
    atexit.register(broker.kill)
    side = side_of(name, broker)
    atexit.register(side.wire.socket.close)
    topics = [f"{side.prefix}-{role}" for role in ("written", "many", "some")]
    for topic in topics:
        side.wire.create_topic(topic, subjects.PARTITIONS)
        if isinstance(broker, RemoteBroker):
            atexit.register(side.wire.delete_topic, topic)
    yield from _rows(name, broker.bootstrap, *topics)
    yield parts_compared(broker.bootstrap, side.wire, topics[0], _table(_MANY), name)


def _rows(name: str, bootstrap: str, written_to: str, many_in: str, some_in: str) -> Iterator[Comparison]:
    many = _table(_MANY)
    values = many.column("value").to_pylist()
    some = values[:_SOME]
    subjects.semel_arrow(bootstrap, many_in, many)()
    subjects.semel_arrow(bootstrap, some_in, many.slice(0, _SOME))()
    yield _of_records(
        f"produce a table of {_MANY:,} records of {_VALUE_BYTES} B, on {name}",
        _MANY,
        _ARROW_PRODUCED,
        [
            Subject("semel send_arrow", subjects.semel_arrow(bootstrap, written_to, many)),
            peer("confluent-kafka", lambda: subjects.confluent_records(bootstrap, written_to, values)),
        ],
    )
    yield _of_records(
        f"produce {_SOME:,} records of {_VALUE_BYTES} B one by one, on {name}",
        _SOME,
        _AS_FAST,
        [
            Subject("semel send", subjects.semel_records(bootstrap, written_to, some)),
            peer("kafka-python", lambda: subjects.kafka_python_records(bootstrap, written_to, some)),
            peer("aiokafka", lambda: subjects.aiokafka_records(bootstrap, written_to, some)),
            peer("confluent-kafka", lambda: subjects.confluent_records(bootstrap, written_to, some)),
        ],
    )
    yield _of_records(
        f"consume {_MANY:,} records of {_VALUE_BYTES} B to Arrow, on {name}",
        _MANY,
        _ARROW_CONSUMED,
        [
            Subject("semel poll_arrow", subjects.semel_to_arrow(bootstrap, many_in, _MANY)),
            peer("confluent-kafka", lambda: subjects.confluent_to_arrow(bootstrap, many_in, _MANY)),
        ],
    )
    yield _of_records(
        f"consume {_SOME:,} records of {_VALUE_BYTES} B one by one, on {name}",
        _SOME,
        _AS_FAST,
        [
            Subject("semel poll", subjects.semel_to_records(bootstrap, some_in, _SOME)),
            peer("kafka-python", lambda: subjects.kafka_python_to_records(bootstrap, some_in, _SOME)),
            peer("aiokafka", lambda: subjects.aiokafka_to_records(bootstrap, some_in, _SOME)),
            peer("confluent-kafka", lambda: subjects.confluent_to_records(bootstrap, some_in, _SOME)),
        ],
    )
    yield from settings_compared(bootstrap, written_to, some, name)
    yield from tunings_compared(bootstrap, written_to, some, name)
    yield Comparison(
        title=f"transactions of one record, on {name}",
        unit="transactions",
        units_per_run=_TRANSACTIONS,
        target="as many transactions per second as confluent-kafka",
        target_ratio=1.0,
        subjects=[
            Subject("semel", subjects.semel_transactions(bootstrap, written_to, _TRANSACTIONS)),
            peer(
                "confluent-kafka",
                lambda: subjects.confluent_transactions(bootstrap, written_to, _TRANSACTIONS),
            ),
        ],
    )


def parts_compared(bootstrap: str, wire: Wire, topic: str, table: pa.Table, name: str) -> Comparison:
    """The parts of producing a table: building batches alone, and sending finished batches by a bare socket, which is
    the share of the broker and the loopback."""
    rows = table.num_rows
    return Comparison(
        title=f"where the time of a table of {rows:,} records goes, on {name}",
        unit="records",
        units_per_run=rows,
        bytes_per_run=rows * _VALUE_BYTES,
        subjects=[
            Subject("semel send_arrow", subjects.semel_arrow(bootstrap, topic, table)),
            Subject("its batches written, none sent", subjects.written_only(table)),
            Subject(
                "finished batches by a bare socket", subjects.bare_socket(wire, topic, rows, _VALUE_BYTES)
            ),
        ],
    )


def settings_compared(bootstrap: str, topic: str, values: Sequence[bytes], name: str) -> Iterator[Comparison]:
    """The cost of two settings of Semel's producer: one request in flight instead of five, and idempotence."""
    small = {"batch_size": _SMALL_BATCH_BYTES, "linger_ms": 0}
    title = f"produce {len(values):,} records in batches of {_SMALL_BATCH_BYTES} B"
    for what, sides in (
        (
            "requests in flight",
            {
                "5 in flight": {"max_in_flight_requests_per_connection": 5, **small},
                "1 in flight": {"max_in_flight_requests_per_connection": 1, **small},
            },
        ),
        (
            "idempotence",
            {
                "idempotent": {"enable_idempotence": True, "acks": "all", **small},
                "acks=all alone": {"enable_idempotence": False, "acks": "all", **small},
            },
        ),
    ):
        yield Comparison(
            title=f"{title}: {what}, on {name}",
            unit="records",
            units_per_run=len(values),
            bytes_per_run=sum(map(len, values)),
            subjects=[
                Subject(side, subjects.semel_records(bootstrap, topic, values, **settings))
                for side, settings in sides.items()
            ],
        )


def tunings_compared(bootstrap: str, topic: str, values: Sequence[bytes], name: str) -> Iterator[Comparison]:
    """The gain of each part of the profile `throughput` over the defaults, and of the whole profile."""
    whole = profile("throughput")
    parts = {
        "batch.size and linger.ms": ("batch.size", "linger.ms"),
        "compression.type": ("compression.type",),
        "buffer.memory": ("buffer.memory",),
        "profile throughput": tuple(whole),
    }
    for what, keys in parts.items():
        settings = {key.replace(".", "_"): whole[key] for key in keys}
        words = ", ".join(f"{key}={whole[key]}" for key in keys)
        yield Comparison(
            title=f"produce {len(values):,} records with {words}, on {name}",
            unit="records",
            units_per_run=len(values),
            bytes_per_run=sum(map(len, values)),
            subjects=[
                Subject(what, subjects.semel_records(bootstrap, topic, values, **settings)),
                Subject("as it comes", subjects.semel_records(bootstrap, topic, values)),
            ],
        )


def _of_records(title: str, count: int, target: tuple[str, float, int], clients: list[Subject]) -> Comparison:
    words, ratio, peers_count = target
    return Comparison(
        title=title,
        unit="records",
        units_per_run=count,
        bytes_per_run=count * _VALUE_BYTES,
        target=words,
        target_ratio=ratio,
        target_peers_count=peers_count,
        subjects=clients,
    )


def _table(rows: int) -> pa.Table:
    value = pa.scalar(bytes(number * 31 % 251 for number in range(_VALUE_BYTES)), pa.binary())
    return pa.table({"value": pa.repeat(value, rows)})
