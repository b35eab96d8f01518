"""`semel doctor`: is this cluster well? Questions over the protocol, answers in sentences.

Role.   Each check asks one thing and gives sentences, good or bad. Nothing is changed.
Rules.  * A check that the broker cannot answer says so and is no problem.
        * Exit code 1 if anything is wrong; a warning is no failure.
        * There is no clock in the protocol: records from the future show that clocks disagree, or that a producer sets
          times of its own. Records of the past do not show that a producer is idle, for the same reason.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from semel.cli.options import connected, connection_options, output_option
from semel.cli.output import print_json, size_text, time_text
from semel.cli.sentences import Sentence, several, some

if TYPE_CHECKING:
    from semel.client.cluster import Cluster, TopicView

_MARKS: Final = {"ok": "  ok  ", "warning": " warn ", "problem": "WRONG "}
_FREE_SHARE_MIN: Final = 0.05
_FREE_BYTES_MIN: Final = 1 << 30
_SKEW_MAX_MS: Final = 5_000
_OLD_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_PRODUCERS_MANY: Final = 100_000
_TRANSACTION_OLD_MS: Final = 900_000
_REPLICAS_ENOUGH: Final = 3
_MIN_INSYNC: Final = "min.insync.replicas"
_NEEDED: Final = ("Produce", "Fetch", "ListOffsets", "Metadata", "InitProducerId", "CreateTopics")


Check = Callable[["Cluster"], Awaitable[list[Sentence]]]


@click.command(name="doctor", epilog="Example: semel doctor -b localhost:9092")
@connection_options
@output_option
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="A Semel broker's metrics (semel broker --metrics): for sequence gaps, batch sizes and acks.",
)
def command(bootstrap: str, settings: dict[str, str], output: str, metrics: str | None) -> None:
    """Check a cluster: reachable, versions, leaders, replicas, disks, clocks, producers.

    With --metrics also what the protocol does not tell: whose sequences have gaps, whether batches are too small,
    and who does not wait for acks=all.
    """
    address = None if metrics is None else _address(metrics)
    with connected(bootstrap, settings) as client:
        sentences = client.run(examine, address)
    if output == "json":
        print_json([{"level": one.level, "text": one.text} for one in sentences])
    else:
        for one in sentences:
            click.echo(f"{_MARKS[one.level]} {one.text}")
    if any(one.level == "problem" for one in sentences):
        raise click.exceptions.Exit(1)


def _address(metrics: str) -> tuple[str, int]:
    from semel.broker.metrics_listener import address_of
    from semel.errors import ConfigError

    try:
        return address_of(metrics)
    except ConfigError as error:
        raise click.BadParameter(f"{error}.", param_hint="--metrics") from error


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
    sentences = [
        Sentence(
            "ok",
            f"{cluster.where} answers in {milliseconds:.1f} ms: cluster {cluster.cluster_id}, "
            f"{several(len(cluster.nodes), 'broker')}, controller {cluster.controller_id}.",
        )
    ]
    for node in cluster.nodes.values():
        try:
            await cluster.served(node.node_id)
        except DisconnectedError as error:
            sentences.append(
                Sentence(
                    "problem",
                    f"Broker {node.node_id} announces itself at {node.address}, where this machine does not reach it: "
                    f"{error}. Check advertised.listeners.",
                )
            )
    return sentences


async def _apis(cluster: "Cluster") -> list[Sentence]:
    from semel.core.wire.registry import APIS

    served = await cluster.served()
    newest = {api.name: served[api.key][1] for api in APIS if api.key in served}
    missing = [name for name in _NEEDED if name not in newest]
    if missing:
        return [Sentence("problem", f"The broker does not serve {', '.join(missing)}: use a newer one.")]
    shown = ", ".join(f"{name} {newest[name]}" for name in ("Produce", "Fetch", "Metadata"))
    return [Sentence("ok", f"It serves {len(served)} APIs, up to {shown}.")]


async def _leaders(cluster: "Cluster") -> list[Sentence]:
    from semel.client import admin

    topics = await admin.list_topics(cluster)
    partitions = [(topic.name, one) for topic in topics for one in topic.partitions]
    leaderless = [f"{name}-{one.partition}" for name, one in partitions if one.leader < 0]
    behind = [f"{name}-{one.partition}" for name, one in partitions if len(one.isr) < len(one.replicas)]
    sentences = []
    if leaderless:
        sentences.append(
            Sentence(
                "problem", f"{several(len(leaderless), 'partition')} without a leader: {some(leaderless)}."
            )
        )
    if behind:
        text = f"{several(len(behind), 'partition')} with replicas that are not in sync: {some(behind)}."
        sentences.append(Sentence("problem", text))
    if not sentences:
        what = f"{several(len(topics), 'topic')} with {several(len(partitions), 'partition')}"
        sentences.append(Sentence("ok", f"{what}, all of them led and in sync."))
    return sentences


async def _replicas(cluster: "Cluster") -> list[Sentence]:
    """Lost? With min.insync.replicas=1 even acks=all waits for nobody but the leader."""
    from semel.client import admin
    from semel.core.wire.messages.describe_configs import DescribeConfigsResource

    wide = [
        topic.name
        for topic in await admin.list_topics(cluster)
        if any(len(one.replicas) >= _REPLICAS_ENOUGH for one in topic.partitions)
    ]
    if not wide:
        text = f"No topic has {_REPLICAS_ENOUGH} replicas: a record is as safe as the brokers and disks it is on."
        return [Sentence("ok", text)]
    asked = [
        DescribeConfigsResource(
            resource_type=admin.Resource.TOPIC, resource_name=name, configuration_keys=[_MIN_INSYNC]
        )
        for name in wide
    ]
    alone = [
        result.resource_name
        for result in await admin.described_configs(cluster, asked, node_id=None)
        if not result.error_code
        and any(one.name == _MIN_INSYNC and one.value == "1" for one in result.configs)
    ]
    if not alone:
        return [Sentence("ok", f"{_MIN_INSYNC} is above 1 wherever there are {_REPLICAS_ENOUGH} replicas.")]
    text = (
        f"{_MIN_INSYNC}=1 with {_REPLICAS_ENOUGH} replicas on {some(alone)}: while the others are away, acks=all waits for the "
        f"leader alone, and what it acknowledged can be lost. Set 2: semel configs set --topic {alone[0]} {_MIN_INSYNC}=2."
    )
    return [Sentence("warning", text)]


async def _metrics(cluster: "Cluster", address: tuple[str, int] | None) -> list[Sentence]:
    from semel.cli.doctor_metrics import WITHOUT_METRICS, examine_metrics
    from semel.cli.scrape import scrape

    if address is None:
        return [Sentence("ok", WITHOUT_METRICS)]
    return await examine_metrics(cluster, await scrape(cluster.runtime, *address))


async def _settings(cluster: "Cluster") -> list[Sentence]:
    """Settings somebody made that the broker keeps and does not act on: it describes those it acts on."""
    from semel.client import admin

    sentences = []
    for node in cluster.nodes.values():
        described = await admin.describe_configs(
            cluster, admin.Resource.BROKER, str(node.node_id), documented=True
        )
        if not any(one.documentation for one in described):
            continue  # A broker that describes none of its settings says nothing by it.
        idle = [one.name for one in described if not one.is_default and not one.documentation]
        if idle:
            text = f"Broker {node.node_id} keeps settings and does not act on them: {some(idle)}."
            sentences.append(Sentence("warning", text))
    return sentences or [Sentence("ok", "Every setting that was made is acted on.")]


async def _disks(cluster: "Cluster") -> list[Sentence]:
    from semel.client import admin

    sentences = []
    for node in cluster.nodes.values():
        for one in await admin.describe_log_dirs(cluster, node):
            where = f"{one.path} of broker {node.node_id}"
            if one.error:
                text = f"The directory {where} is offline ({one.error.name}): see the broker's log."
                sentences.append(Sentence("problem", text))
                continue
            held = f"holds {several(one.partitions, 'partition')} of {size_text(one.stored_bytes)}"
            if one.usable_bytes is None or not one.total_bytes:
                sentences.append(Sentence("ok", f"{where} {held}; how much is free it does not tell."))
                continue
            share = one.usable_bytes / one.total_bytes
            low = share < _FREE_SHARE_MIN or one.usable_bytes < _FREE_BYTES_MIN
            text = f"{where} {held}; {size_text(one.usable_bytes)} ({share:.0%}) are free."
            sentences.append(Sentence("problem" if low else "ok", text))
    return sentences


async def _clocks(cluster: "Cluster") -> list[Sentence]:
    from semel.client.list_offsets import MAX_TIMESTAMP, list_offsets

    now_ms = cluster.runtime.clock.now_ms()
    ahead: list[str] = []
    latest_ms = -1
    for topic in await _led_topics(cluster):
        answers = await list_offsets(
            cluster, topic, [one.partition for one in topic.partitions], MAX_TIMESTAMP
        )
        for index, answer in answers.items():
            latest_ms = max(latest_ms, answer.timestamp)
            if answer.timestamp > now_ms + _SKEW_MAX_MS:
                ahead.append(f"{topic.name}-{index} by {(answer.timestamp - now_ms) / 1000:.0f} s")
    if ahead:
        text = (
            f"Records from the future in {some(ahead)}: clocks of this machine and of the producers or brokers "
            "disagree, or a producer sets times of its own. Check NTP."
        )
        return [Sentence("warning", text)]
    if latest_ms < 0:
        return [Sentence("ok", "There are no records yet, so nothing tells whether clocks agree.")]
    return [Sentence("ok", "No record is newer than this machine's clock.")]


async def _producers(cluster: "Cluster") -> list[Sentence]:
    from semel.client import admin

    now_ms = cluster.runtime.clock.now_ms()
    states = [
        (topic.name, one)
        for topic in await _led_topics(cluster)
        for one in await admin.describe_producers(cluster, topic)
    ]
    ids = {one.producer_id for _topic, one in states}
    text = (
        f"Partitions remember {several(len(ids), 'producer')} in {several(len(states), 'entry', 'entries')}"
    )
    stamped = [one.last_timestamp_ms for _topic, one in states if one.last_timestamp_ms is not None]
    if old := [when for when in stamped if now_ms - when > _OLD_MS]:
        text += (
            f"; the last records of {len(old)} have timestamps over an hour old, the oldest of {time_text(min(old))}: idle, "
            "or with times of their own (producer.id.expiration.ms forgets them)"
        )
    sentences = [Sentence("warning" if len(states) > _PRODUCERS_MANY else "ok", text + ".")]
    if topics := sorted({topic for topic, one in states if one.transaction_start_offset is not None}):
        sentences += await _transactions(cluster, topics, now_ms)
    return sentences


async def _transactions(cluster: "Cluster", topics: list[str], now_ms: int) -> list[Sentence]:
    """What is open for long: by the coordinator's clock. What hangs: by asking coordinator and partition."""
    from semel.client import admin_transactions

    found = await admin_transactions.open_transactions(
        cluster, topics, now_ms=now_ms, older_than_ms=_TRANSACTION_OLD_MS
    )
    sentences = []
    if hanging := [
        f"producer {one.producer_id} from offset {one.start_offset} of {one.topic}-{one.partition}"
        for one in found
        if one.is_hanging
    ]:
        text = (
            f"{several(len(hanging), 'transaction')} that no coordinator will end: {some(hanging)}. "
            "See 'semel txn find-hanging', end with 'semel txn abort'."
        )
        sentences.append(Sentence("problem", text))
    old = []
    for name in sorted({one.transactional_id for one in found if one.transactional_id is not None}):
        view = await admin_transactions.describe_transaction(cluster, name)
        if view.start_ms is not None and now_ms - view.start_ms > _TRANSACTION_OLD_MS:
            old.append(f"{name} for {(now_ms - view.start_ms) / _MINUTE_MS:.0f} min")
    if old:
        text = f"{several(len(old), 'transaction')} open for over 15 minutes: {some(old)}."
        sentences.append(Sentence("problem", text))
    return sentences


async def _led_topics(cluster: "Cluster") -> "list[TopicView]":
    from semel.client import admin

    topics = await admin.list_topics(cluster)
    return [
        topic for topic in topics if topic.partitions and all(one.leader >= 0 for one in topic.partitions)
    ]
