"""A table on this machine equals the topic it follows, after every way of losing it.

Method: a broker in this process, transactions that commit and abort, tombstones, many partitions; the reference is a dictionary
(`table_model`), fed with what a plain consumer reads.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel import Admin, Broker, ConsumerRecord, NewTopic, Producer
from semel.spark.pipelines.errors import TableError
from semel.spark.pipelines.local_fold import LocalFold
from semel.spark.pipelines.local_table import LocalTable
from support.spark.spark_kit import new_topic, read_all, unique
from support.spark.table_model import to_table


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with Broker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker.bootstrap


def changes_of(server: str, topic: str) -> list[tuple[bytes, bytes | None]]:
    rows = read_all(server, topic).to_pydict()
    return list(zip(rows["key"], rows["value"], strict=True))


def write(server: str, topic: str, changes: list[tuple[bytes, bytes | None]]) -> None:
    with Producer(bootstrap_servers=server) as producer:
        for key, value in changes:
            producer.send(topic, value, key=key)


def count(old: bytes | None, record: ConsumerRecord) -> bytes | None:
    """How often a key came; a null value forgets it."""
    return None if record.value is None else b"%d" % (int(old or 0) + 1)


@pytest.mark.mission("STR-06", "STR-10")
def test_a_table_follows_its_topic_and_is_rebuilt_when_its_file_is_lost(server: str, tmp_path: Path) -> None:
    topic = new_topic(server, "prices", partitions=3)
    dice = random.Random(7)
    history = [
        (b"key-%d" % dice.randrange(40), None if dice.random() < 0.2 else b"%d" % n) for n in range(600)
    ]
    write(server, topic, history[:300])
    with LocalTable(tmp_path / "prices.db", topic=topic, bootstrap=server) as table:
        assert table.catch_up() == 300
        assert dict(table) == to_table(history[:300])
        with Producer(bootstrap_servers=server, transactional_id=unique("t")) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"never", key=b"aborted")
            producer.abort_transaction()
        assert table.catch_up() == 0
        assert b"aborted" not in table

    write(server, topic, history[300:])
    with LocalTable(tmp_path / "prices.db", topic=topic, bootstrap=server) as table:
        assert table.catch_up() == 300, "only what is new is read"
        kept = dict(table)
    assert kept == to_table(history) == to_table(changes_of(server, topic))

    (tmp_path / "prices.db").unlink()
    with LocalTable(tmp_path / "prices.db", topic=topic, bootstrap=server) as table:
        assert table.catch_up() == 600
        assert dict(table) == kept
        assert len(table) == len(kept)
        assert list(table.range(b"key-1", b"key-2")) == sorted(
            (key, value) for key, value in kept.items() if b"key-1" <= key < b"key-2"
        )
        assert table.rebuild() == 600
        assert dict(table) == kept


@pytest.mark.mission("STR-05")
def test_table_to_changelog_topic_to_table_is_the_identity(server: str, tmp_path: Path) -> None:
    dice = random.Random(11)
    original = {dice.randbytes(dice.randrange(1, 20)): dice.randbytes(dice.randrange(50)) for _ in range(500)}
    topic = new_topic(server, "identity", partitions=3, cleanup_policy="compact")
    write(server, topic, list(original.items()))
    with LocalTable(tmp_path / "copy.db", topic=topic, bootstrap=server) as copy:
        copy.catch_up()
        assert dict(copy) == original


def test_what_does_not_belong_together_is_refused(server: str, tmp_path: Path) -> None:
    topic = new_topic(server, "anew", partitions=1)
    write(server, topic, [(b"a", b"1"), (b"b", b"2")])
    path = tmp_path / "anew.db"
    with LocalTable(path, topic=topic, bootstrap=server) as table:
        table.catch_up()
    other = new_topic(server, "other")
    with pytest.raises(TableError, match="another topic or was made anew"):
        LocalTable(path, topic=other, bootstrap=server)
    with Admin(bootstrap_servers=server) as admin:
        admin.delete_topics([topic])
        admin.create_topics([NewTopic(topic, num_partitions=1)])
    with pytest.raises(TableError, match="another topic or was made anew"):
        LocalTable(path, topic=topic, bootstrap=server)

    with Producer(bootstrap_servers=server) as producer:
        producer.send(topic, "no key")
    path.unlink()
    with (
        LocalTable(path, topic=topic, bootstrap=server) as table,
        pytest.raises(TableError, match=r"offset 0 .* has no key"),
    ):
        table.catch_up()


def test_records_that_were_deleted_before_they_were_read_are_noticed(server: str, tmp_path: Path) -> None:
    topic = new_topic(server, "deleted", partitions=1)
    write(server, topic, [(b"a", b"1")])
    with LocalTable(tmp_path / "deleted.db", topic=topic, bootstrap=server) as table:
        table.catch_up()
    write(server, topic, [(b"b", b"2"), (b"c", b"3")])
    with Admin(bootstrap_servers=server) as admin:
        admin.delete_records({(topic, 0): 2})
    with pytest.raises(TableError, match=r"has read .* up to 1, it begins at 2"):
        LocalTable(tmp_path / "deleted.db", topic=topic, bootstrap=server)


@pytest.mark.mission("STR-06", "STR-07", "STR-10")
def test_a_computed_table_writes_a_changelog_and_survives_the_loss_of_its_file(
    server: str, tmp_path: Path
) -> None:
    words = new_topic(server, "words", partitions=3)
    counts = unique("counts")
    dice = random.Random(3)
    written = [(b"word-%d" % dice.randrange(20), None if dice.random() < 0.1 else b".") for _ in range(400)]

    def model(changes: list[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
        found: dict[bytes, int] = {}
        for key, value in changes:
            if value is None:
                found.pop(key, None)
            else:
                found[key] = found.get(key, 0) + 1
        return {key: b"%d" % number for key, number in found.items()}

    def fold(path: Path) -> LocalFold:
        return LocalFold(
            path, name=counts, source=words, changelog=counts, update=count, bootstrap=server, records_max=50
        )

    write(server, words, written[:250])
    with fold(tmp_path / "counts.db") as counting:
        assert counting.catch_up() == 250
        assert dict(counting.table) == model(written[:250])
    (tmp_path / "counts.db").unlink()
    write(server, words, written[250:])
    with fold(tmp_path / "counts.db") as counting:
        assert counting.restored > 0, "from the changelog"
        assert counting.catch_up() == 150, "the source is read once"
        assert dict(counting.table) == model(written)
    with fold(tmp_path / "elsewhere.db") as counting:
        assert dict(counting.table) == model(written) == to_table(changes_of(server, counts))
        assert counting.catch_up() == 0

    with Admin(bootstrap_servers=server) as admin:
        described = admin.describe_topics([counts])[counts]
    assert len(described.partitions) == 3


def test_a_fold_whose_offsets_were_forgotten_counts_nothing_again(server: str, tmp_path: Path) -> None:
    words = new_topic(server, "forgotten", partitions=1)
    counts = unique("forgotten-counts")

    def fold(path: Path) -> LocalFold:
        return LocalFold(path, name=counts, source=words, changelog=counts, update=count, bootstrap=server)

    write(server, words, [(b"a", b"1")])
    with fold(tmp_path / "counts.db") as counting:
        assert counting.catch_up() == 1
    with Admin(bootstrap_servers=server) as admin:
        admin.delete_consumer_groups([counts])
    with pytest.raises(TableError, match=r"has no offset of forgotten-\w+-0, but the changelog .* ends at 2"):
        fold(tmp_path / "counts.db")


def test_a_second_fold_fences_the_first(server: str, tmp_path: Path) -> None:
    words = new_topic(server, "fenced", partitions=1)
    counts = unique("fenced-counts")

    def fold(path: Path) -> LocalFold:
        return LocalFold(path, name=counts, source=words, changelog=counts, update=count, bootstrap=server)

    write(server, words, [(b"a", b"1")])
    with fold(tmp_path / "one.db") as first:
        assert first.catch_up() == 1
        write(server, words, [(b"a", b"1")])
        with fold(tmp_path / "two.db") as second:
            with pytest.raises(Exception, match=r"(?i)epoch|fenced"):
                first.catch_up()
            with pytest.raises(TableError, match="a step has failed"):
                first.step()
            assert second.catch_up() == 1
            assert dict(second.table) == {b"a": b"2"}
