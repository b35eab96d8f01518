"""The story of the records counts what is there, and would say so if something were missing or there twice.

Method: the counting by hand-made findings; the proxy and the writer against a broker in this process.
"""

import asyncio
from array import array
from pathlib import Path

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.net.connection import connect
from semel.runtime.bundle import real_runtime
from semel.verify.demo.records import story
from semel.verify.demo.records.reader import read_ids
from semel.verify.demo.records.writer import Writer
from semel.verify.fault_proxy import Fate, FaultProxy


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([[0, 1, 2], [3, 4]], {"stored": 5, "duplicated": 0, "lost": 0, "reordered": 0}),
        ([[0, 1, 1], [3, 4]], {"stored": 5, "duplicated": 1, "lost": 1, "reordered": 0}),
        ([[1, 0, 2], [3, 4]], {"stored": 5, "duplicated": 0, "lost": 0, "reordered": 1}),
        ([[0, 1, 2], [3, 4, 99]], {"stored": 6, "duplicated": 1, "lost": 0, "reordered": 0}),
    ],
)
def test_the_count_is_of_what_was_read(found: list[list[int]], expected: dict[str, int]) -> None:
    assert story._count([array("q", ids) for ids in found], 5) == expected


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_lossy_connection_leaves_each_record_once_and_in_order(seed: int, tmp_path: Path) -> None:
    async def main() -> tuple[dict[str, int], FaultProxy, Writer]:
        runtime = real_runtime()
        settings: dict[str, str | int | bool] = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path),
            "num.partitions": 4,
        }
        broker = Broker(BrokerConfig.of(settings), runtime)
        await broker.start()
        host, port = broker.address
        await story._create_topic(runtime, (host, port))
        stored: list[int] = []
        harm = {Fate.CUT_AFTER: 0.15, Fate.DELAY: 0.1, Fate.REPEAT: 0.2}
        with story.bad_connection(f"{host}:{port}", seed, harm) as proxy:
            writer = Writer(runtime, proxy.address, story.TOPIC, story._batches(50_000), stored.append)
            await writer.run()
        connection = await connect(runtime, host, port)
        found = [await read_ids(connection, story.TOPIC, partition) for partition in range(story.PARTITIONS)]
        connection.close()
        await broker.stop()
        assert sum(stored) == 50_000
        return story._count(found, 50_000), proxy, writer

    counts, proxy, writer = asyncio.run(main())
    assert counts == {"stored": 50_000, "duplicated": 0, "lost": 0, "reordered": 0}
    assert proxy.tally[Fate.CUT_AFTER] > 0
    assert proxy.tally[Fate.REPEAT] > 0
    assert writer.sent_again > 0
