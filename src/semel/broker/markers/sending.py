"""Markers: every partition of a transaction is told how it ended, until each of them knows.

Role.   Carries out `SendMarkers` of the transaction coordinator: partitions led here write the marker (`here`), leaders elsewhere
        are sent it (`elsewhere`).
Flow.   `coordinators.transactions` calls `send` once the decision is committed; when all are written it is told by
        `on_written`, and decides that the transaction is complete.
Rules.  * Where every log takes its marker at once, everything is done when `send` returns: the producer's next request
          finds the transaction complete.
        * A marker that a partition cannot take now is tried again, ever more slowly, for as long as this coordinator leads the
          transaction's partition. Partitions that took theirs are not asked again, and nobody waits for a slow one to be asked.
        * Each try asks where the partition is led. A broker alone, which has no way to others, waits until it is led here.
        * Of two sends for one transactional id the later one counts: a shard that is loaded again sends its markers
          again, and the rest of the first send must not meet the next transaction.
        * A partition whose topic is gone needs none. A partition that refuses the epoch has seen a later one of this
          producer: its transaction has ended there. A partition that has seen a later coordinator is looked at: its transaction is
          not given up as ended while it is open. Elsewhere it cannot be looked at: it is asked again, until this coordinator
          learns that it is not the latest.
        * A log of an old format has no transactions, so it needs no markers.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from semel.broker.coordinators.groups import GroupCoordinator
from semel.broker.markers.here import Leaders, Marker, MarkersHere
from semel.cluster.store import MetadataStore
from semel.core.metadata.brokers import RegisteredBroker
from semel.core.transactions.coordinator.decision import SendMarkers
from semel.errors import ErrorCode
from semel.runtime.bundle import Runtime
from semel.runtime.repeats import Repeats
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.broker.markers.elsewhere import MarkersElsewhere

_logger = logging.getLogger(__name__)
_BACKOFF_SECONDS: Final = 0.02
_BACKOFF_MAX_SECONDS: Final = 1.0
_AT_ONCE: Final = 500
"""Partitions that are told in one turn of the loop: some milliseconds of work."""
_ENDED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
_ENDED_ELSEWHERE: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
)

_Pending: TypeAlias = list[tuple[TopicPartition, asyncio.Future[ErrorCode]]]


class Markers:
    """Has the markers of this broker's transactions written."""

    def __init__(
        self,
        store: MetadataStore,
        leaders: Leaders,
        groups: GroupCoordinator,
        runtime: Runtime,
        elsewhere: "MarkersElsewhere | None" = None,
        answer_seconds: float | None = None,
    ) -> None:
        """`elsewhere`: the way to other leaders, of a member of a cluster. `answer_seconds`: for how long coordinators elsewhere may
        wait for a marker here."""
        self._store = store
        self._leaders = leaders
        self._runtime = runtime
        self.here: Final = MarkersHere(leaders, groups, runtime, self._exists, answer_seconds)
        self._elsewhere = elsewhere
        self._under_way: dict[str, _Sending] = {}
        self._refusals = Repeats()

    def send(
        self,
        markers: SendMarkers,
        *,
        coordinator_epoch: int,
        is_wanted: Callable[[], bool],
        on_written: Callable[[], object],
    ) -> None:
        """Have every partition end the transaction; `is_wanted` is asked before each further try."""
        sending = _Sending(markers, coordinator_epoch, is_wanted, on_written)
        self._under_way[markers.transactional_id] = sending
        partitions = list(markers.partitions)
        missing, pending = self._write_all(sending, partitions[:_AT_ONCE])
        left = partitions[_AT_ONCE:]
        if missing:
            _logger.warning(
                "%s: %d partitions do not take the marker of producer %d now, %s among them; tried until they do",
                markers.transactional_id,
                len(missing),
                markers.producer_id,
                missing[0],
                extra=_named(markers),
            )
        if missing or pending or left:
            self._runtime.tasks.spawn(
                self._persist(sending, left, missing, pending), name=f"markers of {markers.transactional_id}"
            )
        else:
            del self._under_way[markers.transactional_id]
            on_written()

    async def _persist(
        self,
        sending: "_Sending",
        left: list[TopicPartition],
        missing: list[TopicPartition],
        pending: _Pending,
    ) -> None:
        """Wait for what is under way, go on with what is left, and try again what failed."""
        transactional_id = sending.markers.transactional_id
        seconds = _BACKOFF_SECONDS
        while True:
            if self._elsewhere is None:
                for topic_partition, result in pending:
                    if _must_be_repeated(await result):
                        missing.append(topic_partition)
                pending = []
            else:
                if pending and not left and not missing:
                    await sending.next_of(pending)
                pending = self._answered(sending, pending, missing)
            if left:
                await self._runtime.tasks.sleep(0)
            elif missing:
                await self._runtime.tasks.sleep(seconds)
                seconds = min(seconds * 2, _BACKOFF_MAX_SECONDS)
                left, missing = missing, []
            elif not pending:
                break
            if not self._is_current(sending):
                return
            if not sending.is_wanted():  # Another coordinator has them written.
                del self._under_way[transactional_id]
                return
            refused, more = self._write_all(sending, left[:_AT_ONCE])
            missing += refused
            pending += more
            left = left[_AT_ONCE:]
        if self._is_current(sending):
            del self._under_way[transactional_id]
            sending.on_written()

    def _answered(self, sending: "_Sending", pending: _Pending, missing: list[TopicPartition]) -> _Pending:
        """What is still under way. Partitions that are to be asked again are `missing` now."""
        still: _Pending = []
        for topic_partition, result in pending:
            if not result.done():
                still.append((topic_partition, result))
                continue
            code = result.result()
            if code is ErrorCode.NONE or not self._exists(topic_partition):
                continue
            if code in _ENDED_ELSEWHERE:
                _warn_of_end(sending.markers, topic_partition, code)
                continue
            missing.append(topic_partition)
            if times := self._refusals.due(self._runtime.clock.monotonic()):
                _logger.info(
                    "%s: %s has not taken the marker of producer %d (%s), which is tried until it does (%d times since the last such line)",
                    sending.markers.transactional_id,
                    topic_partition,
                    sending.markers.producer_id,
                    code.name,
                    times,
                    extra=_named(sending.markers),
                )
        return still

    def _write_all(
        self, sending: "_Sending", partitions: Iterable[TopicPartition]
    ) -> tuple[list[TopicPartition], _Pending]:
        """Which could not be written, and which are under way."""
        missing: list[TopicPartition] = []
        pending: _Pending = []
        markers = sending.markers
        for topic_partition in partitions:
            result = self._write(sending, topic_partition)
            if not isinstance(result, ErrorCode):
                pending.append((topic_partition, result))
                continue
            if result is ErrorCode.NONE or not self._exists(topic_partition):
                continue
            if result in _ENDED and not self._is_open(topic_partition, markers.producer_id, result):
                _warn_of_end(markers, topic_partition, result)
            else:
                missing.append(topic_partition)
        return missing, pending

    def _write(
        self, sending: "_Sending", topic_partition: TopicPartition
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        if self._elsewhere is None:
            return self.here.write(topic_partition, sending.marker)
        place = self._leaders.where(topic_partition)
        if isinstance(place, RegisteredBroker):
            result: ErrorCode | asyncio.Future[ErrorCode] = self._elsewhere.write(
                place.broker_id,
                sending.marker,
                topic_partition,
                lambda: self._is_current(sending) and sending.is_wanted(),
            )
        else:
            result = self.here.write(topic_partition, sending.marker)
        if not isinstance(result, ErrorCode):
            result.add_done_callback(sending.told)
        return result

    def _is_current(self, sending: "_Sending") -> bool:
        return self._under_way.get(sending.markers.transactional_id) is sending

    def _exists(self, topic_partition: TopicPartition) -> bool:
        image = self._store.image
        if image.is_told:  # A partition it does not know of may be there.
            return not image.is_gone(topic_partition.topic)
        return image.partition(topic_partition) is not None

    def _is_open(self, topic_partition: TopicPartition, producer_id: int, refused: ErrorCode) -> bool:
        """Whether a partition that knows a later coordinator still waits for the end of this producer's transaction."""
        if refused is not ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            return False
        return self.here.is_open(topic_partition, producer_id)

    def brokers_changed(self) -> None:
        """Other brokers are alive than before."""
        if self._elsewhere is not None:
            self._elsewhere.brokers_changed()

    def close(self) -> None:
        """Send nothing to other brokers any more."""
        if self._elsewhere is not None:
            self._elsewhere.close()


class _Sending:
    """One transaction whose markers are being written."""

    def __init__(
        self,
        markers: SendMarkers,
        coordinator_epoch: int,
        is_wanted: Callable[[], bool],
        on_written: Callable[[], object],
    ) -> None:
        self.markers = markers
        self.marker = Marker(
            markers.producer_id,
            markers.producer_epoch,
            coordinator_epoch,
            markers.commit,
            markers.transaction_version,
        )
        self.is_wanted = is_wanted
        self.on_written = on_written
        self._progress: asyncio.Event | None = None

    def told(self, _result: asyncio.Future[ErrorCode]) -> None:
        """A result that `next_of` may wait for is there."""
        if self._progress is not None:
            self._progress.set()

    async def next_of(self, pending: _Pending) -> None:
        """Wait until one of these is done, if none is."""
        if any(result.done() for _, result in pending):
            return
        self._progress = asyncio.Event()
        await self._progress.wait()


def _must_be_repeated(code: ErrorCode) -> bool:
    return code is not ErrorCode.NONE and code not in _ENDED


def _warn_of_end(markers: SendMarkers, topic_partition: TopicPartition, code: ErrorCode) -> None:
    _logger.warning(
        "%s takes no marker of producer %d, epoch %d (%s): it has seen a later one",
        topic_partition,
        markers.producer_id,
        markers.producer_epoch,
        code.name,
        extra=_named(markers),
    )


def _named(markers: SendMarkers) -> dict[str, object]:
    return {
        "transactional_id": markers.transactional_id,
        "producer_id": markers.producer_id,
        "producer_epoch": markers.producer_epoch,
    }
