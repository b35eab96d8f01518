"""A Produce request seen before, with new records: appended and answered without decoding or encoding it.

Role.   Small requests cost more to read and answer than to store. A client repeats itself; so the first request of a
        kind goes the long way, and teaches what its answer looks like. The next ones differ in their records alone.
Flow.   `dispatch` asks `answer` for every Produce frame; None means: the long way. After a long way that ended well,
        it calls `learn`.
Rules.  * Only what would be a plain success is answered here. A refusal has left nothing behind, so the long way may
          meet it again and find the words.
        * Only partitions whose appends are visible at once: who asks for syncs goes the long way and waits there.
          And only those that keep the producer's timestamps: a batch that was stamped before it was refused is
          another batch.
        * A request is known by the identity behind it (principal, listener, host) and by all its bytes but its correlation id and
          its records: the key holds everything that a decision depends on.
        * A batch that is much work to look at goes the long way, where a thread looks at it.
        * The answer's bytes are the codec's own, with the three numbers that change cut out.
        * Known requests are forgotten when partitions come, go or change their settings, and when there are too many
          of them.
"""

from struct import Struct
from typing import Final

from semel.broker.metrics.counts import Metrics
from semel.broker.partitions import Partitions
from semel.broker.replicas.led_partition import LedPartition
from semel.core.idempotence.producer_window import Duplicate
from semel.core.records.batch import ATTRIBUTES_POSITION, HEADER_SIZE, TRANSACTIONAL_BIT, TimestampType
from semel.core.records.effort import is_heavy
from semel.core.security.identity import Identity
from semel.core.wire import framing
from semel.core.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from semel.core.wire.produce_shape import BY_ID_SINCE, FIRST_VERSION, NO_TAGS_BYTES, plain_records
from semel.errors import ErrorCode
from semel.log.partition_log import Appended

_LEARNED_MAX: Final = 4096
_CORRELATION: Final = slice(4, 8)
_KEY_POSITION: Final = 8  # Of a request's frame: behind API, version and correlation id.
_ACKS_POSITION: Final = 1  # Of a plain request's body: behind the null that stands for the transactional id.
_ACKS_ALL: Final = b"\xff\xff"
_NUMBERS: Final = Struct(">qqq")
_UNLIKELY: Final = (0x5E3E10FF5E7, 0x5E3E157A3B, 0x5E3E157A27)
"""Offset, append time and log start of the answer that is taken apart: found again among its other bytes."""


class _Known:
    """A request that came before: where its records go and what frames the answer."""

    __slots__ = ("has_weak_acks", "pack", "partition", "rest", "size", "start")

    def __init__(self, partition: LedPartition, answer: bytes, *, has_weak_acks: bool) -> None:
        at = answer.index(_NUMBERS.pack(*_UNLIKELY))
        self.partition = partition
        self.has_weak_acks = has_weak_acks
        self.size = answer[: _CORRELATION.start]
        self.start = answer[_CORRELATION.stop : at]
        self.rest = answer[at + _NUMBERS.size :]
        self.pack = Struct(f">{len(self.size)}si{len(self.start)}sqqq{len(self.rest)}s").pack


class ProduceShortcut:
    """Requests that came before, by identity, version and the bytes between correlation id and records."""

    def __init__(self, partitions: Partitions, metrics: Metrics) -> None:
        self._partitions = partitions
        self._codes = metrics.codes_of("Produce")
        self._known: dict[tuple[Identity, int, bytes], _Known] = {}
        self._changes = partitions.changes

    def answer(
        self, identity: Identity, frame: bytearray, version: int, correlation_id: int, position: int
    ) -> bytes | None:
        """Append and answer, or None if the request has to go the long way. Its body begins at `position`."""
        if version < FIRST_VERSION or (found := plain_records(frame, version, position)) is None:
            return None
        if self._changes != self._partitions.changes:
            self._known.clear()
            self._changes = self._partitions.changes
        length_at, records_at = found
        known = self._known.get((identity, version, bytes(frame[_KEY_POSITION:length_at])))
        if known is None or len(frame) - records_at < HEADER_SIZE + NO_TAGS_BYTES:
            return None
        if frame[records_at + ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_BIT:
            return None
        partition = known.partition
        records = memoryview(frame)[records_at:-NO_TAGS_BYTES]
        if is_heavy(records, partition.log.rules.compression_type):
            return None
        result = partition.append(records)
        if type(result) is Appended:
            stamp = result.log_append_time_ms
        elif type(result) is Duplicate:
            self._codes[ErrorCode.DUPLICATE_SEQUENCE_NUMBER] += 1
            stamp = result.timestamp_ms
        else:
            return None
        if known.has_weak_acks:
            partition.counts.weak_acks += 1
        log_start_offset = partition.log.log_start_offset
        return known.pack(
            known.size, correlation_id, known.start, result.base_offset, stamp, log_start_offset, known.rest
        )

    def learn(
        self, identity: Identity, frame: bytearray, version: int, position: int, response: ProduceResponse
    ) -> None:
        """Remember a request that was answered the long way, if it is plain and ended well."""
        if version < FIRST_VERSION or (found := plain_records(frame, version, position)) is None:
            return
        topic = response.responses[0]
        answer = topic.partition_responses[0]
        if answer.error_code or self._changes != self._partitions.changes:
            return
        topic_id = topic.topic_id if version >= BY_ID_SINCE else None
        partition = self._partitions.find(topic.name, topic_id, answer.index)
        if isinstance(partition, ErrorCode) or not partition.is_settled_at_once:
            return
        if partition.log.config.message_timestamp_type is not TimestampType.CREATE_TIME:
            return
        if len(self._known) >= _LEARNED_MAX:
            self._known.clear()
        offset, stamp, start = _UNLIKELY
        pattern = PartitionProduceResponse(
            index=answer.index, base_offset=offset, log_append_time_ms=stamp, log_start_offset=start
        )
        answered = TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[pattern]
        )
        bytes_of_it = framing.response_frame(0, ProduceResponse(responses=[answered]), version)
        acks_at = position + _ACKS_POSITION
        has_weak_acks = frame[acks_at : acks_at + len(_ACKS_ALL)] != _ACKS_ALL
        self._known[identity, version, bytes(frame[_KEY_POSITION : found[0]])] = _Known(
            partition, bytes_of_it, has_weak_acks=has_weak_acks
        )
