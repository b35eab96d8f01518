"""What `semel consume` reads, and when that is all: places of its own choice, or a group's.

Role.   `Places` has partitions from somewhere to somewhere; `Member` has what its group gives it, and commits what was printed.
Rules.  * `Places` reads up to where the partitions ended when it began, unless it is to follow or was given an end.
        * A member prints everything it polled: what it left out would be committed with the rest, and lost to the group.
        * Only printed records are committed.
"""

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final

import click

from semel.cli.ranges import END, Kind, Point, resolved
from semel.exceptions import KafkaException, OffsetOutOfRangeException
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.client.sync.consumer import Consumer
    from semel.client.values.consuming import ConsumerRecord

_COMMIT_MS: Final = 5_000
"""How long what was printed is tried to be committed when partitions go, or at the end."""
_EVER: Final = 2**63 - 1


class Places:
    """Partitions of a topic from some offset on."""

    commits = False

    def __init__(
        self,
        consumer: "Consumer",
        places: Sequence[TopicPartition],
        start: Point,
        until: Point | None,
        bootstrap: str,
        *,
        follow: bool,
    ) -> None:
        self._consumer = consumer
        begins, now = consumer.beginning_offsets(places), consumer.end_offsets(places)
        self.starts = self._offsets(start, begins, now)
        """Where each partition is read from."""
        self.ends = self._ends(until, begins, now, follow=follow)
        """Where each is read to."""
        for where, offset in self.starts.items():
            if not begins[where] <= offset <= now[where]:
                is_early = offset < begins[where]
                limit = f"begins at {begins[where]}" if is_early else f"ends at {now[where]}"
                raise OffsetOutOfRangeException(
                    f"{where} at {bootstrap} has no offset {offset}: it {limit}; ask for earliest or latest"
                )
        # A partition of which nothing is wanted is not fetched at all.
        consumer.assign([where for where in places if self.starts[where] < self.ends[where]])
        for where in consumer.assignment():
            consumer.seek(where, self.starts[where])

    def _offsets(
        self, point: Point, begins: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        at_times: dict[TopicPartition, int] = {}
        if point.kind is Kind.TIME:
            found = self._consumer.offsets_for_times(dict.fromkeys(now, point.value))
            at_times = {where: one.offset for where, one in found.items() if one is not None}
        return {where: resolved(point, begins[where], now[where], at_times.get(where)) for where in now}

    def _ends(
        self,
        until: Point | None,
        begins: Mapping[TopicPartition, int],
        now: Mapping[TopicPartition, int],
        *,
        follow: bool,
    ) -> dict[TopicPartition, int]:
        if follow:
            return dict.fromkeys(now, until.value if until is not None else _EVER)
        wanted = self._offsets(until or END, begins, now)
        return {where: min(offset, now[where]) for where, offset in wanted.items()}

    def is_over(self) -> bool:
        """Whether everything was handed out that was wanted."""
        return all(
            self._consumer.position(where) >= self.ends[where] for where in self._consumer.assignment()
        )

    def wants(self, where: TopicPartition, offset: int) -> bool:
        """Whether a record is in the range."""
        return offset < self.ends[where]

    def printed(self, record: "ConsumerRecord") -> None:
        """Nothing to remember."""

    def all_printed(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing to remember."""

    def end(self) -> None:
        """Nothing to commit."""


class Member:
    """The records a group gives; printed ones are committed."""

    commits = True

    def __init__(self, consumer: "Consumer", topic: str, *, follow: bool) -> None:
        self._consumer = consumer
        self.ends: dict[TopicPartition, int] = {}
        """Where partitions ended when the group gave them."""
        self._follow = follow
        self._is_joined = False
        self._done: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._interval_s = int(consumer.config["auto.commit.interval.ms"]) / 1000
        self._commit_at = 0.0
        consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._forget)

    def is_over(self) -> bool:
        """Whether everything was handed out that there was when the group gave it."""
        return (
            not self._follow
            and self._is_joined
            and all(
                where in self.ends and self._consumer.position(where) >= self.ends[where]
                for where in self._consumer.assignment()
            )
        )

    def wants(self, _where: TopicPartition, _offset: int) -> bool:
        """Everything it was handed."""
        return True

    def printed(self, record: "ConsumerRecord") -> None:
        """This may be committed."""
        self._done[record.topic_partition] = record.offset + 1

    def all_printed(self, partitions: Iterable[TopicPartition]) -> None:
        """So may what is hidden behind the last record of these; from time to time it is."""
        for where in partitions:
            self._done[where] = self._consumer.position(where)
        now = monotonic()
        if now >= self._commit_at:
            self._commit_at = now + self._interval_s
            if news := self._news(self._done):
                self._committed |= news
                self._consumer.commit_async(news)

    def end(self) -> None:
        """Commit."""
        self._commit(self._done)

    def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.ends |= self._consumer.end_offsets(partitions)
        self._is_joined = True

    def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._commit(partitions)
        self._forget(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for where in partitions:
            for kept in (self.ends, self._done, self._committed):
                kept.pop(where, None)

    def _news(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {
            where: self._done[where]
            for where in partitions
            if where in self._done and self._done[where] != self._committed.get(where)
        }

    def _commit(self, partitions: Iterable[TopicPartition]) -> None:
        news = {where: self._done[where] for where in partitions if where in self._done}
        if not news:
            return
        try:
            self._consumer.commit(news, timeout_ms=_COMMIT_MS)
        except KafkaException as error:
            click.echo(f"semel: what was printed last is not committed: {error}", err=True)
