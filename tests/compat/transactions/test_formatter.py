"""Kafka's own formatter reads the rows of our transactions, from a topic that is as Kafka's.

Method: a client commits a transaction, Kafka's console consumer prints what the coordinator wrote.
"""

import json
import re
from pathlib import Path

import pytest

from support.compat.compat_java import JavaShell
from support.compat.compat_kit import ThreadBroker, eventually, stored
from support.transactions.transaction_clients import ConfluentKafka

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@pytest.mark.java
@pytest.mark.mission("TXP-19", "R-17")
def test_kafkas_formatter_prints_our_rows_of_transactions(tmp_path: Path, java_shell: JavaShell) -> None:
    """Every row of a transaction's life, in a compacted topic of 50 partitions."""
    with ThreadBroker(tmp_path / "data") as broker:
        producer = ConfluentKafka(broker.bootstrap, "first-transactional")
        producer.begin()
        producer.send("orders", 0, b"v")
        producer.commit()
        eventually(
            lambda: len(stored(broker.directory, "__transaction_state", 12)) == 4, "all rows are there"
        )
        configs = java_shell.tool(
            *("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.bootstrap),
            *("--describe", "--topic", "__transaction_state"),
        )
        assert "PartitionCount: 50" in configs.output
        assert "cleanup.policy=compact" in configs.output
        run = java_shell.tool(
            CONSOLE,
            *("--bootstrap-server", broker.bootstrap, "--topic", "__transaction_state", "--partition", "12"),
            *("--offset", "earliest", "--max-messages", "4", "--timeout-ms", "30000"),
            *("--formatter", "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"),
        )
    decode = json.JSONDecoder().raw_decode
    rows = [decode(run.output, found.start())[0] for found in re.finditer(r'\{"key":', run.output)]
    assert [row["key"]["data"]["transactionalId"] for row in rows] == ["first-transactional"] * 4
    assert [row["value"]["data"]["transactionStatus"] for row in rows] == [0, 1, 2, 4]
    assert rows[1]["value"]["data"]["transactionPartitions"] == [{"topic": "orders", "partitionIds": [0]}]
