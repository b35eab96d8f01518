"""A time without a zone is UTC wherever it is given, and the first one of a process is warned about.

Method: a process far from UTC gives the same naive time in every way there is; what is stored and found is one moment.
"""

import asyncio
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import click
import pyarrow as pa
import pytest

import semel
from semel import aio
from semel.cli.times import timestamp_ms
from semel.client import arguments
from support.compat.compat_kit import ThreadBroker, stored

TIMEOUT = 30
NAIVE = datetime(2026, 1, 31, 12, 0, 0, 123_999)  # noqa: DTZ001 - what this is about.
MOMENT_MS = 1_769_860_800_123


@pytest.fixture(autouse=True)
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    monkeypatch.setattr(arguments._Naive, "is_told", False)
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadBroker]:
    with ThreadBroker(tmp_path_factory.mktemp("data"), num_partitions="1") as running:
        yield running


def test_one_meaning_in_every_call_and_one_warning(broker: ThreadBroker) -> None:
    topic, place = "naive", semel.TopicPartition("naive", 0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with semel.Producer(bootstrap_servers=broker.bootstrap) as producer:
            told = producer.send(topic, b"record", timestamp=NAIVE).result(TIMEOUT)
            producer.send_arrow(topic, pa.table({"value": ["argument"]}), timestamp=NAIVE)
            for unit in ("s", "ms", "us", "ns"):
                column = pa.array([NAIVE]).cast(pa.timestamp(unit), safe=False)
                producer.send_arrow(topic, pa.table({"value": [unit], "timestamp": column}))
            producer.flush()

        async def story() -> None:
            async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
                await producer.send(topic, b"record", timestamp=NAIVE)
                await producer.send_arrow(topic, pa.table({"value": ["argument"]}), timestamp=NAIVE)

        asyncio.run(story())
        with semel.Consumer(bootstrap_servers=broker.bootstrap) as consumer:
            found = consumer.offsets_for_times({place: NAIVE})[place]
            after = consumer.offsets_for_times({place: NAIVE + timedelta(hours=1)})[place]
        assert semel.OffsetSpec.for_timestamp(NAIVE).timestamp == MOMENT_MS
    assert told.timestamp == MOMENT_MS
    times = [record.timestamp_ms for record in stored(broker.directory, topic)]
    assert times == [MOMENT_MS, MOMENT_MS, MOMENT_MS // 1000 * 1000, *[MOMENT_MS] * 5]
    assert found is not None
    assert (found.offset, found.timestamp, after) == (0, MOMENT_MS, None)
    mine = [one for one in said if "time zone" in str(one.message)]
    assert len(mine) == 1
    assert mine[0].category is UserWarning
    assert mine[0].filename == __file__, "the warning shows the line of the application"
    assert "taken as UTC" in str(mine[0].message)


def test_a_time_with_a_zone_is_not_warned_about(broker: ThreadBroker) -> None:
    topic = "aware"
    zone = timezone(timedelta(hours=-5))
    aware = datetime(2026, 1, 31, 7, 0, 0, 123_999, tzinfo=zone)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with semel.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send(topic, b"record", timestamp=aware)
            column = pa.array([aware.astimezone(UTC)], pa.timestamp("us", "America/New_York"))
            producer.send_arrow(topic, pa.table({"value": ["column"], "timestamp": column}))
            producer.send_arrow(topic, pa.table({"value": ["number"], "timestamp": [MOMENT_MS]}))
    assert [record.timestamp_ms for record in stored(broker.directory, topic)] == [MOMENT_MS] * 3


def test_a_column_without_a_zone_is_warned_about_by_its_name(broker: ThreadBroker) -> None:
    column = pa.array([NAIVE], pa.timestamp("ms"))
    with semel.Producer(bootstrap_servers=broker.bootstrap) as producer:
        rows = pa.table({"value": ["v"], "timestamp": column})
        with pytest.warns(
            UserWarning, match=r"column timestamp has type timestamp\[ms\], without a time zone: .*UTC"
        ):
            producer.send_arrow("warned", rows).result(TIMEOUT)


def test_the_command_line_means_utc_too() -> None:
    assert timestamp_ms("2026-01-31T12:00:00.123999") == MOMENT_MS
    assert timestamp_ms("2026-01-31T07:00:00.123-05:00") == MOMENT_MS
    assert timestamp_ms("2026-01-31") == MOMENT_MS // 86_400_000 * 86_400_000
    assert timestamp_ms(str(MOMENT_MS)) == MOMENT_MS
    for odd in ("1969-12-31T23:59:59.999", "1960-01-01", "yesterday", "0001-01-01T00:00+14:00"):
        with pytest.raises(click.BadParameter, match="milliseconds since 1970"):
            timestamp_ms(odd)
