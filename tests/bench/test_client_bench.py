"""The bench says what one request in flight and idempotence cost a producer.

Method: both comparisons on a broker in this process, with few records; the page must show both sides and their ratio.
"""

import re

import pytest

from semel import Broker
from semel.bench.client import settings_compared
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
