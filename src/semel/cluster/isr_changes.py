"""AlterPartition: the ISRs that this broker's leaders ask for, in as few requests as there can be.

Role.   Leaders propose; the controller's answer to each proposal goes to its leader, once.
Flow.   `propose` -> all that waits becomes one request, built when a controller is there to read it -> `answered` of each.
Rules.  * One request is under way at a time. What is proposed meanwhile waits, and goes together.
        * A partition has one proposal that waits: a later one takes its place. The earlier one is not answered, for its leader has
          dropped it. The answer to one that is under way goes to its own leader, who knows that it is late.
        * Nothing is given up for silence: proposals are sent again until a controller answers them or `forget` is called. An answer
          that was lost makes no harm: the controller grants again what is so already.
        * An error of the whole request leaves every proposal where it was. It is sent again with the broker epoch of then.
        * After an error that its leader answers by asking again, the next request waits `RETRY_SECONDS`, and each time twice as long:
          Kafka's controller sends metadata to all brokers for every request, also for a refused one.
        * Topics are named by id. Where one has none, or the controller is an old one, all are named by name (versions 0 and 1).
        * A partition that is missing in the answer is told UNKNOWN_SERVER_ERROR, so that its leader asks again.
        * An error that nobody foresaw is logged with its trace, and what has no answer is sent again: no leader waits for ever.
        * At most `PARTITIONS_MAX` proposals go with one request. As many wait as partitions are led here.
Elsewhere. Which ISR to ask for, and the meaning of an answer: `core.replication.leading`. The way: `controller_channel`.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from semel.cluster.controller_channel import (
    ChannelBusyError,
    ChannelClosedError,
    ControllerChannel,
    Question,
)
from semel.core.replication.leading import Granted, Proposal, asks_again
from semel.core.wire.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode, UnsupportedVersionError, error_code
from semel.runtime.bundle import Runtime
from semel.runtime.repeats import Repeats
from semel.types import TopicPartition

_log: Final = logging.getLogger(__name__)
PARTITIONS_MAX: Final = 1000
RETRY_SECONDS: Final = (0.05, 1.0)
"""The pause after a first error, and the longest."""
_NAMED_UNTIL: Final = 1
"""The last version that names topics; the next has their ids."""
_EPOCHS_SINCE: Final = 3

Answered: TypeAlias = Callable[[Granted | ErrorCode], None]


@dataclass(frozen=True, slots=True, eq=False)
class _Wish:
    """A proposal that has no answer yet."""

    topic_id: uuid.UUID
    proposal: Proposal
    answered: Answered


class _NothingLeftError(Exception):
    """Every proposal was forgotten before it could be sent."""


class _Sent(NamedTuple):
    """How the last request was built."""

    by_id: bool
    broker_epoch: int


class IsrChanges:
    """The proposals of this broker's leaders."""

    def __init__(
        self,
        runtime: Runtime,
        channel: ControllerChannel,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._runtime = runtime
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[TopicPartition, _Wish] = {}
        self._under_way: dict[TopicPartition, _Wish] = {}
        self._sent = _Sent(by_id=True, broker_epoch=-1)
        self._sending: asyncio.Task[None] | None = None
        self._pause_seconds = 0.0
        self._troubles: dict[ErrorCode, Repeats] = {}
        self._breaks = Repeats()

    def propose(
        self,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID,
        proposal: Proposal,
        answered: Answered,
    ) -> None:
        """Ask the controller; `answered` is told what it says, unless `forget` or another proposal comes first."""
        self._waiting[topic_partition] = _Wish(topic_id, proposal, answered)
        if self._sending is None:
            self._sending = self._runtime.tasks.spawn(self._send(), name="ISR changes")

    def forget(self, topic_partition: TopicPartition) -> None:
        """The partition is no longer led here: no answer is told."""
        self._waiting.pop(topic_partition, None)
        self._under_way.pop(topic_partition, None)

    @property
    def pending(self) -> int:
        """How many proposals have no answer."""
        return len(self._waiting.keys() | self._under_way.keys())

    async def _send(self) -> None:
        """Until nothing waits."""
        try:
            while self._waiting:
                if self._pause_seconds:
                    await self._runtime.tasks.sleep(self._pause_seconds)
                try:
                    await self._send_once()
                except ChannelClosedError:
                    return  # The broker stops; its leaders are gone with it.
                except Exception as error:
                    self._broke(error)
        finally:
            self._sending = None

    async def _send_once(self) -> None:
        try:
            answer = await self._channel.ask_built(ApiKey.ALTER_PARTITION, self._build, timeout_ms=None)
        except _NothingLeftError:
            return
        except (UnsupportedVersionError, ChannelBusyError) as error:
            self._take_back()
            self._failed(error.code, str(error))
            return
        code = error_code(answer.error_code)
        if code is ErrorCode.NONE:
            self._tell(answer)
            return
        self._take_back()
        self._failed(
            code,
            f"the controller refuses it to broker {self._node_id} with broker epoch {self._sent.broker_epoch}",
        )

    def _build(self, version: int) -> Question[AlterPartitionResponse]:
        """All that waits, for a controller that speaks this version."""
        self._take_back()
        self._under_way = {one: self._waiting.pop(one) for one in list(self._waiting)[:PARTITIONS_MAX]}
        if not self._under_way:
            raise _NothingLeftError
        if any(wish.topic_id.bytes == ZERO_UUID for wish in self._under_way.values()):
            version = min(version, _NAMED_UNTIL)
        self._sent = _Sent(by_id=version > _NAMED_UNTIL, broker_epoch=self._broker_epoch())
        topics: dict[tuple[str, uuid.UUID], AlterPartitionTopic] = {}
        for (name, index), wish in self._under_way.items():
            topic = topics.setdefault(
                (name, wish.topic_id), AlterPartitionTopic(topic_name=name, topic_id=wish.topic_id.bytes)
            )
            topic.partitions.append(_wished(index, wish.proposal, version))
        request = AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._sent.broker_epoch, topics=list(topics.values())
        )
        return request, version

    def _take_back(self) -> None:
        """What was sent has no answer: it waits again, before all others, unless another proposal has its place."""
        self._waiting = {**self._under_way, **self._waiting}
        self._under_way = {}

    def _tell(self, answer: AlterPartitionResponse) -> None:
        """Each leader its own answer. A leader that hears one may forget or propose others."""
        given = _by_place(answer, by_id=self._sent.by_id)
        is_again = False
        while self._under_way:
            topic_partition, wish = next(iter(self._under_way.items()))
            del self._under_way[topic_partition]
            topic = wish.topic_id.bytes if self._sent.by_id else topic_partition.topic
            row = given.get((topic, topic_partition.partition))
            if row is None:
                _log.error(
                    "%s: the controller's answer to AlterPartition does not name it; it is asked again",
                    topic_partition,
                )
            verdict = ErrorCode.UNKNOWN_SERVER_ERROR if row is None else _verdict(row)
            is_again = is_again or (isinstance(verdict, ErrorCode) and asks_again(verdict))
            wish.answered(verdict)
        if is_again:
            self._slow_down()
        else:
            self._pause_seconds = 0.0

    def _failed(self, code: ErrorCode, why: str) -> None:
        """Nothing was done."""
        self._slow_down()
        repeats = self._troubles.setdefault(code, Repeats())
        if times := repeats.due(self._runtime.clock.monotonic()):
            level = logging.ERROR if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else logging.WARNING
            _log.log(
                level,
                "%d ISR changes wait, AlterPartition is sent again: %s (%s, %d times since the last such line)",
                len(self._waiting),
                why,
                code.name,
                times,
            )

    def _broke(self, error: Exception) -> None:
        """Nobody foresaw this error. What has no answer is sent again."""
        self._take_back()
        self._slow_down()
        if times := self._breaks.due(self._runtime.clock.monotonic()):
            _log.error(
                "%d ISR changes wait, AlterPartition is sent again: this broker failed at it (%d times since the last such line)",
                len(self._waiting),
                times,
                exc_info=error,
            )

    def _slow_down(self) -> None:
        first, longest = RETRY_SECONDS
        self._pause_seconds = min(2 * self._pause_seconds, longest) or first


def _wished(index: int, proposal: Proposal, version: int) -> AlterPartitionData:
    """A new leader takes itself for recovered (recovery state 0), as Kafka's do."""
    data = AlterPartitionData(
        partition_index=index, leader_epoch=proposal.leader_epoch, partition_epoch=proposal.partition_epoch
    )
    if version < _EPOCHS_SINCE:
        data.new_isr = list(proposal.isr)
    else:
        data.new_isr_with_epochs = [
            BrokerState(broker_id=member, broker_epoch=epoch)
            for member, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
        ]
    return data


def _by_place(
    answer: AlterPartitionResponse, *, by_id: bool
) -> dict[tuple[bytes | str, int], AlteredPartition]:
    return {
        (topic.topic_id if by_id else topic.topic_name, row.partition_index): row
        for topic in answer.topics
        for row in topic.partitions
    }


def _verdict(row: AlteredPartition) -> Granted | ErrorCode:
    code = error_code(row.error_code)
    if code is not ErrorCode.NONE:
        return code
    return Granted(tuple(row.isr), row.leader_epoch, row.partition_epoch)
