"""The life of a cluster under the controller's machine, step by step, as in Kafka's ControllerIntegrationTest.

Method: the pure machine on the pure ZooKeeper, with brokers that obey at once (`support.cluster.pure_cluster`). Expected are the
nodes, and the requests that brokers were sent.
"""

import uuid

import pytest

from semel.core.cluster import documents, paths
from semel.core.cluster.controller import events
from semel.core.cluster.controller.context import Assignment
from semel.core.cluster.controller.effects import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from semel.core.cluster.controller.term import Settings
from semel.core.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from semel.core.wire.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from semel.core.wire.messages.controlled_shutdown import ControlledShutdownRequest
from semel.core.zookeeper.wire.messages import Create, Delete, SetData
from semel.errors import ErrorCode
from semel.types import TopicPartition
from support.cluster.pure_cluster import TOPIC_ID, MovedError, PureCluster

T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster() -> PureCluster:
    made = PureCluster(0, 1, 2)
    made.elect()
    made.take_sent()
    return made


def alter(
    cluster: PureCluster,
    isr: tuple[int, ...],
    *,
    leader: int = 0,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    broker_epoch: int | None = None,
    topic_id: uuid.UUID = TOPIC_ID,
    index: int = 0,
    recovery: int = 0,
    version: int = 3,
) -> AlteredPartition:
    """The controller's answer to a leader's wish."""
    data = AlterPartitionData(
        partition_index=index,
        leader_epoch=leader_epoch,
        new_isr=list(isr),
        new_isr_with_epochs=[BrokerState(broker_id=one) for one in isr],
        leader_recovery_state=recovery,
        partition_epoch=partition_epoch,
    )
    request = AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=cluster.epoch_of(leader) if broker_epoch is None else broker_epoch,
        topics=[AlterPartitionTopic(topic_name="t", topic_id=topic_id.bytes, partitions=[data])],
    )
    answer = cluster.ask(events.AlterPartitionReceived(request, version))
    if answer.error_code:
        return AlteredPartition(error_code=answer.error_code)
    (topic,) = answer.topics
    (partition,) = topic.partitions
    assert isinstance(partition, AlteredPartition)
    return partition


# Taking over


def test_an_empty_cluster_is_taken_over() -> None:
    """Features are there, and every broker is told of all."""
    cluster = PureCluster(0, 1)
    cluster.elect()
    assert documents.are_features_enabled((cluster.read(paths.FEATURE) or (None,))[0])
    told = cluster.sent[0]
    assert isinstance(told, SendUpdateMetadata)
    assert [one.id for one in told.request.live_brokers] == [0, 1]
    assert [broker for broker, _epoch in told.broker_epochs] == [0, 1]


def test_a_take_over_tells_of_brokers_before_roles(cluster: PureCluster) -> None:
    """Trap 29: a follower refuses a leader that it does not know."""
    cluster.create("t", (0, 1), (1, 2))
    cluster.take_sent()
    cluster.elect()
    kinds = [type(one) for one in cluster.sent]
    assert kinds[0] is SendUpdateMetadata
    assert kinds[1:4] == [SendLeaderAndIsr] * 3
    first = cluster.sent[0]
    assert isinstance(first, SendUpdateMetadata)
    assert first.request.topic_states == []
    assert {one.controller_epoch for one in cluster.roles(0, "t")} == {1}, "the state itself is unchanged"


def test_a_take_over_finds_the_dead_and_elects_for_them(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1, 2), (1, 2), (2,))
    cluster.waiting.clear()
    cluster.kill(0)
    cluster.kill(2)
    cluster.elect()
    assert cluster.brief("t", 0) == (1, 3, (1,))
    assert cluster.brief("t", 1) == (1, 1, (1,))
    assert cluster.brief("t", 2) == (-1, 1, (2,)), "the last one in sync stays"


def test_a_topic_without_an_id_is_given_one(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1), topic_id=None)
    given = cluster.node("t").topic_id
    assert given is not None
    cluster.write(SetData(paths.topic("t"), b'{"version":1,"partitions":{"0":[0,1]}}'))
    cluster.waiting.clear()
    cluster.elect()
    assert cluster.node("t").topic_id not in (None, given), "a new controller remembers nothing"


def test_a_controller_that_was_replaced_writes_nothing(cluster: PureCluster) -> None:
    """Trap 1."""
    cluster.create("t", (0, 1))
    zombie, check, connection = cluster.machine, cluster._check, cluster._connection
    cluster.elect()
    cluster.machine, cluster._check, cluster._connection = zombie, check, connection
    before = cluster.tree()
    cluster.kill(1)
    with pytest.raises(MovedError):
        cluster.play(events.BrokerChange())
    del before["/brokers/ids/1"]
    assert cluster.tree() == before


# Topics


def test_a_topic_is_created(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1), (1, 2))
    assert cluster.brief("t", 0) == (0, 0, (0, 1))
    assert cluster.brief("t", 1) == (1, 0, (1, 2))
    (first,) = cluster.roles(0, "t")
    assert (first.leader, first.is_new, first.partition_epoch, first.replicas) == (0, True, 0, [0, 1])
    kinds = [type(one) for one in cluster.sent]
    assert kinds == [SendLeaderAndIsr] * 3 + [SendUpdateMetadata]


def test_a_topic_on_dead_brokers_waits_for_one(cluster: PureCluster) -> None:
    cluster.create("t", (5, 6), (5, 0))
    assert cluster.state("t", 0) is None
    assert cluster.brief("t", 1) == (0, 0, (0,))
    cluster.register(6)
    cluster.settle()
    assert cluster.brief("t", 0) == (6, 0, (6,))


def test_partitions_are_added(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    cluster.grow("t", (0, 1), (2, 0))
    assert cluster.brief("t", 1) == (2, 0, (2, 0))
    assert cluster.node("t").topic_id == TOPIC_ID


def test_an_id_that_an_old_tool_drops_is_written_back(cluster: PureCluster) -> None:
    """Trap 24."""
    cluster.create("t", (0, 1))
    cluster.write(SetData(paths.topic("t"), b'{"version":1,"partitions":{"0":[0,1],"1":[1,2]}}'))
    cluster.settle()
    assert cluster.node("t").topic_id == TOPIC_ID
    assert cluster.brief("t", 1) == (1, 0, (1, 2))


def test_documents_that_cannot_be_read_are_passed_over(cluster: PureCluster) -> None:
    cluster.write(Create(paths.topic("bad"), b"no json"))
    cluster.create("t", (0,))
    assert cluster.brief("t") == (0, 0, (0,))
    assert any("bad" in one for one in cluster.notes)


# Deletion


def test_a_topic_is_deleted(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1), (1, 2))
    cluster.take_sent()
    cluster.delete("t")
    assert not cluster.exists(paths.topic("t"))
    assert not cluster.exists(paths.topic_configs("t"))
    assert cluster.children(paths.DELETE_TOPICS) == ()
    assert cluster.stops(0, "t") == [(-2, False), (-2, True)]
    update = next(one for one in cluster.sent if isinstance(one, SendUpdateMetadata))
    states = update.request.topic_states[0].partition_states
    assert [(one.leader, one.leader_epoch, one.zk_version) for one in states] == [(-2, 0, 0)] * 2
    assert cluster.machine.context.topics == {}
    assert cluster.machine.context.replica_states == {}
    cluster.create("t", (2,), topic_id=uuid.UUID(int=8))
    assert cluster.brief("t") == (2, 0, (2,)), "the name is free again"


def test_a_deletion_waits_for_a_dead_broker(cluster: PureCluster) -> None:
    """Trap 25."""
    cluster.create("t", (0, 1))
    cluster.kill(1)
    cluster.settle()
    cluster.delete("t")
    assert cluster.exists(paths.topic("t"))
    cluster.register(1)
    cluster.settle()
    assert not cluster.exists(paths.topic("t"))
    assert cluster.stops(1, "t")[-1] == (-2, True)


def test_a_deletion_goes_on_after_a_broker_has_died_in_it(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    cluster.deaf.add(1)
    cluster.delete("t")
    cluster.kill(1)
    cluster.deaf.clear()
    cluster.settle()
    assert cluster.exists(paths.topic("t"))
    cluster.register(1)
    cluster.settle()
    assert not cluster.exists(paths.topic("t"))


def test_a_replica_that_cannot_be_deleted_waits_for_its_broker(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    cluster.refusals[1, T0] = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.delete("t")
    assert cluster.exists(paths.topic("t"))
    del cluster.refusals[1, T0]
    cluster.kill(1)
    cluster.settle()
    cluster.register(1)
    cluster.settle()
    assert not cluster.exists(paths.topic("t"))


def test_a_deletion_is_resumed_by_the_next_controller(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    cluster.deaf.update((0, 1))
    cluster.delete("t")
    cluster.deaf.clear()
    cluster.elect()
    assert not cluster.exists(paths.topic("t"))


def test_partitions_added_to_a_topic_that_is_deleted_are_taken_back(cluster: PureCluster) -> None:
    """Trap 26."""
    cluster.create("t", (0, 1))
    cluster.deaf.add(1)
    cluster.delete("t")
    cluster.grow("t", (0, 1), (1, 0))
    assert dict(cluster.node("t").replicas) == {0: (0, 1)}
    assert cluster.state("t", 1) is None


def test_a_wish_to_delete_what_is_not_there_is_removed(cluster: PureCluster) -> None:
    cluster.delete("nobody")
    assert cluster.children(paths.DELETE_TOPICS) == ()


def test_deletion_can_be_off() -> None:
    cluster = PureCluster(0, settings=Settings(node_id=0, delete_topic_enable=False))
    cluster.elect()
    cluster.create("t", (0,))
    cluster.delete("t")
    assert cluster.exists(paths.topic("t"))
    assert cluster.children(paths.DELETE_TOPICS) == ()


# Brokers


def test_a_broker_dies_and_comes_back(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1, 2))
    cluster.take_sent()
    cluster.kill(0)
    cluster.settle()
    assert cluster.brief("t") == (1, 1, (1, 2)), (
        "one change of the state: the election took it out of the ISR"
    )
    assert [(one.leader, one.leader_epoch) for one in cluster.roles(2, "t")][-1] == (1, 1)
    assert cluster.stops(0, "t") == [], "nobody is there to be stopped"
    cluster.take_sent()
    cluster.register(0)
    cluster.settle()
    first, second, third = (one for one in cluster.sent if isinstance(one, SendUpdateMetadata))
    assert first.request.topic_states == []
    assert [broker for broker, _epoch in first.broker_epochs] == [1, 2]
    assert second.broker_epochs == ((0, cluster.epoch_of(0)),)
    assert [one.topic_name for one in second.request.topic_states] == ["t"]
    assert [broker for broker, _epoch in third.broker_epochs] == [0, 1, 2], "with the role of its replica"
    (role,) = cluster.roles(0, "t")
    assert (role.leader, role.is_new, role.isr) == (1, False, [1, 2])


def test_the_last_in_sync_is_waited_for(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    cluster.kill(1)
    cluster.settle()
    cluster.kill(0)
    cluster.settle()
    assert cluster.brief("t") == (-1, 2, (0,))
    cluster.register(1)
    cluster.settle()
    assert cluster.brief("t") == (-1, 2, (0,)), "it may lack records"
    cluster.register(0)
    cluster.settle()
    assert cluster.brief("t") == (0, 3, (0,))


def test_an_unclean_election_is_the_topics_choice(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    for broker in (1, 0):
        cluster.kill(broker)
        cluster.settle()
    cluster.register(1)
    cluster.settle()
    cluster.configure("t", {"unclean.leader.election.enable": "true"})
    cluster.play(events.UncleanLeaderElectionEnable("t"))
    assert cluster.brief("t") == (1, 3, (1,))
    state = cluster.state("t")
    assert state is not None
    assert state.leader_recovery_state == 1
    assert alter(cluster, (1,), leader=1, leader_epoch=3, partition_epoch=3).error_code == ErrorCode.NONE
    state = cluster.state("t")
    assert state is not None
    assert state.leader_recovery_state == 0


def test_a_bounce_that_nobody_saw_is_played_as_death_and_birth(cluster: PureCluster) -> None:
    """Trap 4."""
    cluster.create("t", (0, 1))
    cluster.take_sent()
    cluster.kill(0)
    cluster.register(0)
    cluster.settle()
    assert cluster.brief("t") == (1, 1, (1,))
    (role,) = cluster.roles(0, "t")
    assert (role.leader, role.leader_epoch) == (1, 1)
    assert cluster.connected[0] == cluster.epoch_of(0)


def test_new_endpoints_are_told(cluster: PureCluster) -> None:
    node = documents.decode_broker(1, (cluster.read(paths.broker(1)) or (None,))[0])
    endpoint = next(iter(node.endpoints.values()))._replace(host="elsewhere")
    moved = documents.BrokerNode({"PLAINTEXT": endpoint}, node.protocols)
    cluster.write(SetData(paths.broker(1), documents.encode_broker(moved)))
    cluster.settle()
    (update,) = (one for one in cluster.sent if isinstance(one, SendUpdateMetadata))
    assert update.request.live_brokers[1].endpoints[0].host == "elsewhere"


def test_a_failed_directory_takes_replicas_offline(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1), (0, 2))
    cluster.refusals[0, T0] = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.write(Create(f"{paths.LOG_DIR_EVENT_PREFIX}0000000001", documents.encode_log_dir_event(0)))
    cluster.settle()
    assert cluster.children(paths.LOG_DIR_EVENTS) == ()
    assert cluster.brief("t", 0) == (1, 1, (1,))
    assert cluster.brief("t", 1) == (0, 0, (0, 2))
    update = [one for one in cluster.sent if isinstance(one, SendUpdateMetadata)][-1]
    offline = [
        one.offline_replicas for topic in update.request.topic_states for one in topic.partition_states
    ]
    assert [0] in offline


def test_isr_changes_of_old_leaders_are_told(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    state = documents.StateNode(0, 0, (0,), 1)
    cluster.write(SetData(paths.state("t", 0), documents.encode_state(state)))
    cluster.take_sent()
    cluster.write(Create(f"{paths.ISR_CHANGE_PREFIX}0000000001", documents.encode_partitions([T0])))
    cluster.settle()
    assert cluster.children(paths.ISR_CHANGES) == ()
    (update,) = (one for one in cluster.sent if isinstance(one, SendUpdateMetadata))
    assert update.request.topic_states[0].partition_states[0].isr == [0]


def test_a_broker_that_did_not_take_its_requests_is_told_everything(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    cluster.take_sent()
    cluster.play(events.BrokerBehind(1, cluster.epoch_of(1)))
    assert [one.leader for one in cluster.roles(1, "t")] == [0]
    cluster.take_sent()
    cluster.play(events.BrokerBehind(1, cluster.epoch_of(1) - 1))
    assert cluster.sent == [], "that life of it is over"


# Controlled shutdown


def test_a_broker_stops_with_notice(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1), (1, 0), (0,))
    cluster.take_sent()
    request = ControlledShutdownRequest(broker_id=0, broker_epoch=cluster.epoch_of(0))
    answer = cluster.ask(events.ControlledShutdown(request))
    assert (answer.error_code, answer.remaining_partitions) == (0, [])
    assert cluster.brief("t", 0) == (1, 1, (1,))
    assert cluster.brief("t", 1) == (1, 1, (1,))
    assert cluster.brief("t", 2) == (0, 0, (0,)), "nobody else has it"
    assert cluster.stops(0, "t", 1) == [(0, False), (0, False)]
    refused = alter(cluster, (0, 1), leader=1, leader_epoch=1, partition_epoch=1)
    assert refused.error_code == ErrorCode.INELIGIBLE_REPLICA, "trap 17"
    older = alter(cluster, (0, 1), leader=1, leader_epoch=1, partition_epoch=1, version=1)
    assert older.error_code == ErrorCode.OPERATION_NOT_ATTEMPTED


def test_partitions_that_nobody_can_take_are_answered(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    cluster.kill(1)
    cluster.settle()
    request = ControlledShutdownRequest(broker_id=0, broker_epoch=cluster.epoch_of(0))
    answer = cluster.ask(events.ControlledShutdown(request))
    assert [(one.topic_name, one.partition_index) for one in answer.remaining_partitions] == [("t", 0)]


def test_a_shutdown_of_a_former_life_is_refused(cluster: PureCluster) -> None:
    for broker, epoch, expected in (
        (0, cluster.epoch_of(0) - 1, ErrorCode.STALE_BROKER_EPOCH),
        (9, 1, ErrorCode.BROKER_NOT_AVAILABLE),
    ):
        request = ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch)
        assert cluster.ask(events.ControlledShutdown(request)).error_code == expected


# AlterPartition


def test_alter_partition_is_judged_as_kafka_does(cluster: PureCluster) -> None:
    """3.4, row by row."""
    cluster.create("t", (0, 1, 2))
    assert alter(cluster, (0, 1), broker_epoch=1).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert alter(cluster, (0, 1), topic_id=uuid.UUID(int=9)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert alter(cluster, (0, 1), index=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    granted = alter(cluster, (0, 1))
    assert (granted.error_code, granted.isr, granted.partition_epoch, granted.leader_epoch) == (
        0,
        [0, 1],
        1,
        0,
    )
    again = alter(cluster, (0, 1))
    assert (again.error_code, again.partition_epoch) == (0, 1), "trap 15: a repeat is a success"
    assert alter(cluster, (0,)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert alter(cluster, (0,), partition_epoch=2).error_code == ErrorCode.NOT_CONTROLLER
    assert alter(cluster, (0,), partition_epoch=1, leader_epoch=1).error_code == ErrorCode.NOT_CONTROLLER
    assert alter(cluster, (0,), partition_epoch=1, recovery=1).error_code == ErrorCode.INVALID_REQUEST
    assert alter(cluster, (0, 9), partition_epoch=1).error_code == ErrorCode.INVALID_REQUEST, "not a replica"
    assert alter(cluster, (1,), partition_epoch=1).error_code == ErrorCode.INVALID_REQUEST, (
        "without its leader"
    )
    assert alter(cluster, (0, 1), leader=1, partition_epoch=1).error_code == ErrorCode.INVALID_REQUEST
    cluster.kill(1)
    cluster.settle()
    assert alter(cluster, (0,), partition_epoch=1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    dead = alter(cluster, (0, 1), leader_epoch=1, partition_epoch=2)
    assert dead.error_code == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.brief("t") == (0, 1, (0,))


def test_every_wish_is_told_to_all(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    for isr, epoch in (((0,), 0), ((0, 1), 7)):
        cluster.take_sent()
        alter(cluster, isr, partition_epoch=epoch)
        (update,) = (one for one in cluster.sent if isinstance(one, SendUpdateMetadata))
        assert update.request.topic_states[0].partition_states[0].isr == [0]


def test_a_state_that_somebody_else_wrote_is_looked_at(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    state = documents.StateNode(0, 0, (0, 1), 1)
    cluster.write(SetData(paths.state("t", 0), documents.encode_state(state)))
    assert alter(cluster, (0,)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert alter(cluster, (0,), partition_epoch=1).error_code == 0


# Producer ids


def test_blocks_of_producer_ids(cluster: PureCluster) -> None:
    def allocate(broker: int, epoch: int | None = None) -> tuple[int, int]:
        request = AllocateProducerIdsRequest(
            broker_id=broker, broker_epoch=cluster.epoch_of(broker) if epoch is None else epoch
        )
        answer = cluster.ask(events.AllocateProducerIds(request))
        return answer.error_code, answer.producer_id_start

    assert [allocate(0), allocate(1), allocate(0)] == [(0, 0), (0, 1000), (0, 2000)]
    cluster.elect()
    assert allocate(2) == (0, 3000)
    assert allocate(2, 1) == (ErrorCode.STALE_BROKER_EPOCH, 0)
    assert allocate(7, 1) == (ErrorCode.BROKER_ID_NOT_REGISTERED, 0)
    cluster.loses_answers = True
    assert allocate(0) == (0, 4000), "trap 39"
    cluster.loses_answers = False
    assert allocate(0) == (0, 5000)


# Preferred leaders


def test_preferred_leaders_by_node(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1), (1, 0))
    cluster.kill(0)
    cluster.settle()
    cluster.register(0)
    cluster.settle()
    alter(cluster, (1, 0), leader=1, leader_epoch=1, partition_epoch=1)
    wish = documents.encode_partitions([T0, TopicPartition("t", 1), TopicPartition("none", 0)])
    cluster.write(Create(paths.PREFERRED_REPLICA_ELECTION, wish))
    cluster.settle()
    assert not cluster.exists(paths.PREFERRED_REPLICA_ELECTION)
    assert cluster.brief("t", 0) == (0, 2, (1, 0))
    cluster.write(Create(paths.PREFERRED_REPLICA_ELECTION, wish))
    cluster.settle()
    assert not cluster.exists(paths.PREFERRED_REPLICA_ELECTION), "it is watched again"


def test_elections_that_a_client_asks_for(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1), (1, 0), (2, 0))
    cluster.kill(0)
    cluster.kill(2)
    cluster.settle()
    cluster.register(2)
    cluster.settle()

    def elect(*, is_unclean: bool) -> dict[int, ErrorCode | None]:
        answer = cluster.ask(events.ReplicaLeaderElection(None, is_unclean))
        return {
            one.partition: None if isinstance(outcome, int) else outcome.code
            for one, outcome in answer.items()
        }

    assert elect(is_unclean=False) == {
        0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        1: ErrorCode.ELECTION_NOT_NEEDED,
        2: ErrorCode.ELECTION_NOT_NEEDED if cluster.brief("t", 2)[0] == 2 else None,
    }
    cluster.kill(1)
    cluster.settle()
    cluster.register(0)
    cluster.settle()
    assert elect(is_unclean=True)[1] is None
    assert cluster.brief("t", 1)[0] == 0
    unknown = cluster.ask(events.ReplicaLeaderElection((TopicPartition("no", 0),), is_unclean=False))
    assert unknown[TopicPartition("no", 0)].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_leaders_are_balanced(cluster: PureCluster) -> None:
    cluster.create("t", *[(0, 1)] * 4)
    cluster.kill(0)
    cluster.settle()
    cluster.register(0)
    cluster.settle()
    for index in (0, 1):
        alter(cluster, (1, 0), leader=1, leader_epoch=1, partition_epoch=1, index=index)
    cluster.play(events.AutoPreferredReplicaLeaderElection())
    assert [cluster.brief("t", index)[0] for index in range(4)] == [0, 0, 1, 1], "those that can"
    before = cluster.tree()
    cluster.play(events.AutoPreferredReplicaLeaderElection())
    assert cluster.tree() == before


# Reassignments


def reassign(cluster: PureCluster, *target: int) -> ErrorCode | None:
    refused = cluster.ask(events.ApiPartitionReassignment({T0: target or None}))[T0]
    return None if refused is None else refused.code


def test_a_partition_moves(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    cluster.take_sent()
    assert reassign(cluster, 1, 2) is None
    node = cluster.node("t")
    assert (node.replicas[0], node.adding[0], node.removing[0]) == ((1, 2, 0), (2,), (0,))
    assert cluster.brief("t") == (0, 1, (0, 1))
    new, again = cluster.roles(2, "t")
    assert new == again, "as a replica that is told, and as a new one"
    assert (new.is_new, new.adding_replicas, new.removing_replicas) == (True, [2], [0])
    (under_way,) = cluster.ask(events.ListPartitionReassignments(None)).values()
    assert under_way == Assignment((1, 2, 0), (2,), (0,))
    assert alter(cluster, (0, 1, 2), leader_epoch=1, partition_epoch=1).error_code == 0
    node = cluster.node("t")
    assert (dict(node.replicas), dict(node.adding), dict(node.removing)) == ({0: (1, 2)}, {}, {})
    assert cluster.brief("t") == (1, 3, (1, 2))
    assert cluster.stops(0, "t") == [(2, False), (3, True)]
    assert cluster.ask(events.ListPartitionReassignments(None)) == {}


def test_a_reassignment_is_cancelled(cluster: PureCluster) -> None:
    """Trap 27: the replica that was added goes again."""
    cluster.create("t", (0, 1))
    assert reassign(cluster) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    reassign(cluster, 0, 2)
    cluster.take_sent()
    assert reassign(cluster) is None
    node = cluster.node("t")
    assert (dict(node.replicas), dict(node.adding)) == ({0: (0, 1)}, {})
    assert [delete for _epoch, delete in cluster.stops(2, "t")] == [False, True]
    assert cluster.brief("t")[0] == 0


def test_a_reassignment_is_resumed_by_the_next_controller(cluster: PureCluster) -> None:
    """Trap 28."""
    cluster.create("t", (0, 1))
    reassign(cluster, 1, 2)
    cluster.elect()
    known = cluster.machine.context.leaderships[T0]
    alter(cluster, (0, 1, 2), leader_epoch=known.leader_epoch, partition_epoch=known.partition_epoch)
    assert dict(cluster.node("t").replicas) == {0: (1, 2)}
    assert cluster.brief("t")[2] == (1, 2)


def test_a_reassignment_by_node(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1), (0, 1))
    wish = documents.encode_reassignments({T0: (1, 2), TopicPartition("no", 0): (1,)})
    cluster.write(Create(paths.REASSIGN_PARTITIONS, wish))
    cluster.settle()
    left = documents.decode_reassignments((cluster.read(paths.REASSIGN_PARTITIONS) or (None,))[0])
    assert left == {T0: (1, 2)}
    alter(cluster, (0, 1, 2), leader_epoch=1, partition_epoch=1)
    assert dict(cluster.node("t").replicas) == {0: (1, 2), 1: (0, 1)}
    assert not cluster.exists(paths.REASSIGN_PARTITIONS)


def test_reassignments_that_cannot_be(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    assert reassign(cluster, 0, 0) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, -1) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, 7) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    no = TopicPartition("no", 0)
    refused = cluster.ask(events.ApiPartitionReassignment({no: (1,)}))[no]
    assert refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.deaf.add(1)
    cluster.delete("t")
    assert reassign(cluster, 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_moves_is_deleted_when_it_has_moved(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    reassign(cluster, 1, 2)
    cluster.delete("t")
    assert cluster.exists(paths.topic("t"))
    alter(cluster, (0, 1, 2), leader_epoch=1, partition_epoch=1)
    assert not cluster.exists(paths.topic("t"))


def test_a_new_replica_that_dies_is_waited_for(cluster: PureCluster) -> None:
    cluster.create("t", (0, 1))
    reassign(cluster, 0, 2)
    cluster.kill(2)
    cluster.settle()
    cluster.register(2)
    cluster.settle()
    known = cluster.machine.context.leaderships[T0]
    alter(cluster, (0, 1, 2), leader_epoch=known.leader_epoch, partition_epoch=known.partition_epoch)
    assert dict(cluster.node("t").replicas) == {0: (0, 2)}


def test_a_controller_that_is_deleted_by_hand_leaves_a_tree_that_another_takes_over(
    cluster: PureCluster,
) -> None:
    cluster.create("t", (0, 1))
    cluster.write(Delete(paths.FEATURE))
    before = cluster.brief("t")
    cluster.elect()
    assert cluster.brief("t") == before
    assert cluster.exists(paths.FEATURE)


def test_stop_replica_is_sent_last(cluster: PureCluster) -> None:
    """Of one round: LeaderAndIsr, UpdateMetadata, StopReplica."""
    cluster.create("t", (0, 1), (1, 0))
    cluster.take_sent()
    request = ControlledShutdownRequest(broker_id=0, broker_epoch=cluster.epoch_of(0))
    cluster.ask(events.ControlledShutdown(request))
    kinds = [type(one) for one in cluster.sent]
    assert kinds[-3:] == [SendLeaderAndIsr, SendUpdateMetadata, SendStopReplica]
