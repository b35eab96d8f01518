"""A client that does not know what became of its records goes on under a new epoch (KIP-360), which it asks for by its old one.

Method: the link to the broker takes no record until the client gives one up; its commit fails, it aborts, and its next transaction
must be under the next epoch of the same producer id, from sequence 0 on. Clients of transactions v1 ask InitProducerId for it, with
the identity they have; those of v2 get it with the end of the transaction.

The commit that fails is there for Java's client 3.9, too. Its `flush` returns a moment before it has noted that the record failed;
an abort within that moment leaves it initializing for ever. A commit fails only when the failure is noted. librdkafka 2.16 has such
a moment, too, on a busy machine: it aborts, keeps its epoch and skips the number of the lost record. The broker refuses the gap, and
the client takes the next epoch with its next abort; so the third transaction is tried again, as programs do.
"""

from collections.abc import Callable

import confluent_kafka
import pytest

from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.core.wire.registry import ApiKey
from semel.verify.fault_proxy import Fate, FaultProxy, no_faults
from support.compat.compat_kit import ThreadBroker, batches
from support.transactions.transaction_clients import ConfluentKafka, TransactionalProducer, read
from support.transactions.transaction_java import JavaError, JavaProducer

GIVES_UP_MS = "5000"
REFUSALS = (JavaError, confluent_kafka.KafkaException)
_JAVA = [pytest.param(name, marks=pytest.mark.java) for name in ("java_4_3", "java_3_9")]


def takes_no_record(key: ApiKey, _count: int) -> tuple[Fate, float]:
    return (Fate.CUT_BEFORE if key is ApiKey.PRODUCE else Fate.PASS), 0.0


@pytest.fixture(params=["confluent-kafka", *_JAVA])
def make(request: pytest.FixtureRequest) -> Callable[[str, str], TransactionalProducer]:
    def one(bootstrap: str, transactional_id: str) -> TransactionalProducer:
        if request.param == "confluent-kafka":
            # After many cuts librdkafka waits up to 10 s before it connects again, longer than a record may take here.
            return ConfluentKafka(
                bootstrap,
                transactional_id,
                message_timeout_ms=GIVES_UP_MS,
                reconnect_backoff_max_ms="100",
            )
        return JavaProducer(
            bootstrap,
            transactional_id,
            shell=request.getfixturevalue(request.param),
            delivery_timeout_ms=GIVES_UP_MS,
            request_timeout_ms="1000",
        )

    return one


@pytest.mark.mission("EXT-06", "R-02")
def test_who_gave_up_a_record_goes_on_under_the_next_epoch(
    make: Callable[[str, str], TransactionalProducer],
    broker: ThreadBroker,
    topic: str,
    request: pytest.FixtureRequest,
) -> None:
    with FaultProxy(broker.bootstrap) as proxy:
        producer = make(proxy.bootstrap, f"of {topic}")
        write(producer, topic, b"first")
        producer.commit()
        proxy.plan = takes_no_record
        write(producer, topic, b"given up")
        with pytest.raises(REFUSALS):
            producer.commit()
        producer.abort()
        proxy.plan = no_faults
        commit_in_the_end(producer, topic, b"third")
        producer.close()
        introductions = proxy.of(ApiKey.INIT_PRODUCER_ID)
    data = [header for header, _records in batches(broker.directory, topic) if not header.is_control]
    first, third = data
    assert (third.producer_id, third.base_sequence) == (first.producer_id, 0)
    assert third.producer_epoch > first.producer_epoch
    if "java_4_3" not in request.node.name:
        given, asked = introductions[0].response(), introductions[-1].request()
        assert isinstance(given, InitProducerIdResponse)
        assert isinstance(asked, InitProducerIdRequest)
        assert (asked.producer_id, asked.producer_epoch) == (given.producer_id, given.producer_epoch)
        assert third.producer_epoch == first.producer_epoch + 1
    assert read(broker.bootstrap, topic, 0, committed=True) == [b"first", b"third"]


def write(producer: TransactionalProducer, topic: str, value: bytes) -> None:
    producer.begin()
    producer.send(topic, 0, value)
    producer.flush()


def commit_in_the_end(producer: TransactionalProducer, topic: str, value: bytes) -> None:
    """What is refused is aborted and written again, once."""
    write(producer, topic, value)
    try:
        producer.commit()
    except REFUSALS:
        producer.abort()
        write(producer, topic, value)
        producer.commit()
