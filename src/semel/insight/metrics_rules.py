"""Findings from a broker's metrics page, which the protocol does not give: judged on the page and on partitions' memory.

Role.   Three checks of a scraped page: sequences out of order and whose they are, batches that are too small, and producers that
        do not wait for acks=all.
Flow.   `doctor` scrapes a page, asks partitions about the producers in its gaps, and calls `judge`.
Rules.  * Pure, as `rules` is.
        * A page that is not a Semel broker's is told apart: what it cannot say is said.
        * Duplicates that were dropped are mentioned and are no problem: they are what idempotence is for.
        * Numbers are since the broker's start; so is the advice.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from semel.broker.metrics.counts import Gap
from semel.insight.sentences import Sentence, several, size_text, some

if TYPE_CHECKING:
    from semel.client.calls.describe_producers import ProducerView
    from semel.insight.scrape import Scraped

WITHOUT_METRICS: Final = (
    "Who left a gap in its sequences, how small batches are and which acks producers use is not in the protocol: 'semel "
    "doctor --metrics HOST:PORT' asks a Semel broker that shows its metrics. Apache Kafka names no producer even there: see its log for "
    "OUT_OF_ORDER_SEQUENCE_NUMBER."
)
_RECENT_MS: Final = 3_600_000
_BATCHES_MANY: Final = 1_000
_BATCH_SMALL_RECORDS: Final = 10.0
_BATCH_SMALL_BYTES: Final = 4_096.0


def judge(page: "Scraped", known: "Mapping[Gap, ProducerView | None]", now_ms: int) -> list[Sentence]:
    """Everything the page has to say. `known` is what partitions remember of the producers of `last_gaps`."""
    if not page.is_of_semel:
        text = (
            f"{page.where} is not a Semel broker's: whose sequences have gaps, how small batches are and which acks producers "
            "use it does not tell."
        )
        return [Sentence("warning", text)]
    return [*_sequences(page, known, now_ms), *_batches(page), *_acks(page)]


def last_gaps(page: "Scraped") -> list[Gap]:
    """The last gap of every producer in a partition."""
    return list({(gap.topic, gap.partition, gap.producer_id): gap for gap in page.gaps}.values())


def _sequences(page: "Scraped", known: "Mapping[Gap, ProducerView | None]", now_ms: int) -> list[Sentence]:
    dropped = int(page.value("semel_sequence_duplicates_total"))
    refused = int(page.value("semel_sequence_out_of_order_total"))
    harmless = (
        f"{several(dropped, 'duplicate')} dropped, which is harmless" if dropped else "no duplicate came"
    )
    if not refused:
        return [Sentence("ok", f"No batch was out of order since the broker started; {harmless}.")]
    sentences = [
        Sentence(
            "problem" if now_ms - gap.time_ms < _RECENT_MS else "warning",
            f"{_what_came(gap, now_ms)} {_what_became(gap, known[gap])}",
        )
        for gap in last_gaps(page)
    ]
    batches = "1 batch was" if refused == 1 else f"{refused} batches were"
    text = f"{batches} out of order since the broker started; {harmless}."
    if not sentences:
        text += " Whose they were is forgotten: it remembers the last few, and not those of deleted topics."
    return [*sentences, Sentence("warning", text)]


def _what_came(gap: Gap, now_ms: int) -> str:
    missing = gap.received_sequence - gap.expected_sequence
    why = (
        f"{several(missing, 'record')} before it never came"
        if missing > 0
        else "that one has come already, too long ago to be told from another"
    )
    return (
        f"Producer {gap.producer_id} (epoch {gap.producer_epoch}) sent sequence {gap.received_sequence} to "
        f"{gap.topic}-{gap.partition}, where {gap.expected_sequence} was expected, {_ago(now_ms - gap.time_ms)} ago: {why}."
    )


def _ago(milliseconds: int) -> str:
    seconds = max(0, milliseconds // 1000)
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _what_became(gap: Gap, known: "ProducerView | None") -> str:
    """Was the producer restarted?"""
    if known is None:
        return "Nothing is remembered of it here: its records were deleted or it was idle for too long."
    if known.producer_epoch > gap.producer_epoch:
        return f"It has begun anew since (epoch {known.producer_epoch})."
    if (
        known.last_sequence is not None
        and known.last_sequence >= gap.received_sequence >= gap.expected_sequence
    ):
        return "It has sent what was missing since and goes on."
    return (
        "It has not gone on since. Was it restarted? Then it has another id: what was not acknowledged to it must be sent again "
        "by the new one."
    )


def _batches(page: "Scraped") -> list[Sentence]:
    """Slow? Batches that hold next to nothing cost a broker as much as full ones."""
    stored = page.by_topic("semel_batches_stored_total")
    records = page.by_topic("kafka_server_brokertopicmetrics_messagesinpersec")
    sizes = page.by_topic("kafka_server_brokertopicmetrics_bytesinpersec")
    sentences: list[Sentence] = []
    for topic, batches in stored.items():
        if batches < _BATCHES_MANY or topic.startswith("__"):
            continue
        mean_records, mean_bytes = records.get(topic, 0) / batches, sizes.get(topic, 0) / batches
        if mean_records < _BATCH_SMALL_RECORDS and mean_bytes < _BATCH_SMALL_BYTES:
            text = (
                f"{topic}: {batches} batches hold {mean_records:.1f} records and {size_text(int(mean_bytes))} each. If its "
                "producers are too slow, let them send fewer and larger ones: linger.ms=10, batch.size=32768, "
                'compression.type=lz4, or profile("throughput").'
            )
            sentences.append(Sentence("warning", text))
    return sentences or [Sentence("ok", "No topic is written in many tiny batches.")]


def _acks(page: "Scraped") -> list[Sentence]:
    """Lost? With acks other than all, a producer may be told of a record that is gone with the leader."""
    came = page.by_topic("kafka_server_brokertopicmetrics_totalproducerequestspersec")
    weak = {
        topic: count
        for topic, count in page.by_topic("semel_batches_without_acks_all_total").items()
        if count
    }
    if not weak:
        return [Sentence("ok", "Every producer waits for acks=all.")]
    shown = some([f"{topic} ({count} of {came.get(topic, count)} batches)" for topic, count in weak.items()])
    text = (
        f"Producers do not wait for acks=all on {shown}: what is acknowledged to them can be lost with its leader. Set acks=all, "
        "which is the default, unless that is what you want."
    )
    return [Sentence("warning", text)]
