"""Every threshold of the doctor's, from either side, and every way a check can end.

Method: plain values as a cluster would tell them, and the sentences they lead to.
"""

import uuid

import pytest

from semel.client.admin.open_transactions import OpenTransaction
from semel.client.calls.describe_producers import ProducerView
from semel.client.cluster import PartitionView, TopicView
from semel.insight import rules
from semel.insight.sentences import Level, Sentence, several, size_text, some, time_text
from semel.types import TopicPartition

NOW_MS = 1_700_000_000_000
GIB = 1 << 30


def topic(name: str, *partitions: tuple[int, int, int]) -> TopicView:
    """Each partition by its leader, and how many replicas it has and how many are in sync."""
    views = [
        PartitionView(number, leader, 0, tuple(range(replicas)), tuple(range(in_sync)), ())
        for number, (leader, replicas, in_sync) in enumerate(partitions)
    ]
    return TopicView(name, uuid.UUID(int=1), False, tuple(views))


def producer(producer_id: int, last_ms: int | None = NOW_MS) -> ProducerView:
    return ProducerView(0, producer_id, 0, 1, last_ms, None, None)


def transaction(start_offset: int, *, is_hanging: bool) -> OpenTransaction:
    return OpenTransaction("t", 0, start_offset, 7, 0, 0, NOW_MS, None, is_hanging)


@pytest.mark.parametrize("missing", rules.NEEDED)
def test_an_api_that_is_needed_and_missing_is_a_problem(missing: str) -> None:
    newest = dict.fromkeys(rules.NEEDED, 9)
    assert rules.apis(newest, 60) == [
        Sentence("ok", "It serves 60 APIs, up to Produce 9, Fetch 9, Metadata 9.")
    ]
    del newest[missing]
    assert rules.apis(newest, 60) == [
        Sentence("problem", f"The broker does not serve {missing}: use a newer one.")
    ]


def test_partitions_need_a_leader_and_all_replicas_in_sync() -> None:
    sound = topic("sound", (0, 3, 3), (1, 1, 1))
    assert rules.leaders([sound]) == [
        Sentence("ok", "1 topic with 2 partitions, all of them led and in sync.")
    ]
    assert rules.leaders([sound, topic("sick", (-1, 2, 2), (0, 2, 1))]) == [
        Sentence("problem", "1 partition without a leader: sick-0."),
        Sentence("problem", "1 partition with replicas that are not in sync: sick-1."),
    ]


def test_min_insync_replicas_matters_from_three_replicas_on() -> None:
    assert rules.replicated([topic("two", (0, 2, 2)), topic("three", (0, 1, 1), (0, 3, 3))]) == ["three"]
    assert [one.level for one in rules.replicas({})] == ["ok"]
    assert [one.level for one in rules.replicas({"a": "2", "b": ""})] == ["ok"]
    [said] = rules.replicas({"a": "2", "b": "1"})
    assert said.level == "warning"
    assert said.text.endswith("Set 2: semel configs set --topic b min.insync.replicas=2.")


def test_settings_without_effect_are_named_by_broker() -> None:
    assert rules.settings({0: [], 1: []}) == [Sentence("ok", "Every setting that was made is acted on.")]
    assert rules.settings({0: [], 1: ["a", "b"]}) == [
        Sentence("warning", "Broker 1 keeps settings and does not act on them: a, b.")
    ]


@pytest.mark.parametrize(
    ("usable_bytes", "total_bytes", "level"),
    [
        (50 * GIB, 1000 * GIB, "ok"),
        (50 * GIB - 1, 1000 * GIB, "problem"),  # Under a twentieth.
        (GIB, 4 * GIB, "ok"),
        (GIB - 1, 4 * GIB, "problem"),  # Under a gibibyte.
        (None, 4 * GIB, "ok"),
        (0, 0, "ok"),  # It does not tell.
        (0, None, "ok"),
        (0, 4 * GIB, "problem"),
    ],
)
def test_a_disk_is_low_by_share_or_by_bytes(
    usable_bytes: int | None, total_bytes: int | None, level: Level
) -> None:
    said = rules.directory(
        "/d", partitions=1, stored_bytes=1024, usable_bytes=usable_bytes, total_bytes=total_bytes
    )
    assert said.level == level
    assert said.text.startswith("/d holds 1 partition of 1.0 KiB; ")


@pytest.mark.parametrize(
    ("latest_ms", "level", "text"),
    [
        ([], "ok", "There are no records yet"),
        ([-1, -1], "ok", "There are no records yet"),
        ([-1, 0], "ok", "No record is newer"),
        ([NOW_MS + rules.SKEW_MAX_MS], "ok", "No record is newer"),
        ([NOW_MS, NOW_MS + rules.SKEW_MAX_MS + 1], "warning", "Records from the future in t-1 by 5 s:"),
    ],
)
def test_a_record_from_the_future_says_that_clocks_disagree(
    latest_ms: list[int], level: Level, text: str
) -> None:
    by_partition = {TopicPartition("t", number): one for number, one in enumerate(latest_ms)}
    [said] = rules.clocks(by_partition, NOW_MS)
    assert said.level == level
    assert said.text.startswith(text)


def test_producers_are_counted_once_and_entries_one_by_one() -> None:
    said = rules.producers([producer(1), producer(1), producer(2, None)], NOW_MS)
    assert said == Sentence("ok", "Partitions remember 2 producers in 3 entries.")


def test_old_timestamps_are_mentioned_and_many_producers_are_a_warning() -> None:
    edge, old = producer(1, NOW_MS - rules.OLD_MS), producer(2, NOW_MS - rules.OLD_MS - 1)
    assert "over an hour old" not in rules.producers([edge], NOW_MS).text
    assert (
        f"the last records of 1 have timestamps over an hour old, the oldest of {time_text(old.last_timestamp_ms)}"
        in (rules.producers([edge, old], NOW_MS).text)
    )
    many = [edge] * rules.PRODUCERS_MANY
    assert [rules.producers([*many, *more], NOW_MS).level for more in ([], [edge])] == ["ok", "warning"]


def test_what_hangs_is_named_with_the_way_out() -> None:
    assert rules.hanging([]) == rules.hanging([transaction(3, is_hanging=False)]) == []
    [said] = rules.hanging([transaction(3, is_hanging=False), transaction(5, is_hanging=True)])
    assert said == Sentence(
        "problem",
        "1 transaction that no coordinator will end: producer 7 from offset 5 of t-0. "
        "See 'semel txn find-hanging', end with 'semel txn abort'.",
    )


def test_a_transaction_is_old_after_a_quarter_of_an_hour() -> None:
    edge_ms = NOW_MS - rules.TRANSACTION_OLD_MS
    assert rules.open_for_long({"closed": None, "edge": edge_ms}, NOW_MS) == []
    assert rules.open_for_long({"old": edge_ms - 1, "closed": None}, NOW_MS) == [
        Sentence("problem", "1 transaction open for over 15 minutes: old for 15 min.")
    ]


def test_words() -> None:
    assert [several(count, "entry", "entries") for count in (0, 1, 2)] == [
        "0 entries",
        "1 entry",
        "2 entries",
    ]
    assert some(list("abcde")) == "a, b, c, d, e"
    assert some(list("abcdefg")) == "a, b, c, d, e and 2 more"
    assert [size_text(size) for size in (0, 1023, 1024, 1536, 5 << 40, 5 << 50)] == [
        "0 bytes",
        "1023 bytes",
        "1.0 KiB",
        "1.5 KiB",
        "5.0 TiB",
        "5120.0 TiB",
    ]
    assert [time_text(when) for when in (None, -1, 0, 1 << 60)] == [
        None,
        None,
        "1970-01-01T00:00:00.000Z",
        f"@{1 << 60}",
    ]
