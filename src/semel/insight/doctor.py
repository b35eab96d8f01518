"""Is this cluster well? Questions over the protocol, answers in sentences.

Role.   `examine` asks one thing after the other; `rules` judges each answer. Nothing is changed.
Flow.   `semel doctor` prints what comes back.
Rules.  A check that the broker cannot answer says so and is no problem; a cluster that cannot be reached is not examined.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from semel.insight import rules
from semel.insight.min_insync import min_insync_replicas
from semel.insight.sentences import Sentence, several

if TYPE_CHECKING:
    from semel.broker.metrics.counts import Gap
    from semel.client.calls.describe_producers import ProducerView
    from semel.client.cluster import Cluster, TopicView

Check = Callable[["Cluster"], Awaitable[list[Sentence]]]


async def examine(cluster: "Cluster", metrics: tuple[str, int] | None = None) -> list[Sentence]:
    """Everything there is to say about a cluster that can be reached, and the broker whose metrics are shown there."""
    from semel.errors import (
        DisconnectedError,
        RefusedError,
        UnreachableError,
        UnsupportedVersionError,
        WireError,
    )

    checks: list[Check] = [_brokers, _apis, _leaders, _replicas, _settings, _disks, _clocks, _producers]
    checks.append(partial(_metrics, address=metrics))
    sentences: list[Sentence] = []
    for check in checks:
        try:
            sentences += await check(cluster)
        except UnreachableError:
            raise  # There is nothing to examine.
        except (UnsupportedVersionError, RefusedError, DisconnectedError, WireError) as error:
            sentences.append(Sentence("warning", f"One thing could not be looked at: {error}"))
    return sentences


async def _brokers(cluster: "Cluster") -> list[Sentence]:
    from semel.errors import DisconnectedError

    started = cluster.runtime.clock.monotonic()
    await cluster.metadata([])
    milliseconds = (cluster.runtime.clock.monotonic() - started) * 1000
    text = (
        f"{cluster.where} answers in {milliseconds:.1f} ms: cluster {cluster.cluster_id}, "
        f"{several(len(cluster.nodes), 'broker')}, controller {cluster.controller_id}."
    )
    sentences = [Sentence("ok", text)]
    for node in cluster.nodes.values():
        try:
            await cluster.served(node.node_id)
        except DisconnectedError as error:
            sentences.append(rules.unreachable_broker(node.node_id, node.address, error))
    return sentences


async def _apis(cluster: "Cluster") -> list[Sentence]:
    from semel.core.wire.registry import APIS

    served = await cluster.served()
    return rules.apis({api.name: served[api.key][1] for api in APIS if api.key in served}, len(served))


async def _leaders(cluster: "Cluster") -> list[Sentence]:
    from semel.client.calls.list_topics import list_topics

    return rules.leaders(await list_topics(cluster))


async def _replicas(cluster: "Cluster") -> list[Sentence]:
    from semel.client.calls.list_topics import list_topics

    names = rules.replicated(await list_topics(cluster))
    return rules.replicas(dict.fromkeys(names, "") | await min_insync_replicas(cluster, names))


async def _metrics(cluster: "Cluster", address: tuple[str, int] | None) -> list[Sentence]:
    from semel.insight.metrics_rules import WITHOUT_METRICS, judge, last_gaps
    from semel.insight.scrape import scrape

    if address is None:
        return [Sentence("ok", WITHOUT_METRICS)]
    page = await scrape(cluster.runtime, *address)
    known = {gap: await _known(cluster, gap) for gap in last_gaps(page)}
    return judge(page, known, cluster.runtime.clock.now_ms())


async def _settings(cluster: "Cluster") -> list[Sentence]:
    """A broker describes the settings it acts on."""
    from semel.client.calls.describe_configs import Resource, describe_configs

    idle: dict[int, list[str]] = {}
    for node in cluster.nodes.values():
        described = await describe_configs(cluster, Resource.BROKER, str(node.node_id), documented=True)
        if any(one.documentation for one in described):  # A broker that describes none proves nothing.
            idle[node.node_id] = [
                one.name for one in described if not one.is_default and not one.documentation
            ]
    return rules.settings(idle)


async def _disks(cluster: "Cluster") -> list[Sentence]:
    from semel.client.calls.describe_log_dirs import describe_log_dirs

    sentences = []
    for node in cluster.nodes.values():
        directories = await cluster.patiently(partial(describe_log_dirs, cluster, node.node_id))
        for path, one in directories.items():
            where = f"{path} of broker {node.node_id}"
            if one.error:
                sentences.append(rules.offline_directory(where, one.error.name))
                continue
            sentences.append(
                rules.directory(
                    where,
                    partitions=len(one.replica_infos),
                    stored_bytes=sum(copy.size_bytes for copy in one.replica_infos.values()),
                    usable_bytes=one.usable_bytes,
                    total_bytes=one.total_bytes,
                )
            )
    return sentences


async def _clocks(cluster: "Cluster") -> list[Sentence]:
    from semel.client.calls.list_offsets import MAX_TIMESTAMP, all_found, list_offsets
    from semel.types import TopicPartition

    now_ms = cluster.runtime.clock.now_ms()
    latest_ms: dict[TopicPartition, int] = {}
    for topic in await _led_topics(cluster):
        asked = {TopicPartition(topic.name, one.partition): MAX_TIMESTAMP for one in topic.partitions}
        answers = all_found(await list_offsets(cluster, asked))
        latest_ms |= {where: answer.timestamp for where, answer in answers.items()}
    return rules.clocks(latest_ms, now_ms)


async def _producers(cluster: "Cluster") -> list[Sentence]:
    from semel.client.calls.describe_producers import describe_producers

    now_ms = cluster.runtime.clock.now_ms()
    by_topic = {topic.name: await describe_producers(cluster, topic) for topic in await _led_topics(cluster)}
    sentences = [rules.producers([one for states in by_topic.values() for one in states], now_ms)]
    topics = sorted(
        name
        for name, states in by_topic.items()
        if any(one.transaction_start_offset is not None for one in states)
    )
    if topics:
        sentences += await _transactions(cluster, topics, now_ms)
    return sentences


async def _transactions(cluster: "Cluster", topics: list[str], now_ms: int) -> list[Sentence]:
    """Transactions open for long, by the coordinator's clock. Hanging transactions, found by asking coordinator and partition."""
    from semel.client.admin.open_transactions import open_transactions
    from semel.client.calls.describe_transactions import describe_transactions

    found = await open_transactions(cluster, topics, now_ms=now_ms, older_than_ms=rules.TRANSACTION_OLD_MS)
    names = sorted({one.transactional_id for one in found if one.transactional_id is not None})
    described = await describe_transactions(cluster, names)
    started_ms = {name: view.start_ms for name, view in described.items()}
    return [*rules.hanging(found), *rules.open_for_long(started_ms, now_ms)]


async def _led_topics(cluster: "Cluster") -> "list[TopicView]":
    from semel.client.calls.list_topics import list_topics

    topics = await list_topics(cluster)
    return [
        topic for topic in topics if topic.partitions and all(one.leader >= 0 for one in topic.partitions)
    ]


async def _known(cluster: "Cluster", gap: "Gap") -> "ProducerView | None":
    """The partition's memory of a gap's producer; None if nothing, or if the topic is gone."""
    from semel.client.calls.describe_producers import describe_producers
    from semel.client.calls.list_topics import list_topics

    topics = [one for one in await list_topics(cluster) if one.name == gap.topic]
    if not topics or gap.partition >= len(topics[0].partitions):
        return None
    states = await describe_producers(cluster, topics[0], [gap.partition])
    return next((one for one in states if one.producer_id == gap.producer_id), None)
