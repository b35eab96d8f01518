"""Two brokers side by side: the same requests to both, and what differs that nobody explained.

Role.   `Comparison` sends the rows of a table; `kafka_side` and `semel_side` start the brokers.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from compat.differential.asking import Ask, AskBytes
from compat.differential.comparing import differences, fields_of, matches
from compat.differential.exchange import Side
from compat.differential.known import ANYTHING, Known
from semel.core.wire.message import Message
from semel.peers.kafka import KafkaHome
from support.compat.compat_kit import ThreadBroker

SETTINGS: Final = {"log_retention_hours": "168", "log_segment_bytes": "1073741824", "num_partitions": "1"}
_SETTLE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.05


def assert_alike(
    home: KafkaHome,
    directory: Path,
    story: Sequence[Ask | AskBytes],
    known: Sequence[Known],
    *,
    settle_seconds: float = _SETTLE_SECONDS,
    **settings: str,
) -> None:
    """Tell the story to both brokers; every difference must be known, and everything known must differ.

    So long after a change Kafka may go on answering as before.
    """
    with (
        semel_side(directory / "semel", **settings) as ours,
        kafka_side(home, directory / "kafka", **settings) as theirs,
    ):
        comparison = Comparison(ours, theirs, known, settle_seconds)
        found = [line for step in story for line in comparison.compare(step)]
    assert not found, f"{len(found)} fields differ (ours, Kafka's):\n" + "\n".join(found)
    unused = [one for one in known if one not in comparison.used]
    assert not unused, f"no longer different: {unused}"


class Comparison:
    """Both sides, asked the same in the same order."""

    def __init__(
        self, ours: Side, theirs: Side, known: Sequence[Known], settle_seconds: float = _SETTLE_SECONDS
    ) -> None:
        self._ours = ours
        self._theirs = theirs
        self._known = known
        self._settle_seconds = settle_seconds
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
        if step.changes or step.begins:
            self._changed_at = time.monotonic()
        while True:
            kafkas = self._ask(self._theirs, step, version)
            both = fields_of(mine, self._ours), fields_of(kafkas, self._theirs)
            found = self._unexplained(title, differences(*both))
            if not found or step.changes or time.monotonic() > self._changed_at + self._settle_seconds:
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
                for known in self._known
                if matches(known.title, title)
                and matches(known.path, path)
                and known.ours in (ANYTHING, mine)
            ]
            self.used += reasons
            if not reasons:
                lines.append(f"{title}: {path}: {mine!r}, {kafkas!r}")
        return lines


@contextmanager
def kafka_side(home: KafkaHome, directory: Path, **settings: str) -> Iterator[Side]:
    with home.broker(directory, auto_create_topics_enable="false", **settings) as broker:
        side = Side("Kafka", ("127.0.0.1", broker.port))
        try:
            yield side
        finally:
            side.close()


@contextmanager
def semel_side(directory: Path, **settings: str) -> Iterator[Side]:
    every = {**SETTINGS, **settings}
    with ThreadBroker(directory, node_id="1", auto_create_topics_enable="false", **every) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        side = Side("Semel", (host, int(port)))
        try:
            yield side
        finally:
            side.close()
