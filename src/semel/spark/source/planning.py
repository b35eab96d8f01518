"""The driver's questions before a task reads: which partitions, from which offset, to which.

Role.   `Planner` puts the pure rules of `offsets` and `ranges` together with a broker's answers, for the batch and the stream reader.
Flow.   `partitions` -> `bound` for a start or an end; `latest` and `earliest` for every trigger; `report` for what got lost.
Rules.  * At the start of a query everything named must exist. Later, a partition that is gone is a loss, and `failOnDataLoss` decides.
        * A broker that has just come back may not know everything yet: an apparent loss is asked for again
          `fetchOffset.numRetries` times, `fetchOffset.retryIntervalMs` apart.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from semel.core.metadata.configs import nearest
from semel.errors import RefusedError
from semel.exceptions import IllegalArgumentException
from semel.spark.source.broker_client import UNKNOWN_TOPIC, BrokerClient, client_for
from semel.spark.source.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    AtTimestamp,
    Bound,
    Offsets,
    questions,
    resolved,
)
from semel.spark.source.options import Assign, SourceOptions, SubscribePattern
from semel.spark.source.ranges import lost
from semel.types import TopicPartition

_logger = logging.getLogger(__name__)

T = TypeVar("T")


class Planner:
    """One reader's questions; holds no connection, so that a reader can be pickled."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @property
    def _client(self) -> BrokerClient:
        return client_for(self._options.client)

    # Partitions

    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions the query reads; raises if it names one that does not exist."""
        strategy = self._options.strategy

        def look() -> tuple[TopicPartition, ...] | None:
            found = self._client.partitions(strategy)
            wanted = strategy.partitions if isinstance(strategy, Assign) else ()
            is_all = not found.missing and all(where in found.partitions for where in wanted)
            return found.partitions if is_all else None

        if (there := self._repeated(look)) is not None:
            return there
        found = self._client.partitions(strategy)
        if found.missing:
            raise IllegalArgumentException(self._no_topic(found.missing[0]))
        if isinstance(strategy, Assign):
            gone = [str(where) for where in strategy.partitions if where not in found.partitions]
            if gone:
                raise IllegalArgumentException(
                    f"assign names partitions that do not exist: {', '.join(gone)}"
                )
        return found.partitions

    def _no_topic(self, name: str) -> str:
        everything = self._client.partitions(SubscribePattern("."))
        near = nearest(name, sorted({where.topic for where in everything.partitions}))
        hint = f"did you mean {near}?" if near else f"make it with 'semel topics create {name}'"
        return f"topic {name} does not exist at {self._options.client['bootstrap.servers']}: {hint}"

    def _there(self, known: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
        """The partitions there are by now; a known one that seems gone is looked for again."""
        known = set(known)

        def look() -> tuple[TopicPartition, ...] | None:
            found = self._client.partitions(self._options.strategy).partitions
            return found if known <= set(found) else None

        there = self._repeated(look)
        return self._client.partitions(self._options.strategy).partitions if there is None else there

    # Offsets

    def bound(
        self, bound: Bound, partitions: Sequence[TopicPartition], side: str
    ) -> dict[TopicPartition, int]:
        """Where a read starts (`side` is "starting") or ends ("ending")."""
        found, without = resolved(bound, self._client.offsets(questions(bound, partitions, f"{side}Offsets")))
        if without and side == "starting" and self._options.starting_needs_match:
            where, timestamp_ms = next(iter(without.items()))
            raise IllegalArgumentException(
                f"no record of {where} is as young as the starting time {timestamp_ms}: start earlier, or set "
                "startingOffsetsByTimestampStrategy to latest"
            )
        return found | self._client.offsets(dict.fromkeys(without, LATEST_OFFSET))

    def latest(self, known: Offsets) -> dict[TopicPartition, int]:
        """Where the partitions end by now. An end before a known offset is asked for again."""
        last: dict[TopicPartition, int] = {}

        def ask() -> dict[TopicPartition, int] | None:
            nonlocal last
            partitions = self._there(known)
            last = self._client.offsets(dict.fromkeys(partitions, LATEST_OFFSET))
            return last if all(known.get(where, 0) <= end for where, end in last.items()) else None

        found = self._repeated(ask)
        return last if found is None else found

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where these begin, as far as they are still there."""
        wanted = list(partitions)
        if not wanted:
            return {}
        there = set(self._client.partitions(self._options.strategy).partitions)
        return self._client.offsets({where: EARLIEST_OFFSET for where in wanted if where in there})

    def since(self, timestamp_ms: int, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offsets at or after a time; the end where no record is that young."""
        bound = AtTimestamp(timestamp_ms)
        found, without = resolved(bound, self._client.offsets(questions(bound, partitions, "timestamp")))
        return found | self._client.offsets(dict.fromkeys(without, LATEST_OFFSET))

    # Losses

    def report(self, losses: Sequence[str]) -> None:
        """Raise, or go on with a warning, as `failOnDataLoss` says."""
        if not losses:
            return
        if self._options.fail_on_data_loss:
            raise lost("; ".join(losses))
        for loss in losses:
            _logger.warning("%s; the query goes on, because failOnDataLoss is false", loss)

    def _repeated(self, ask: Callable[[], T | None]) -> T | None:
        """The first answer that is not None; None if there is none in all tries. A topic that is not known is no answer."""
        options = self._options
        for attempt in range(1, options.fetch_offset_num_retries + 1):
            try:
                answer = ask()
            except RefusedError as error:
                if error.code not in UNKNOWN_TOPIC or attempt == options.fetch_offset_num_retries:
                    raise
                answer = None
            if answer is not None:
                return answer
            if attempt < options.fetch_offset_num_retries:
                time.sleep(options.fetch_offset_retry_interval_ms / 1000)
        return None
