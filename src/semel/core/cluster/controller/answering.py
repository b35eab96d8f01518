"""Questions of brokers to their controller: another ISR, a block of producer ids.

Role.   AlterPartition and AllocateProducerIds.
Rules.  * AlterPartition is judged by what is known here (`core.cluster.fencing`), and written against the partition epoch that the leader
          gave. A wish that is fulfilled already is a success: its answer may have been lost.
        * Only the leader changes its ISR, to replicas of the partition, none of which is down or stopping.
        * Every wish, a refused one too, is followed by UpdateMetadata to all, as with Kafka.
        * A block of producer ids is taken by compare-and-set on its node, never from memory.
"""

import uuid
from typing import Final

from semel.core.cluster import documents, fencing, paths
from semel.core.cluster.controller.context import Leadership
from semel.core.cluster.controller.events import CompleteReassignment
from semel.core.cluster.controller.operations import Steps, ask, read_states, write_states
from semel.core.cluster.controller.requests import RequestBatch
from semel.core.cluster.controller.term import Term
from semel.core.cluster.documents import PRODUCER_ID_BLOCK_SIZE, RECOVERING, ProducerIdBlock
from semel.core.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from semel.core.wire.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from semel.core.zookeeper.wire.messages import GetData, SetData
from semel.core.zookeeper.words import ZooKeeperCode
from semel.errors import ErrorCode
from semel.types import TopicPartition

_IDS_SINCE: Final = 2
_EPOCHS_SINCE: Final = 3
_TRIES_MAX: Final = 100
_PRODUCER_ID_MAX: Final = 2**63 - 1


class Answers:
    """The controller's answers to brokers."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._context = term.context

    # AlterPartition

    def alter_partitions(self, request: AlterPartitionRequest, version: int) -> Steps[AlterPartitionResponse]:
        context = self._context
        broker = context.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        asked: dict[TopicPartition, AlterPartitionData] = {}
        response = AlterPartitionResponse()
        answers: list[tuple[TopicPartition, AlteredPartition]] = []
        for topic in request.topics:
            named = version < _IDS_SINCE
            name = topic.topic_name if named else context.name_of(uuid.UUID(bytes=topic.topic_id))
            altered = AlteredTopic(topic_name=topic.topic_name, topic_id=topic.topic_id)
            response.topics.append(altered)
            for data in topic.partitions:
                answer = AlteredPartition(partition_index=data.partition_index)
                altered.partitions.append(answer)
                if name is None:
                    answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
                    continue
                partition = TopicPartition(name, data.partition_index)
                asked[partition] = data
                answers.append((partition, answer))
        codes, wanted = self._judge(request.broker_id, asked, version)
        written = yield from write_states(context, wanted)
        for partition, state in written.items():
            if state is None:
                codes[partition] = ErrorCode.INVALID_UPDATE_VERSION
            else:
                context.leaderships[partition] = state
        if any(state is None for state in written.values()):
            yield from self._look([one for one, state in written.items() if state is None])
        for partition, answer in answers:
            if code := codes.get(partition, ErrorCode.NONE):
                answer.error_code = code
            else:
                _tell(answer, context.leaderships[partition])
                if partition in context.reassigning:
                    self._term.play_next(CompleteReassignment(partition))
        batch = RequestBatch(self._term)
        batch.tell(context.brokers, asked)
        batch.send()
        return response

    def _judge(
        self, broker_id: int, asked: dict[TopicPartition, AlterPartitionData], version: int
    ) -> tuple[dict[TopicPartition, ErrorCode], dict[TopicPartition, Leadership]]:
        """The refusals, and the states to write."""
        codes: dict[TopicPartition, ErrorCode] = {}
        wanted: dict[TopicPartition, Leadership] = {}
        for partition, data in asked.items():
            isr = tuple(data.new_isr)
            if version >= _EPOCHS_SINCE:
                isr = tuple(one.broker_id for one in data.new_isr_with_epochs)
            known = self._context.leaderships.get(partition)
            if known is None:
                codes[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            wish = Leadership(
                broker_id,
                data.leader_epoch,
                isr,
                data.partition_epoch,
                self._context.epoch,
                data.leader_recovery_state,
            )
            is_so = _is_so(wish, known)
            code = fencing.wish(
                leader_epoch=wish.leader_epoch,
                known_leader_epoch=known.leader_epoch,
                partition_epoch=wish.partition_epoch,
                known_partition_epoch=known.partition_epoch,
                is_present_state=is_so,
            )
            if not code and not is_so:
                code = self._flaw(partition, wish, known, version)
            if code:
                codes[partition] = code
            elif not is_so:
                wanted[partition] = wish
        return codes, wanted

    def _flaw(
        self, partition: TopicPartition, wish: Leadership, known: Leadership, version: int
    ) -> ErrorCode:
        if wish.leader_recovery_state == RECOVERING and (
            len(wish.isr) > 1 or known.leader_recovery_state != RECOVERING
        ):
            return ErrorCode.INVALID_REQUEST
        replicas = self._context.assignment(partition).replicas
        if wish.leader != known.leader or wish.leader not in wish.isr or len(set(wish.isr)) != len(wish.isr):
            return ErrorCode.INVALID_REQUEST
        # A member that is not assigned any more may stay until a reassignment has removed it.
        if any(one not in replicas and one not in known.isr for one in wish.isr):
            return ErrorCode.INVALID_REQUEST
        if any(not self._context.is_live(one) for one in wish.isr):
            is_known_there = version >= _IDS_SINCE
            return ErrorCode.INELIGIBLE_REPLICA if is_known_there else ErrorCode.OPERATION_NOT_ATTEMPTED
        return ErrorCode.NONE

    def _look(self, partitions: list[TopicPartition]) -> Steps[None]:
        """Know the states that are there instead of the expected ones."""
        for partition, state in (yield from read_states(partitions)).items():
            if isinstance(state, Leadership):
                self._context.leaderships[partition] = state

    # AllocateProducerIds

    def allocate(self, request: AllocateProducerIdsRequest) -> Steps[AllocateProducerIdsResponse]:
        broker = self._context.brokers.get(request.broker_id)
        if broker is None:
            return AllocateProducerIdsResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
        if broker.epoch != request.broker_epoch:
            return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        for _try in range(_TRIES_MAX):
            (found,) = yield from ask([GetData(paths.PRODUCER_ID_BLOCK)])
            before = documents.decode_producer_ids(found.data)
            first = 0 if before is None else before.last + 1
            if first > _PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
                self._term.note("all producer ids are given out")
                break
            block = ProducerIdBlock(request.broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
            data = documents.encode_producer_ids(block)
            (written,) = yield from ask(
                [SetData(paths.PRODUCER_ID_BLOCK, data, found.version)], ZooKeeperCode.BAD_VERSION
            )
            if not written.is_done:
                (look,) = yield from ask([GetData(paths.PRODUCER_ID_BLOCK)])
                if look.data != data or look.version != found.version + 1:
                    continue
            return AllocateProducerIdsResponse(
                producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE
            )
        return AllocateProducerIdsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)


def _is_so(wish: Leadership, known: Leadership) -> bool:
    """Whether a wish is fulfilled; its partition epoch may be older."""
    return (
        wish.leader == known.leader
        and wish.leader_epoch == known.leader_epoch
        and set(wish.isr) == set(known.isr)
        and wish.leader_recovery_state == known.leader_recovery_state
        and wish.partition_epoch <= known.partition_epoch
    )


def _tell(answer: AlteredPartition, state: Leadership) -> None:
    answer.leader_id = state.leader
    answer.leader_epoch = state.leader_epoch
    answer.isr = list(state.isr)
    answer.leader_recovery_state = state.leader_recovery_state
    answer.partition_epoch = state.partition_epoch
