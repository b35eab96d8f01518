"""Kafka's own test of compaction, LogCompactionTester, against a broker of ours.

Method: the tool writes keys many times over, some of them to be deleted, lets the cleaner work, reads everything back and
compares, key by key, with what it wrote. The broker has small segments and looks for dirt all the time.
"""

import re
from pathlib import Path

import pytest

from semel.peers.kafka import KafkaHome
from semel.runtime.kernel_cache import warm
from support.broker.broker_process import running_broker

SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
SLEEPS_SECONDS = (4, 20, 80)
"""How long the tool lets the cleaner work; on a machine that has no time for it, longer and longer."""


@pytest.mark.java
@pytest.mark.mission("LOG-07")
def test_kafkas_log_compaction_tester_finds_every_key_as_it_must_be(
    kafka_home: KafkaHome, tmp_path: Path
) -> None:
    warm()  # So that the broker need not compile while the tool waits for it.
    options = [part for name, value in SETTINGS.items() for part in ("-X", f"{name}={value}")]
    with running_broker(tmp_path, *options) as broker:
        produced = consumed = 0
        for seconds in SLEEPS_SECONDS:
            said = kafka_home.run(
                "org.apache.kafka.tools.LogCompactionTester",
                *("--bootstrap-server", broker.bootstrap),
                *("--messages", "100000", "--duplicates", "5", "--percent-deletes", "20"),
                *("--sleep", str(seconds)),
            )
            assert "0 mismatches" in said
            assert "Data verification is completed" in said
            produced, consumed = map(int, re.findall(r"(\d+) rows of data", said))
            assert produced == 100_000
            if consumed < produced:
                break
        code, _out, err = broker.stop()
    assert code == 0
    assert consumed < produced, err
    assert "compacted offsets 0 to" in err
