"""What clients say on the wire: when they ask for a producer id, how they use fetch sessions, what they are told.

Method: a proxy without faults records every exchange; requests and answers are decoded from it.
"""

import json
from collections import Counter
from typing import Any

import pytest
from click.testing import CliRunner

from semel.cli.main import cli
from semel.core.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from semel.core.wire.messages.fetch import FetchRequest, FetchResponse
from semel.core.wire.messages.init_producer_id import InitProducerIdResponse
from semel.core.wire.messages.metadata import MetadataResponse
from semel.core.wire.registry import ApiKey
from semel.verify.fault_proxy import Exchange, FaultProxy
from support.compat.compat_clients import Client
from support.compat.compat_kit import Sent, ThreadBroker, batches, numbered
from support.transactions.transaction_clients import PRODUCERS, TransactionalProducer

_SETTING_UP = {
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
}  # As often as a client opens connections and learns of topics.


def trace(broker: ThreadBroker, client: Client, topic: str, *, idempotent: bool) -> list[Exchange]:
    """One record, sent by a fresh client to a topic that is there."""
    with FaultProxy(broker.bootstrap) as proxy:
        client.produce(proxy.bootstrap, topic, numbered(1), idempotent=idempotent)
        return list(proxy.exchanges)


@pytest.mark.mission("IDEM-14")
def test_a_producer_id_is_asked_for_before_the_first_record(
    broker: ThreadBroker, client: Client, topic: str
) -> None:
    exchanges = trace(broker, client, topic, idempotent=True)
    keys = [exchange.key for exchange in exchanges]
    assert keys.index(ApiKey.INIT_PRODUCER_ID) < keys.index(ApiKey.PRODUCE)
    granted = exchanges[keys.index(ApiKey.INIT_PRODUCER_ID)].response()
    assert isinstance(granted, InitProducerIdResponse)
    assert (granted.error_code, granted.producer_epoch) == (0, 0)
    [(header, _records)] = list(batches(broker.directory, topic))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (granted.producer_id, 0, 0)


@pytest.mark.mission("IDEM-33")
def test_idempotence_costs_one_request_at_the_start(broker: ThreadBroker, client: Client, topic: str) -> None:
    client.produce(broker.bootstrap, topic, numbered(1))
    plain, idempotent = (
        Counter(exchange.key for exchange in trace(broker, client, topic, idempotent=flag))
        for flag in (False, True)
    )
    difference = {
        key: idempotent[key] - plain[key]
        for key in {*plain, *idempotent} - _SETTING_UP
        if idempotent[key] != plain[key]
    }
    assert difference == {ApiKey.INIT_PRODUCER_ID: 1}


@pytest.mark.mission("IDEM-17")
def test_every_partition_has_sequences_of_its_own(broker: ThreadBroker, client: Client, topic: str) -> None:
    client.produce(broker.bootstrap, topic, numbered(30, partitions=3))
    for partition in range(3):
        found = [
            sequence
            for header, _records in batches(broker.directory, topic, partition)
            for sequence in range(header.base_sequence, header.last_sequence + 1)
        ]
        assert found == list(range(10))


@pytest.mark.mission("TXP-06")
@pytest.mark.parametrize("make", PRODUCERS, ids=lambda one: one.name)
def test_the_first_record_of_a_partition_is_announced(
    broker: ThreadBroker, topic: str, make: type[TransactionalProducer]
) -> None:
    """These clients speak transactions v1: one AddPartitionsToTxn for each partition, when it is new, and none after."""
    with FaultProxy(broker.bootstrap) as proxy:
        producer = make(proxy.bootstrap, f"of {topic}")
        for _ in range(2):
            producer.begin()
            for partition, known in ((0, [0]), (0, [0]), (1, [0, 1])):
                producer.send(topic, partition, b"v")
                producer.flush()
                told = described(broker, f"of {topic}")
                assert (told["state"], told["partitions"]) == ("Ongoing", [[topic, one] for one in known])
            producer.commit()
        producer.close()
        added = [
            (named.name, named.partitions)
            for one in proxy.exchanges
            if one.key is ApiKey.ADD_PARTITIONS_TO_TXN
            for named in add_partitions(one).v3_and_below_topics
        ]
        keys = [one.key for one in proxy.exchanges]
    assert added == [(topic, [0]), (topic, [1])] * 2
    assert keys.index(ApiKey.ADD_PARTITIONS_TO_TXN) < keys.index(ApiKey.PRODUCE)


def described(broker: ThreadBroker, transactional_id: str) -> Any:
    """What DescribeTransactions says."""
    command = ["txn", "describe", transactional_id, "-b", broker.bootstrap, "-o", "json"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def add_partitions(exchange: Exchange) -> AddPartitionsToTxnRequest:
    request = exchange.request()
    assert isinstance(request, AddPartitionsToTxnRequest)
    return request


def test_a_new_topic_begins_at_leader_epoch_0(broker: ThreadBroker, client: Client, topic: str) -> None:
    """A directory that was never stopped has lost nothing: only logs that were there before are led anew."""
    last: MetadataResponse | None = None
    with FaultProxy(broker.bootstrap) as proxy:
        client.produce(proxy.bootstrap, topic, numbered(1))
        for exchange in proxy.of(ApiKey.METADATA):
            response = exchange.response()
            assert isinstance(response, MetadataResponse)
            if any(one.name == topic for one in response.topics):
                last = response
    assert last is not None
    epochs = {p.leader_epoch for one in last.topics if one.name == topic for p in one.partitions}
    assert epochs <= {0, -1}  # -1: a version of the answer that has no epochs.


@pytest.mark.java
def test_the_java_consumer_keeps_a_fetch_session(
    broker: ThreadBroker, java_client: Client, topic: str
) -> None:
    """Small fetches, so that there are many: one session, epochs counting up, names only what is new."""
    sent = [Sent(0, None, b"%d" % n + bytes(20_000)) for n in range(400)]
    java_client.produce(broker.bootstrap, topic, sent)
    with FaultProxy(broker.bootstrap) as proxy:
        got = java_client.read(proxy.bootstrap, topic, 0, 0, 400)
        fetches = proxy.of(ApiKey.FETCH)
    assert [record.value for record in got] == [record.value for record in sent]
    requests = [one.request() for one in fetches]
    assert all(isinstance(one, FetchRequest) for one in requests)
    epochs = [one.session_epoch for one in requests if isinstance(one, FetchRequest)]
    sessions = {one.session_id for one in requests if isinstance(one, FetchRequest)}
    assert epochs[:3] == [0, 1, 2]
    assert len(sessions) == 2  # 0 in the first request, then the one the broker gave.
    first = fetches[0].answer and fetches[0].response()
    if isinstance(first, FetchResponse):  # Not kept where it carried megabytes.
        assert first.session_id in sessions
