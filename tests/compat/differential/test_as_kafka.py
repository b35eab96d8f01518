"""Semel must answer every request as Apache Kafka does, the good and the bad.

Method: one table of requests, in many versions, sent to both, one after the other; every field of both answers is
compared. Ids, ports, times and free bytes are compared by whether they are there; what people read is not compared.
Differences that are meant are listed with their reasons in `KNOWN`, and a reason that is no longer needed fails too.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from compat.differential import table_admin, table_data
from compat.differential.asking import Ask, AskBytes
from compat.differential.comparing import differences, fields_of, matches
from compat.differential.exchange import Side
from compat.differential.known import ANYTHING, KNOWN, Known
from compat_kit import ThreadBroker
from semel.bench.kafka_peer import KafkaHome
from semel.core.wire.message import Message

SETTINGS: Final = {"log_retention_hours": "168", "log_segment_bytes": "1073741824", "num_partitions": "1"}
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
    *table_admin.DELETING_RECORDS,
    *(replace(ask, title=f"{ask.title}, after deletion") for ask in table_data.LISTING),
    *(replace(ask, title=f"{ask.title}, after deletion") for ask in table_data.FETCHING[:3]),
    *table_admin.DELETING_TOPICS,
    *table_data.MALFORMED,
    table_data.BY_NOBODY,
    *table_admin.FINDING_COORDINATORS,
)
_SETTLE_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05


@pytest.mark.java
def test_every_answer_is_kafkas(kafka_home: KafkaHome, tmp_path: Path) -> None:
    with _semel(tmp_path / "semel") as ours, _kafka(kafka_home, tmp_path / "kafka") as theirs:
        comparison = Comparison(ours, theirs)
        found = [line for step in STORY for line in comparison.compare(step)]
    assert not found, f"{len(found)} fields differ (ours, Kafka's):\n" + "\n".join(found)
    unused = [known for known in KNOWN if known not in comparison.used]
    assert not unused, f"no longer different: {unused}"


class Comparison:
    """Both sides, asked the same in the same order."""

    def __init__(self, ours: Side, theirs: Side) -> None:
        self._ours = ours
        self._theirs = theirs
        self._changed_at = time.monotonic()
        self.used: list[Known] = []

    def compare(self, step: Ask | AskBytes) -> list[str]:
        """The differences nobody explained, one line each."""
        if isinstance(step, AskBytes):
            answers = self._ours.ask_bytes(step.frame), self._theirs.ask_bytes(step.frame)
            shown = [answer if isinstance(answer, str) else answer[:10].hex() for answer in answers]
            return self._unexplained(step.title, {"": (shown[0], shown[1])} if shown[0] != shown[1] else {})
        return [line for version in step.versions for line in self._compare_at(step, version)]

    def _compare_at(self, step: Ask, version: int) -> list[str]:
        title = f"{step.title} (v{version})"
        mine = self._ask(self._ours, step, version)
        if step.changes:
            self._changed_at = time.monotonic()
        while True:
            kafkas = self._ask(self._theirs, step, version)
            both = fields_of(mine, self._ours), fields_of(kafkas, self._theirs)
            found = self._unexplained(title, differences(*both))
            if not found or step.changes or time.monotonic() > self._changed_at + _SETTLE_SECONDS:
                return found
            time.sleep(_PAUSE_SECONDS)  # Kafka's parts learn of a change one after the other.

    def _ask(self, side: Side, step: Ask, version: int) -> Message | str:
        answer = side.ask(step.build(side, version), version, answered=step.answered)
        if step.learn is not None:
            assert not isinstance(answer, str), f"{step.title} (v{version}): {side.name}: {answer}"
            step.learn(side, answer)
        return answer

    def _unexplained(self, title: str, found: dict[str, tuple[object, object]]) -> list[str]:
        lines = []
        for path, (mine, kafkas) in found.items():
            reasons = [
                known
                for known in KNOWN
                if matches(known.title, title)
                and matches(known.path, path)
                and known.ours in (ANYTHING, mine)
            ]
            self.used += reasons
            if not reasons:
                lines.append(f"{title}: {path}: {mine!r}, {kafkas!r}")
        return lines


@contextmanager
def _kafka(home: KafkaHome, directory: Path) -> Iterator[Side]:
    with home.broker(directory, auto_create_topics_enable="false") as broker:
        side = Side("Kafka", ("127.0.0.1", broker.port))
        try:
            yield side
        finally:
            side.close()


@contextmanager
def _semel(directory: Path) -> Iterator[Side]:
    with ThreadBroker(directory, node_id="1", auto_create_topics_enable="false", **SETTINGS) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        side = Side("Semel", (host, int(port)))
        try:
            yield side
        finally:
            side.close()
