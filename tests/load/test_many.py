"""Much of everything: a thousand connections, thousands of partitions, producers by the ten thousand.

Method: a real broker process is brought there through the wire while a bystander goes on; then each of the many must be served right,
and memory must have grown by no more than each of them may cost. The sizes of the mission (10,000 partitions, 100,000 producer ids) are
played by `make campaign`.
"""

import time
from pathlib import Path

import pytest

from semel.bench.broker_load import (
    FETCH_VERSION,
    ProduceFrame,
    SmallRequests,
    Wire,
    exchange,
    fetch_request,
    frame,
    produced,
    records_of,
)
from semel.core.wire import framing
from semel.core.wire.messages.fetch import FetchResponse
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.core.wire.registry import ApiKey, api
from semel.peers.processes import SemelProcess
from support.broker.load_kit import PATIENCE_SECONDS, Bystander, Memory, connections, loaded_broker

KILOBYTE, MEGABYTE = 1 << 10, 1 << 20
CAMPAIGN = pytest.mark.campaign
FIRST_ID = 1 << 40
SLACK_BYTES = 24 * MEGABYTE
"""What a broker may hold more for other reasons: buffers, arenas of its allocator."""


def _one_record(topic: str, partition: int = 0, producer_id: int = -1) -> ProduceFrame:
    made = ProduceFrame.of(topic, records_of(100, count=1), partition)
    made.identify(producer_id)
    return made


def test_a_thousand_connections_are_served_and_cost_little(broker: SemelProcess) -> None:
    count = 1_000
    request = _one_record("first").data
    memory = Memory(broker)
    with Bystander(broker.bootstrap, "beside-connections"):
        clients = connections(broker, count)
        for client in clients:  # All at once.
            client.socket.sendall(request)
        offsets = [produced(client.receive()).base_offset for client in clients]
        assert len(set(offsets)) == count
    assert memory.grown_bytes < count * 20 * KILOBYTE + SLACK_BYTES
    for client in clients:
        client.socket.close()


def test_a_thousand_readers_wait_for_one_record_and_all_get_it(broker: SemelProcess) -> None:
    count = 1_000
    with Wire(broker.bootstrap) as wire, Bystander(broker.bootstrap, "beside-readers"):
        wire.create_topic("awaited")
        wait = fetch_request("awaited", MEGABYTE, 0)
        wait.max_wait_ms = int(PATIENCE_SECONDS * 1000)
        asked = frame(ApiKey.FETCH, wait, FETCH_VERSION, 1)
        memory = Memory(broker)
        readers = connections(broker, count)
        for reader in readers:
            reader.socket.sendall(asked)
        wire.socket.sendall(_one_record("awaited").data)
        assert produced(wire.receive()).base_offset == 0
        for reader in readers:
            answer = reader.receive()
            header = api(ApiKey.FETCH).response_header(FETCH_VERSION)
            _id, position = framing.read_response_header(answer, header)
            (part,) = FetchResponse.decode(answer, FETCH_VERSION, position).responses[0].partitions
            assert (part.error_code, part.high_watermark) == (0, 1)
            reader.socket.close()
    assert memory.grown_bytes < count * 20 * KILOBYTE + SLACK_BYTES


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=[CAMPAIGN, pytest.mark.timeout(1800)])])
def test_many_partitions_are_made_written_and_found_again_after_a_kill(tmp_path: Path, count: int) -> None:
    topics = [(f"many-{first:06d}", min(1_000, count - first)) for first in range(0, count, 1_000)]
    with loaded_broker(tmp_path) as broker:
        memory = Memory(broker)
        with Bystander(broker.bootstrap, "beside-partitions"), Wire(broker.bootstrap) as wire:
            for topic, partitions in topics:
                wire.create_topic(topic, partitions)
                _write_to_each(wire, topic, partitions, base_offset=0)
        assert memory.grown_bytes < count * 20 * KILOBYTE + SLACK_BYTES
        broker.kill()
        broker.start()
        with Wire(broker.bootstrap) as wire:
            for topic, partitions in topics:
                wire.await_leaders(topic)
                named = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
                (described,) = wire.ask(ApiKey.METADATA, named, 9).topics
                assert [part.partition_index for part in described.partitions] == list(range(partitions))
                _write_to_each(wire, topic, partitions, base_offset=1)


def _write_to_each(wire: Wire, topic: str, partitions: int, *, base_offset: int) -> None:
    frames = [_one_record(topic, partition) for partition in range(partitions)]
    data = b"".join(bytes(one.data) for one in frames)
    requests = SmallRequests(data, len(frames[0].data), frames[0].batch_bytes, partitions)
    _load, answers = exchange(wire, requests, in_flight=50)
    told = [produced(answer) for answer in answers]
    assert [(one.error_code, one.base_offset) for one in told] == [(0, base_offset)] * partitions


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=[CAMPAIGN, pytest.mark.timeout(1800)])])
def test_many_producers_are_remembered_each_for_a_kibibyte(broker: SemelProcess, count: int) -> None:
    topic = f"producers-{count}"
    with Wire(broker.bootstrap) as wire:
        wire.create_topic(topic)
        memory = Memory(broker)
        with Bystander(broker.bootstrap, f"beside-{topic}"):
            for first in range(0, count, 1_000):
                frames = [
                    _one_record(topic, producer_id=FIRST_ID + first + number) for number in range(1_000)
                ]
                data = b"".join(bytes(one.data) for one in frames)
                requests = SmallRequests(data, len(frames[0].data), frames[0].batch_bytes, len(frames))
                answers = [produced(answer) for answer in exchange(wire, requests, in_flight=50)[1]]
                assert [(one.error_code, one.base_offset) for one in answers] == [
                    (0, first + number) for number in range(1_000)
                ]
        assert memory.grown_bytes < count * KILOBYTE + SLACK_BYTES
        # A batch that is sent again gets the offset it got the first time, whoever came since.
        began = time.monotonic()
        for number in (0, count // 2, count - 1):
            wire.socket.sendall(_one_record(topic, producer_id=FIRST_ID + number).data)
            assert produced(wire.receive()).base_offset == number
        assert time.monotonic() - began < PATIENCE_SECONDS
