"""Semel must answer every request as Apache Kafka does, the good and the bad.

Method: one table of requests, in many versions, sent to both, one after the other; every field of both answers is
compared. Ids, ports, times and free bytes are compared by whether they are there; what people read is not compared.
Differences that are meant are listed with their reasons in `KNOWN`, and a reason that is no longer needed fails too.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from compat.differential import table_admin, table_cluster, table_data
from compat.differential.asking import Ask, AskBytes
from compat.differential.comparison import assert_alike
from compat.differential.known import KNOWN
from semel.peers.kafka import KafkaHome

STORY: Final[tuple[Ask | AskBytes, ...]] = (
    *table_admin.CREATING,
    *table_admin.GROWING,
    *table_data.ASKING,
    *table_data.PRODUCING,
    *table_data.MANY,
    *table_data.FETCHING,
    *table_data.LISTING,
    *table_admin.DESCRIBING,
    *table_admin.CONFIGURING,
    *table_cluster.CLUSTER,
    *table_admin.DELETING_RECORDS,
    *(replace(ask, title=f"{ask.title}, after deletion") for ask in table_data.LISTING),
    *(replace(ask, title=f"{ask.title}, after deletion") for ask in table_data.FETCHING[:3]),
    *table_admin.DELETING_TOPICS,
    *table_data.MALFORMED,
    table_data.BY_NOBODY,
    *table_admin.FINDING_COORDINATORS,
)


@pytest.mark.java
def test_every_answer_is_kafkas(kafka_home: KafkaHome, tmp_path: Path) -> None:
    assert_alike(kafka_home, tmp_path, STORY, KNOWN)
