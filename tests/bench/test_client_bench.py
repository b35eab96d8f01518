"""The bench says what one request in flight and idempotence cost a producer.

Method: both comparisons on a broker in this process, with few records; the page must show both sides and their ratio.
"""

import re

import pyarrow as pa
import pytest

from semel import Broker, ConfigException, Producer, profile
from semel.bench.broker_load import Wire
from semel.bench.client import parts_compared, settings_compared, tunings_compared
from semel.bench.measure import measure
from semel.bench.report import comparison_lines


@pytest.mark.mission("ORD-02", "PERF-09", "CFG-25")
def test_the_ratio_of_one_request_in_flight_to_five_is_printed() -> None:
    with Broker(num_partitions=1) as broker:
        values = [b"%04d" % number * 25 for number in range(2_000)]
        in_flight, idempotence = (
            comparison_lines(measure(one, 2))
            for one in settings_compared(broker.bootstrap, "t", values, "Semel")
        )
    for page, ours, other in (
        (in_flight, "5 in flight", "1 in flight"),
        (idempotence, "idempotent", "acks=all alone"),
    ):
        print(page)
        assert re.search(rf"\| {ours} \|", page)
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {other} |")]
        assert re.search(r"\d\.\d+", line.split("|")[-2]), "how many times its speed ours has"


@pytest.mark.mission("PERF-04", "PERF-05", "PERF-06")
def test_the_profile_sets_what_the_guide_says_and_its_gain_is_printed() -> None:
    with Broker(num_partitions=1) as broker:
        with Producer({"bootstrap.servers": broker.bootstrap, **profile("throughput")}) as producer:
            held = {key: producer.config[key] for key in profile("throughput")}
        values = [b"%04d" % number * 25 for number in range(500)]
        pages = [
            comparison_lines(measure(one, 1, round_seconds_min=1e-4))
            for one in tunings_compared(broker.bootstrap, "t", values, "Semel")
        ]
    assert held == {
        "batch.size": 32_768,
        "linger.ms": 10,
        "compression.type": "lz4",
        "buffer.memory": 67_108_864,
    }
    for page, what in zip(
        pages,
        ["batch.size=32768, linger.ms=10", "compression.type=lz4", "buffer.memory=67108864", "lz4"],
        strict=True,
    ):
        assert what in page.splitlines()[1]
        (line,) = [line for line in page.splitlines() if line.startswith("| as it comes |")]
        assert re.search(r"\d\.\d+", line.split("|")[-3]), "how many times the speed it has"


def test_the_parts_of_producing_a_table_are_printed() -> None:
    table = pa.table({"value": [bytes(100)] * 18_000})
    with Broker(num_partitions=1) as broker, Wire(broker.bootstrap) as wire:
        wire.create_topic("t", 1)
        page = comparison_lines(measure(parts_compared(broker.bootstrap, wire, "t", table, "Semel"), 1))
    for part in ("semel send_arrow", "its batches written, none sent", "finished batches by a bare socket"):
        assert f"| {part} |" in page


def test_a_profile_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(ConfigException, match="there is no profile 'speed'; there is throughput"):
        profile("speed")
