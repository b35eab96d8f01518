"""One producer's Produce requests, sent by hand: an answer may be left unread, and the same batch sent to another broker.

Role.   IDEM-04 and its kin: what clients do by themselves and nobody can time.
"""

import contextlib
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.errors import ErrorCode
from support.cluster.raw_connection import RawConnection, ask

_PRODUCE_VERSION: Final = 9
_INIT_VERSION: Final = 4
_TRY_SECONDS: Final = 90.0
_PRODUCE_TIMEOUT_MS: Final = 30_000
# The broker we ask does not lead (yet), or cannot serve yet: what clients try again.
_AGAIN: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class Answer(NamedTuple):
    """Of a Produce request with one batch."""

    error: ErrorCode
    base_offset: int


class RawProducer:
    """An idempotent producer of one partition."""

    def __init__(self, address: str, topic: str, partition: int = 0) -> None:
        self.topic = topic
        self.partition = partition
        self.producer_id, self.producer_epoch = _identify(address)
        self._sequence = 0

    def batch(self, *values: bytes) -> bytes:
        """The next batch, to be sent as often as one likes."""
        now_ms = int(time.time() * 1000)
        made = build_batch(
            [RecordInput(None, value, now_ms) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self._sequence,
        )
        self._sequence += len(values)
        return bytes(made)

    def skip(self, count: int) -> None:
        """So many sequences are never sent: the next batch leaves a gap."""
        self._sequence += count

    def request(self, batch: bytes, *, acks: int = -1) -> ProduceRequest:
        data = PartitionProduceData(index=self.partition, records=batch)
        return ProduceRequest(
            acks=acks,
            timeout_ms=_PRODUCE_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
        )

    def send(self, connection: RawConnection, batch: bytes, *, acks: int = -1) -> None:
        connection.send(self.request(batch, acks=acks), _PRODUCE_VERSION)

    def ask(self, address: str, batch: bytes, *, acks: int = -1) -> Answer:
        """Send to this broker until it answers as a leader: with anything that a client would not try again."""
        deadline = time.monotonic() + _TRY_SECONDS
        while True:
            answer = None
            with contextlib.suppress(ConnectionError, TimeoutError), RawConnection(address) as connection:
                self.send(connection, batch, acks=acks)
                answer = one_answer(connection.answer(0))
            if answer is not None and answer.error not in _AGAIN:
                return answer
            assert time.monotonic() < deadline, f"{address} does not serve {self.topic}: {answer}"
            time.sleep(0.05)

    def ask_all(self, address: str, batches: Sequence[bytes], *, acks: int = -1) -> list[Answer]:
        """One after the other."""
        return [self.ask(address, one, acks=acks) for one in batches]


def one_answer(response: ProduceResponse) -> Answer:
    """Of the only partition."""
    ((told,),) = [topic.partition_responses for topic in response.responses]
    return Answer(ErrorCode(told.error_code), told.base_offset)


def _identify(address: str) -> tuple[int, int]:
    """A new producer id: its block may have to come from the controller first."""
    deadline = time.monotonic() + _TRY_SECONDS
    while True:
        told = ask(
            address,
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
            _INIT_VERSION,
        )
        if told.error_code == ErrorCode.NONE:
            return told.producer_id, told.producer_epoch
        assert ErrorCode(told.error_code) in _AGAIN, ErrorCode(told.error_code)
        assert time.monotonic() < deadline, "no producer id"
        time.sleep(0.05)
