"""A transaction that is left open by its producer and ended by somebody who knows its name: what Spark's drop-in sink rests on.

Method: real brokers, Semel's and Apache Kafka's of two versions, so that both transaction protocols are tried. The end comes from
another client by EndTxn; repeating it must be harmless, and its opposite must be refused.
"""

import pytest

from semel import Broker, Producer
from semel.spark.sink.common.names import prefix_of
from semel.spark.sink.dropin.batch_ledger import Standing, TaskTransaction, with_starts
from semel.spark.sink.dropin.settling import BrokerTransactions
from semel.spark.sink.dropin.sink_options import SinkOptions
from support.spark.spark_kit import eventually, new_topic, unique, values


def left_open(bootstrap: str, topic: str, name: str, **settings: int) -> TaskTransaction:
    with Producer(bootstrap_servers=bootstrap, transactional_id=name, **settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value=name)
        left = producer.leave_transaction_open()
    task = TaskTransaction(0, name, left.producer_id, left.epoch, 1, "")
    with transactions(bootstrap) as looking:
        (found,) = with_starts([task], looking.describe([task]))
    return found


def still_open(ending: BrokerTransactions, *tasks: TaskTransaction) -> list[TaskTransaction]:
    return list(with_starts(tasks, ending.describe(tasks)))


def transactions(bootstrap: str) -> BrokerTransactions:
    return BrokerTransactions(SinkOptions.of({"kafka.bootstrap.servers": bootstrap}).producer_config("any"))


def test_another_client_ends_it(any_bootstrap: str) -> None:
    topic = new_topic(any_bootstrap, "left")
    with transactions(any_bootstrap) as ending:
        one, other = (left_open(any_bootstrap, topic, unique(word)) for word in ("kept", "dropped"))
        assert values(any_bootstrap, topic) == []
        assert still_open(ending, one, other) == [one, other]
        for _again in range(2):
            assert ending.commit([one]) == {0: Standing.COMMITTED}
            ending.abort([other])
        assert values(any_bootstrap, topic) == [one.transactional_id]
        # What is ended stays ended: nobody can turn it around, and nobody mistakes one end for the other.
        ending.abort([one])
        assert ending.commit([one]) == {0: Standing.COMMITTED}
        assert ending.commit([other]) == {0: Standing.LOST}
        assert values(any_bootstrap, topic) == [one.transactional_id]
        assert still_open(ending, one, other) == []


def test_a_new_life_of_the_id_is_not_mistaken(any_bootstrap: str) -> None:
    """A commit that was done before the id was used again cannot be told any more, and is not called lost."""
    topic, name = new_topic(any_bootstrap, "left"), unique("again")
    with transactions(any_bootstrap) as ending:
        first = left_open(any_bootstrap, topic, name)
        assert ending.commit([first]) == {0: Standing.COMMITTED}
        second = left_open(any_bootstrap, topic, name)
        assert ending.commit([first]) == {0: Standing.UNKNOWN}
        ending.abort([second])
        assert ending.commit([second]) == {0: Standing.LOST}
        assert ending.commit([first])[0] is not Standing.COMMITTED


def test_one_that_timed_out_is_lost(semel_broker: Broker) -> None:
    """The coordinator aborts it by itself after its timeout; both its answer and its description must say so."""
    topic = new_topic(semel_broker.bootstrap, "left")
    task = left_open(semel_broker.bootstrap, topic, unique("late"), transaction_timeout_ms=1000)
    with transactions(semel_broker.bootstrap) as ending:
        eventually(lambda: not still_open(ending, task), "the coordinator aborts it")
        assert ending.commit([task]) == {0: Standing.LOST}
    assert values(semel_broker.bootstrap, topic) == []


def test_what_is_left_over_is_swept_by_its_prefix(any_bootstrap: str) -> None:
    topic, name = new_topic(any_bootstrap, "left"), unique("a.b")
    prefix = prefix_of(name)
    with transactions(any_bootstrap) as ending:
        kept = left_open(any_bootstrap, topic, f"{prefix}1:0.0")
        left_open(any_bootstrap, topic, f"{prefix}1:0.1")
        foreign = left_open(any_bootstrap, topic, f"{prefix.replace('.', 'x')}1:0.0")
        assert ending.sweep(name, "1", [kept]) == 1
        assert ending.sweep(name, "1", [kept]) == 0
        assert still_open(ending, kept, foreign) == [kept, foreign]
        ending.abort([kept, foreign])


@pytest.mark.parametrize("records", [0, 1])
def test_it_can_still_be_ended_by_its_own_producer(semel_broker: Broker, records: int) -> None:
    bootstrap = semel_broker.bootstrap
    topic = new_topic(bootstrap, "left")
    with Producer(bootstrap_servers=bootstrap, transactional_id=unique("own")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for _ in range(records):
            producer.send(topic, value="it")
        producer.leave_transaction_open()
        producer.commit_transaction()
    assert values(bootstrap, topic) == ["it"] * records
