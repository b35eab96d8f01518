"""What idempotence is for: transfers, orders, copies and audits that are right although every other answer is lost.

Method: a shop's events go through a connection that loses answers after the broker has stored the request; whoever reads them applies
each one it sees, without looking for repeats. The same events through a producer without idempotence go wrong: so answers were lost.
"""

from collections import Counter

import pytest

from semel import Broker, Consumer, Producer, TopicPartition
from semel.verify.fault_proxy import FaultProxy

EVENTS = 60
OLD: dict[str, str | bool] = {"enable.idempotence": False, "acks": "all"}


def _sent_through_loss(chaos: FaultProxy, topic: str, events: list[str], **settings: str | bool) -> None:
    """One event after the other; of every second request the answer is lost with the connection."""
    with Producer(
        {"bootstrap.servers": chaos.bootstrap, "retry.backoff.ms": 1, "reconnect.backoff.ms": 1, **settings}
    ) as producer:
        for number, event in enumerate(events):
            if number % 2:
                chaos.harm("produce", "cut_after")
            producer.send(topic, event).result(60)


def _read(broker: Broker, topic: str) -> list[str]:
    with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning([partition])
        end = consumer.end_offsets([partition])[partition]
        seen: list[str] = []
        while consumer.position(partition) < end:
            seen += [record.value.decode() for record in consumer.poll(timeout_ms=1000)]
        return seen


@pytest.mark.mission("GUIDE-01")
def test_no_transfer_is_made_twice(semel_broker: Broker, semel_chaos: FaultProxy, semel_topic: str) -> None:
    _sent_through_loss(semel_chaos, semel_topic, ["1"] * EVENTS)
    accounts = {"ours": 1000, "theirs": 0}
    for amount in map(int, _read(semel_broker, semel_topic)):
        accounts["ours"] -= amount
        accounts["theirs"] += amount
    assert accounts == {"ours": 1000 - EVENTS, "theirs": EVENTS}


@pytest.mark.mission("GUIDE-01")
def test_there_is_one_order_per_id(semel_broker: Broker, semel_chaos: FaultProxy, semel_topic: str) -> None:
    orders = [f"order-{number}" for number in range(EVENTS)]
    _sent_through_loss(semel_chaos, semel_topic, orders)
    assert Counter(_read(semel_broker, semel_topic)) == Counter(orders)


@pytest.mark.mission("GUIDE-01")
def test_a_copy_that_applies_changes_equals_the_original(
    semel_broker: Broker, semel_chaos: FaultProxy, semel_topic: str
) -> None:
    changes = [f"{'abc'[number % 3]} {number - 20}" for number in range(EVENTS)]
    _sent_through_loss(semel_chaos, semel_topic, changes)
    original, copy = Counter[str](), Counter[str]()
    for state, log in ((original, changes), (copy, _read(semel_broker, semel_topic))):
        for change in log:
            key, difference = change.split()
            state[key] += int(difference)
    assert copy == original


@pytest.mark.mission("GUIDE-01")
def test_an_audit_counts_exactly(semel_broker: Broker, semel_chaos: FaultProxy, semel_topic: str) -> None:
    actions = ["login", "read", "login", "write"] * (EVENTS // 4)
    _sent_through_loss(semel_chaos, semel_topic, actions)
    assert _read(semel_broker, semel_topic) == actions


def test_without_idempotence_the_same_loss_repeats_events(
    semel_broker: Broker, semel_chaos: FaultProxy, semel_topic: str
) -> None:
    orders = [f"order-{number}" for number in range(EVENTS)]
    _sent_through_loss(semel_chaos, semel_topic, orders, **OLD)
    stored = Counter(_read(semel_broker, semel_topic))
    assert set(stored) == set(orders)
    assert sum(stored.values()) == EVENTS + EVENTS // 2
