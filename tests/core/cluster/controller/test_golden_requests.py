"""Requests of the controller's machine are Kafka 3.9.2's, byte for byte.

Method: frames that a Kafka 3.9.2 controller sent, as hex without the header. The machine is given what Kafka's controller knew then:
brokers 1 and 2 of Kafka, broker 3 elsewhere, and the state of the partition; it is asked for the same request.
"""

import uuid
from collections.abc import Callable

from semel.core.cluster.controller.context import Assignment, Context, Leadership, LiveBroker, Topic
from semel.core.cluster.controller.effects import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from semel.core.cluster.controller.requests import RequestBatch
from semel.core.cluster.controller.term import Settings, Term
from semel.core.cluster.documents import BrokerNode
from semel.core.metadata.brokers import Endpoint
from semel.core.wire.message import Message
from semel.core.wire.messages.leader_and_isr import LeaderAndIsrRequest
from semel.core.wire.messages.stop_replica import StopReplicaRequest
from semel.core.wire.messages.update_metadata import UpdateMetadataRequest
from semel.types import TopicPartition

BROKERS_ONLY = bytes.fromhex(
    "000000010000000001000000000000003b0104000000010200004a930a3132372e302e302e310a504c41494e54455854"
    "0000000000000000020200004a940a3132372e302e302e310a504c41494e544558540000000000000000030200004a95"
    "0a3132372e302e302e310a504c41494e54455854000000000000"
)
TOPIC_CREATED = bytes.fromhex(
    "000000010000000001000000000000003b0209666f6c6c6f776564899d679a6ad1452eb832c40a7d0f1a690200000000"
    "0000000100000001000000000300000001000000030000000003000000010000000301000004000000010200004a930a"
    "3132372e302e302e310a504c41494e544558540000000000000000020200004a940a3132372e302e302e310a504c4149"
    "4e544558540000000000000000030200004a950a3132372e302e302e310a504c41494e54455854000000000000"
)
LEADER_NEW = bytes.fromhex(
    "000000010000000001000000000000003b0002046c65642abffbb6fda142a99823f5236e2f8dac020000000000000001"
    "00000003000000000300000003000000010000000003000000030000000101010100000002000000030a3132372e302e"
    "302e3100004a950000"
)
UNCLEAN = bytes.fromhex(
    "000000010000000001000000000000003b0002027572e57917a8bf4f57adb2ca9c335fe2ad0200000000000000010000"
    "00030000000102000000030000000203000000020000000301010001000002000000030a3132372e302e302e3100004a"
    "950000"
)
REASSIGNING = bytes.fromhex(
    "000000010000000001000000000000003b000209666f6c6c6f776564899d679a6ad1452eb832c40a7d0f1a6902000000"
    "000000000100000001000000010300000001000000030000000104000000020000000300000001020000000202000000"
    "010000000002000000010a3132372e302e302e3100004a930000"
)
WIDER_ISR = bytes.fromhex(
    "000000010000000001000000000000003b000209666f6c6c6f776564899d679a6ad1452eb832c40a7d0f1a6902000000"
    "000000000100000002000000020400000001000000030000000200000003030000000200000003010100000000020000"
    "00020a3132372e302e302e3100004a940000"
)
GOING = bytes.fromhex(
    "000000010000000001000000000000003b02046c65642abffbb6fda142a99823f5236e2f8dac020000000000000001ff"
    "fffffe000000000300000003000000010000000003000000030000000101000004000000010200004a930a3132372e30"
    "2e302e310a504c41494e544558540000000000000000020200004a940a3132372e302e302e310a504c41494e54455854"
    "0000000000000000030200004a950a3132372e302e302e310a504c41494e54455854000000000000"
)
STOP = bytes.fromhex("000000010000000001000000000000003b02046c65640200000000fffffffe00000000")
DELETE = bytes.fromhex("000000010000000001000000000000003b02046c65640200000000fffffffe01000000")
STOPPED_WITH_NOTICE = bytes.fromhex(
    "000000010000000001000000000000003b0209666f6c6c6f77656402000000000000000300000000"
)


def _sent(context: Context, fill: Callable[[RequestBatch], None]) -> list[Message]:
    """The requests of one round, with the epoch of broker 3 where a request is for all."""
    term = Term(context, Settings(node_id=1))
    batch = RequestBatch(term)
    fill(batch)
    batch.send()
    found: list[Message] = []
    for effect in term.outbox:
        match effect:
            case SendUpdateMetadata(broker_epochs, request):
                request.broker_epoch = dict(broker_epochs)[3]
                found.append(request)
            case SendLeaderAndIsr(_broker_id, leader_and_isr):
                found.append(leader_and_isr)
            case SendStopReplica(_broker_id, stop_replica):
                found.append(stop_replica)
            case _:
                raise AssertionError(effect)
    return found


def _context(
    name: str = "", topic_id: bytes = bytes(16), state: Leadership | None = None, *replicas: int
) -> Context:
    """The cluster of the recording, with one partition."""
    context = Context(1)
    for broker in (1, 2, 3):
        node = BrokerNode({"PLAINTEXT": Endpoint("127.0.0.1", 19090 + broker)})
        context.brokers[broker] = LiveBroker(broker, 59 if broker == 3 else 20 + broker, node)
    if state is not None:
        context.put_topic(Topic(name, uuid.UUID(bytes=topic_id), {0: Assignment(replicas)}))
        context.leaderships[TopicPartition(name, 0)] = state
    return context


def test_brokers_only() -> None:
    (request,) = _sent(_context(), lambda batch: batch.tell([3]))
    assert request.encode(8) == BROKERS_ONLY


def test_topic_created() -> None:
    recorded = UpdateMetadataRequest.decode(TOPIC_CREATED, 8)
    (topic,) = recorded.topic_states
    (told,) = topic.partition_states
    state = Leadership(told.leader, 0, tuple(told.isr), told.zk_version, 1)
    context = _context(topic.topic_name, topic.topic_id, state, *told.replicas)
    partition = TopicPartition(topic.topic_name, 0)
    (request,) = _sent(context, lambda batch: batch.tell([3], [partition]))
    assert request.encode(8) == TOPIC_CREATED


def _role(recorded_bytes: bytes, *, is_new: bool) -> bytes:
    """The machine's LeaderAndIsr to broker 3 for the partition of a recorded one."""
    recorded = LeaderAndIsrRequest.decode(recorded_bytes, 7)
    (topic,) = recorded.topic_states
    (told,) = topic.partition_states
    state = Leadership(
        told.leader, told.leader_epoch, tuple(told.isr), told.partition_epoch, 1, told.leader_recovery_state
    )
    assignment = Assignment(tuple(told.replicas), tuple(told.adding_replicas), tuple(told.removing_replicas))
    context = _context(topic.topic_name, topic.topic_id, state, *told.replicas)
    partition = TopicPartition(topic.topic_name, 0)
    request, update = _sent(
        context, lambda batch: batch.lead_and_follow([3], partition, state, assignment, is_new=is_new)
    )
    assert isinstance(update, UpdateMetadataRequest)
    return request.encode(7)


def test_roles() -> None:
    assert _role(LEADER_NEW, is_new=True) == LEADER_NEW
    assert _role(UNCLEAN, is_new=False) == UNCLEAN
    assert _role(REASSIGNING, is_new=False) == REASSIGNING
    assert _role(WIDER_ISR, is_new=False) == WIDER_ISR


def test_a_topic_is_going() -> None:
    recorded = UpdateMetadataRequest.decode(GOING, 8)
    (topic,) = recorded.topic_states
    partition = TopicPartition(topic.topic_name, 0)
    state = Leadership(3, 4, (3, 1), 5, 1)
    context = _context(topic.topic_name, topic.topic_id, state, 3, 1)
    context.to_delete[topic.topic_name] = None
    (request,) = _sent(context, lambda batch: batch.tell([3], [partition]))
    assert request.encode(8) == GOING
    for delete, expected in ((False, STOP), (True, DELETE)):
        (stop,) = _sent(context, lambda batch, delete=delete: batch.stop([3], partition, delete=delete))  # type: ignore[misc]
        assert stop.encode(4) == expected


def test_a_follower_is_stopped() -> None:
    recorded = StopReplicaRequest.decode(STOPPED_WITH_NOTICE, 4)
    (topic,) = recorded.topic_states
    partition = TopicPartition(topic.topic_name, 0)
    state = Leadership(2, topic.partition_states[0].leader_epoch, (2, 3), 5, 1)
    context = _context(topic.topic_name, bytes(15) + b"x", state, 2, 3)
    (stop,) = _sent(context, lambda batch: batch.stop([3], partition, delete=False))
    assert stop.encode(4) == STOPPED_WITH_NOTICE
