"""The ack is lost after the record was stored; the producer sends again; the log has it once.

Method: a proxy that knows Kafka's frames stands between client and broker and loses, delays or repeats exactly what a
test says. What the log holds is read from its files.
"""

import random
import socket
import time

import pytest

from semel.core.records.build import RecordInput, build_batch
from semel.core.wire import framing
from semel.core.wire.framing import FrameReader, RequestHeader
from semel.core.wire.message import Message
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.core.wire.registry import ApiKey, api
from semel.verify.fault_proxy import Fate, FaultProxy, at, at_random
from support.compat import compat_clients
from support.compat.compat_clients import Client, ClientError, KafkaPython
from support.compat.compat_kit import ThreadBroker, copies, eventually, numbered, values

PRODUCE = ApiKey.PRODUCE
LOSSY = {
    Fate.CUT_AFTER: 0.05,
    Fate.CUT_BEFORE: 0.03,
    Fate.DELAY: 0.1,
    Fate.REPEAT: 0.05,
    Fate.LATE_COPY: 0.05,
}


@pytest.mark.mission("IDEM-01", "R-48")
@pytest.mark.parametrize(("idempotent", "stored"), [(False, 2), (True, 1)])
def test_a_lost_ack_is_a_second_copy_only_without_idempotence(
    broker: ThreadBroker, client: Client, topic: str, idempotent: bool, stored: int
) -> None:
    with FaultProxy(broker.bootstrap, at(PRODUCE, {0: Fate.CUT_AFTER})) as proxy:
        [sent] = numbered(1)
        client.produce(proxy.bootstrap, topic, [sent], idempotent=idempotent, lossy=True)
        assert proxy.fates() == [Fate.CUT_AFTER]
    assert copies(broker.directory, topic) == {sent.value: stored}


@pytest.mark.mission("IDEM-10")
@pytest.mark.parametrize(
    ("kind", "fate"),
    [("producer", Fate.SILENCE), ("network", Fate.CUT_AFTER), ("broker", Fate.FAIL_AFTER)],
)
def test_a_retry_of_the_client_s_own_is_one_copy_whoever_failed(
    broker: ThreadBroker, client: Client, topic: str, kind: str, fate: Fate
) -> None:
    """producer: it gives up waiting; network: the connection breaks; broker: it answers that replicas are missing."""
    [sent] = numbered(1)
    if fate is Fate.SILENCE and not client.outwaits_silence:
        fate = Fate.LATE_COPY  # It never gives up by itself, so let the link do it, with a copy under way.
    with FaultProxy(broker.bootstrap, at(PRODUCE, {0: fate})) as proxy:
        client.produce(proxy.bootstrap, topic, [sent], lossy=True)
        assert proxy.count(PRODUCE) >= 2, "sent again: on a slow machine perhaps more than once"
    assert copies(broker.directory, topic) == {sent.value: 1}


@pytest.mark.mission("IDEM-10", "R-48")
def test_a_resend_by_the_application_is_two_copies(broker: ThreadBroker, client: Client, topic: str) -> None:
    [sent] = numbered(1)
    client.produce(broker.bootstrap, topic, [sent, sent])
    assert copies(broker.directory, topic) == {sent.value: 2}


@pytest.mark.mission("ORD-06")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_over_a_lossy_link_every_partition_holds_each_record_once_and_in_order(
    broker: ThreadBroker, client: Client, topic: str, seed: int
) -> None:
    """Five in flight; answers lost and late, connections cut, retries overtaken by copies, copies after the fact.

    Order is promised inside a partition. Between partitions nothing is, and nothing is checked.
    """
    sent = numbered(6000, 3)
    weights = dict(LOSSY)
    if client.outwaits_silence:
        weights[Fate.SILENCE] = 0.005
    with FaultProxy(broker.bootstrap, at_random(seed, weights, faults_max=60)) as proxy:
        offsets = client.produce(proxy.bootstrap, topic, sent, lossy=True, batch_bytes=400)
        assert len(proxy.fates()) > 10
    for partition in range(3):
        wanted = [record.value for record in sent if record.partition == partition]
        assert values(broker.directory, topic, partition) == wanted
        told = [offset for offset, record in zip(offsets, sent, strict=True) if record.partition == partition]
        assert told == list(range(len(wanted)))


@pytest.mark.mission("ORD-01")
@pytest.mark.java
def test_without_idempotence_a_retry_is_overtaken(
    broker: ThreadBroker, java_client: Client, topic: str
) -> None:
    """Five batches in flight; the second is damaged on the way and refused; the others are stored before its retry."""
    sent = numbered(5)
    for idempotent, order in ((False, [0, 2, 3, 4, 1]), (True, [0, 1, 2, 3, 4])):
        name = f"{topic}-{idempotent}"
        java_client.produce(broker.bootstrap, name, [])
        with FaultProxy(broker.bootstrap, at(PRODUCE, {1: Fate.CORRUPT}, delay_seconds=0.5)) as proxy:
            java_client.produce(proxy.bootstrap, name, sent, idempotent=idempotent, lossy=True, batch_bytes=1)
        assert values(broker.directory, name) == [sent[n].value for n in order]


class WireProducer:
    """The least a producer is: an id, a sequence, a socket, and the will to send again."""

    def __init__(self, bootstrap: str, topic: str, timeout_seconds: float) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = host, int(port)
        self._topic = topic
        self._timeout_seconds = timeout_seconds
        self._socket: socket.socket | None = None
        self._correlation_id = 0
        self._sequence = 0
        self.attempts = 0
        self._call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 4, 10)
        granted = self._call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 0, 10)
        assert isinstance(granted, InitProducerIdResponse)
        self._producer_id = granted.producer_id

    def send(self, value: bytes) -> int:
        """Send until it is acknowledged; the offset."""
        data = build_batch(
            [RecordInput(None, value)],
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._sequence,
        )
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name=self._topic, partition_data=[PartitionProduceData(index=0, records=data)]
                )
            ],
        )
        for attempt in range(1000):
            self.attempts += 1
            try:
                # More patient every time, so that a busy machine gets there too.
                response = self._call(request, 8, self._timeout_seconds * (1 + attempt // 3))
            except (OSError, EOFError):
                self.close()
                continue
            assert isinstance(response, ProduceResponse)
            [answer] = response.responses[0].partition_responses
            assert answer.error_code == 0, answer
            self._sequence += 1
            return answer.base_offset
        raise AssertionError("never acknowledged")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _call(self, request: Message, version: int, timeout_seconds: float) -> object:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=10)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(timeout_seconds)
        self._correlation_id += 1
        key = request.schema.api_key
        header = RequestHeader(key, version, self._correlation_id, "wire")
        self._socket.sendall(framing.request_frame(header, request))
        reader, frames = FrameReader(), list[bytearray]()
        while not frames:
            data = self._socket.recv(1 << 16)
            if not data:
                raise EOFError
            frames = reader.feed(data)
        _correlation, position = framing.read_response_header(frames[0], api(key).response_header(version))
        return api(key).response.decode(frames[0], version, position)


@pytest.mark.mission("IDEM-03", "IDEM-38", "CID-11")
@pytest.mark.parametrize("kind", ["lost", "late", "frozen"])
def test_a_thousand_lost_or_late_acks_leave_one_copy_each(
    broker: ThreadBroker, topic: str, kind: str
) -> None:
    """Each of 1,000 records has at least its first answer lost, late by more than the request timeout, or held up by a
    broker that stands still for longer than that; when, and how often, is up to the dice."""
    dice = random.Random(kind)
    timeout_seconds = 0.004
    struck = {"lost": Fate.CUT_AFTER, "late": Fate.DELAY, "frozen": Fate.PASS}[kind]
    first_try = [True]

    def plan(key: ApiKey, count: int) -> tuple[Fate, float]:
        if key is not PRODUCE or not (first_try[0] or dice.random() < 0.2):
            return Fate.PASS, 0.0
        first_try[0] = False
        return struck, timeout_seconds * dice.uniform(1.1, 2)

    sent = [b"%d" % n for n in range(1000)]
    with FaultProxy(broker.bootstrap, plan) as proxy:
        producer = WireProducer(proxy.bootstrap, topic, timeout_seconds)
        for offset, value in enumerate(sent):
            first_try[0] = True
            time.sleep(dice.uniform(0, 0.0005))
            if kind == "frozen":
                broker.freeze(timeout_seconds * dice.uniform(1.5, 2.5))
            assert producer.send(value) == offset
        producer.close()
        assert producer.attempts > 1.5 * len(sent)
    eventually(lambda: len(values(broker.directory, topic)) >= len(sent), "all is written")
    assert values(broker.directory, topic) == sent


def test_a_client_that_gives_up_says_so(
    broker: ThreadBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harness can fail: a link that loses everything ends in the client's own error, not in a pass."""
    monkeypatch.setattr(compat_clients, "DEADLINE_SECONDS", 2)
    with FaultProxy(broker.bootstrap, at_random(1, {Fate.CUT_BEFORE: 1.0}, faults_max=10**6)) as proxy:
        with pytest.raises(ClientError):
            KafkaPython().produce(proxy.bootstrap, topic, numbered(1), lossy=True)
        assert set(proxy.fates()) == {Fate.CUT_BEFORE}
    assert values(broker.directory, topic) == []
