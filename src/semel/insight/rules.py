"""The judgements on a cluster's health: every threshold, and every sentence that goes with it.

Role.   `doctor` asks a cluster and hands over what it heard, one question at a time; these functions answer in sentences.
Rules.  * Pure: the time comes in as an argument, nothing is asked and nothing is changed.
        * A value that a broker does not tell is no problem; the sentence says so.
        * There is no clock in the protocol: records from the future show that clocks disagree, or that a producer sets
          times of its own. Records of the past do not show that a producer is idle, for the same reason.
Elsewhere. A broker's metrics page: `metrics_rules`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from semel.insight.sentences import Sentence, several, size_text, some, time_text

if TYPE_CHECKING:
    from semel.client.admin.open_transactions import OpenTransaction
    from semel.client.calls.describe_producers import ProducerView
    from semel.client.cluster import TopicView
    from semel.types import TopicPartition

FREE_SHARE_MIN: Final = 0.05
FREE_BYTES_MIN: Final = 1 << 30
SKEW_MAX_MS: Final = 5_000
OLD_MS: Final = 3_600_000
PRODUCERS_MANY: Final = 100_000
TRANSACTION_OLD_MS: Final = 900_000
REPLICAS_ENOUGH: Final = 3
MIN_INSYNC: Final = "min.insync.replicas"
NEEDED: Final = ("Produce", "Fetch", "ListOffsets", "Metadata", "InitProducerId", "CreateTopics")
_SHOWN: Final = ("Produce", "Fetch", "Metadata")
_MINUTE_MS: Final = 60_000


def unreachable_broker(node_id: int, address: object, error: Exception) -> Sentence:
    """A broker that others know and this machine does not reach."""
    text = (
        f"Broker {node_id} announces itself at {address}, where this machine does not reach it: {error}. "
        "Check advertised.listeners."
    )
    return Sentence("problem", text)


def apis(newest: Mapping[str, int], count: int) -> list[Sentence]:
    """By the newest version of every API we know; `count` are served in all."""
    if missing := [name for name in NEEDED if name not in newest]:
        return [Sentence("problem", f"The broker does not serve {', '.join(missing)}: use a newer one.")]
    shown = ", ".join(f"{name} {newest[name]}" for name in _SHOWN)
    return [Sentence("ok", f"It serves {count} APIs, up to {shown}.")]


def leaders(topics: "Sequence[TopicView]") -> list[Sentence]:
    partitions = [(topic.name, one) for topic in topics for one in topic.partitions]
    leaderless = [f"{name}-{one.partition}" for name, one in partitions if one.leader < 0]
    behind = [f"{name}-{one.partition}" for name, one in partitions if len(one.isr) < len(one.replicas)]
    sentences = []
    if leaderless:
        text = f"{several(len(leaderless), 'partition')} without a leader: {some(leaderless)}."
        sentences.append(Sentence("problem", text))
    if behind:
        text = f"{several(len(behind), 'partition')} with replicas that are not in sync: {some(behind)}."
        sentences.append(Sentence("problem", text))
    if not sentences:
        what = f"{several(len(topics), 'topic')} with {several(len(partitions), 'partition')}"
        sentences.append(Sentence("ok", f"{what}, all of them led and in sync."))
    return sentences


def replicated(topics: "Iterable[TopicView]") -> list[str]:
    """The topics of which min.insync.replicas decides what acks=all means."""
    return [
        topic.name
        for topic in topics
        if any(len(one.replicas) >= REPLICAS_ENOUGH for one in topic.partitions)
    ]


def replicas(min_insync: Mapping[str, str]) -> list[Sentence]:
    """Lost? With min.insync.replicas=1 even acks=all waits for nobody but the leader. Its value by replicated topic."""
    if not min_insync:
        text = (
            f"No topic has {REPLICAS_ENOUGH} replicas: a record is as safe as the brokers and disks it is on."
        )
        return [Sentence("ok", text)]
    alone = [topic for topic, value in min_insync.items() if value == "1"]
    if not alone:
        return [Sentence("ok", f"{MIN_INSYNC} is above 1 wherever there are {REPLICAS_ENOUGH} replicas.")]
    text = (
        f"{MIN_INSYNC}=1 with {REPLICAS_ENOUGH} replicas on {some(alone)}: while the others are away, acks=all waits for the "
        f"leader alone, and what it acknowledged can be lost. Set 2: semel configs set --topic {alone[0]} {MIN_INSYNC}=2."
    )
    return [Sentence("warning", text)]


def settings(idle: Mapping[int, list[str]]) -> list[Sentence]:
    """Settings somebody made that a broker keeps and does not act on, by broker."""
    return [
        Sentence("warning", f"Broker {node_id} keeps settings and does not act on them: {some(names)}.")
        for node_id, names in idle.items()
        if names
    ] or [Sentence("ok", "Every setting that was made is acted on.")]


def offline_directory(where: str, why: str) -> Sentence:
    return Sentence("problem", f"The directory {where} is offline ({why}): see the broker's log.")


def directory(
    where: str, *, partitions: int, stored_bytes: int, usable_bytes: int | None, total_bytes: int | None
) -> Sentence:
    held = f"holds {several(partitions, 'partition')} of {size_text(stored_bytes)}"
    if usable_bytes is None or not total_bytes:
        return Sentence("ok", f"{where} {held}; how much is free it does not tell.")
    share = usable_bytes / total_bytes
    low = share < FREE_SHARE_MIN or usable_bytes < FREE_BYTES_MIN
    text = f"{where} {held}; {size_text(usable_bytes)} ({share:.0%}) are free."
    return Sentence("problem" if low else "ok", text)


def clocks(latest_ms: "Mapping[TopicPartition, int]", now_ms: int) -> list[Sentence]:
    """By the largest timestamp of every partition; -1 where there is no record."""
    ahead = [
        f"{where} by {(timestamp - now_ms) / 1000:.0f} s"
        for where, timestamp in latest_ms.items()
        if timestamp > now_ms + SKEW_MAX_MS
    ]
    if ahead:
        text = (
            f"Records from the future in {some(ahead)}: clocks of this machine and of the producers or brokers "
            "disagree, or a producer sets times of its own. Check NTP."
        )
        return [Sentence("warning", text)]
    if max(latest_ms.values(), default=-1) < 0:
        return [Sentence("ok", "There are no records yet, so nothing tells whether clocks agree.")]
    return [Sentence("ok", "No record is newer than this machine's clock.")]


def producers(states: "Sequence[ProducerView]", now_ms: int) -> Sentence:
    """By what all partitions remember."""
    ids = {one.producer_id for one in states}
    text = (
        f"Partitions remember {several(len(ids), 'producer')} in {several(len(states), 'entry', 'entries')}"
    )
    stamped = [one.last_timestamp_ms for one in states if one.last_timestamp_ms is not None]
    if old := [when for when in stamped if now_ms - when > OLD_MS]:
        text += (
            f"; the last records of {len(old)} have timestamps over an hour old, the oldest of {time_text(min(old))}: idle, "
            "or with times of their own (producer.id.expiration.ms forgets them)"
        )
    return Sentence("warning" if len(states) > PRODUCERS_MANY else "ok", text + ".")


def hanging(found: "Iterable[OpenTransaction]") -> list[Sentence]:
    """The transactions that no coordinator will end."""
    names = [
        f"producer {one.producer_id} from offset {one.start_offset} of {one.topic}-{one.partition}"
        for one in found
        if one.is_hanging
    ]
    if not names:
        return []
    text = (
        f"{several(len(names), 'transaction')} that no coordinator will end: {some(names)}. "
        "See 'semel txn find-hanging', end with 'semel txn abort'."
    )
    return [Sentence("problem", text)]


def open_for_long(started_ms: Mapping[str, int | None], now_ms: int) -> list[Sentence]:
    """By when a coordinator saw each transactional id begin; None if nothing of it is open."""
    old = [
        f"{name} for {(now_ms - start_ms) / _MINUTE_MS:.0f} min"
        for name, start_ms in started_ms.items()
        if start_ms is not None and now_ms - start_ms > TRANSACTION_OLD_MS
    ]
    if not old:
        return []
    return [Sentence("problem", f"{several(len(old), 'transaction')} open for over 15 minutes: {some(old)}.")]
