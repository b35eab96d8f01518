"""A controller that ends at any point of any event leaves nothing that the next one does not finish.

Method: stories are played once undisturbed. Then each is played again as often as it has batches of operations on ZooKeeper: before
one of them the controller is gone, with none, or with some, of its writes made, and another takes over. And once with every answer
to a write lost. In the end the tree is the same but for counters of changes, and for leaders that an additional election chose.
"""

from collections.abc import Callable, Sequence

import pytest

from semel.core.cluster import documents, paths
from semel.core.cluster.controller import events
from semel.core.cluster.controller.operations import Batch
from semel.core.zookeeper.wire.messages import Create
from semel.types import TopicPartition
from support.cluster.pure_cluster import PureCluster

Story = Sequence[Callable[[PureCluster], None]]
T0 = TopicPartition("t", 0)


def _catch_up(cluster: PureCluster) -> None:
    """Every leader wishes all live replicas into its ISR, as followers that have caught up make it."""
    from core.cluster.controller.test_stories import alter

    for partition, state in list(cluster.machine.context.leaderships.items()):
        wanted = cluster.machine.context.online(
            cluster.machine.context.assignment(partition).replicas, partition
        )
        if state.leader >= 0 and set(wanted) != set(state.isr):
            alter(
                cluster,
                tuple(dict.fromkeys((*state.isr, *wanted))),
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                index=partition.partition,
            )


def _reassign(cluster: PureCluster) -> None:
    cluster.write(Create(paths.REASSIGN_PARTITIONS, documents.encode_reassignments({T0: (1, 2)})))
    cluster.settle()


STORIES: dict[str, Story] = {
    "create and grow": (
        lambda cluster: cluster.create("t", (0, 1), (1, 2)),
        lambda cluster: cluster.grow("t", (0, 1), (1, 2), (2, 0)),
    ),
    "death and return": (
        lambda cluster: cluster.create("t", (0, 1), (1, 0)),
        lambda cluster: cluster.kill(0),
        lambda cluster: cluster.settle(),
        lambda cluster: cluster.register(0),
        lambda cluster: cluster.settle(),
        _catch_up,
    ),
    "delete": (
        lambda cluster: cluster.create("t", (0, 1), (1, 2)),
        lambda cluster: cluster.delete("t"),
    ),
    "move": (
        lambda cluster: cluster.create("t", (0, 1)),
        _reassign,
        _catch_up,
    ),
    "move and delete": (
        lambda cluster: cluster.create("t", (0, 1)),
        _reassign,
        lambda cluster: cluster.delete("t"),
        _catch_up,
    ),
}


class _EndedError(Exception):
    pass


def _play(story: Story, *, end_at: int | None = None, writes: int = 0, loses: bool = False) -> PureCluster:
    """The cluster after a story in which the controller ended before batch `end_at`, with some of its writes made."""
    cluster = PureCluster(0, 1, 2)
    cluster.elect()
    cluster.loses_answers = loses
    first = cluster.batches

    def end(batch: Batch) -> None:
        if end_at is not None and cluster.batches - first == end_at + 1:
            for operation in batch[:writes]:
                cluster._one(operation)
            raise _EndedError

    cluster.before_batch = end
    for step in story:
        try:
            step(cluster)
        except _EndedError:
            cluster.before_batch = lambda _batch: None
            cluster.elect()
    for _round in range(3):
        _catch_up(cluster)
    return cluster


def _shape(cluster: PureCluster) -> dict[str, object]:
    """The tree without what counts changes."""
    found: dict[str, object] = {}
    for path, data in cluster.tree().items():
        if path == paths.CONTROLLER_EPOCH or path.startswith(paths.BROKER_IDS + "/"):
            continue
        if path.endswith("/state"):
            _none, _brokers, _topics, topic, _partitions, index, _state = path.split("/")
            state = documents.decode_state(topic, int(index), data)
            found[path] = sorted(state.isr), state.leader in state.isr
        elif path.startswith(paths.TOPICS + "/") and path.count("/") == 3:
            found[path] = documents.decode_topic(path.rpartition("/")[2], data)
        else:
            found[path] = data
    return found


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("writes", [0, 1, 100])
def test_the_next_controller_finishes_it(name: str, writes: int) -> None:
    story = STORIES[name]
    whole = _play(story)
    expected = _shape(whole)
    assert whole.machine.context.reassigning == {}
    for end_at in range(whole.batches):
        cluster = _play(story, end_at=end_at, writes=writes)
        assert _shape(cluster) == expected, f"ended before batch {end_at}"
        context = cluster.machine.context
        assert (context.reassigning, context.to_delete) == ({}, {}), f"ended before batch {end_at}"


@pytest.mark.parametrize("name", STORIES)
def test_answers_that_are_lost_change_nothing(name: str) -> None:
    """Trap 5."""
    whole = _play(STORIES[name])
    cluster = _play(STORIES[name], loses=True)
    assert _shape(cluster) == _shape(whole)
    for partition, state in whole.machine.context.leaderships.items():
        assert cluster.machine.context.leaderships[partition].leader_epoch == state.leader_epoch


def test_a_balance_after_a_take_over_changes_nothing() -> None:
    """An event of the clock on a cluster at rest writes nothing."""
    cluster = _play(STORIES["death and return"])
    cluster.play(events.AutoPreferredReplicaLeaderElection())
    before = cluster.tree()
    cluster.play(events.AutoPreferredReplicaLeaderElection())
    assert cluster.tree() == before
