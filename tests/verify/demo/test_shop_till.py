"""The till can be killed and cut off at any moment: what it has sent in the end is the shop's diary, each event once.

Method: the till as its own process, through a connection with faults, on a broker of this test; killed with kill -9 after some of
its transactions, twice; then every committed row is judged against the model, and what it took back must not show.
"""

import sys
from pathlib import Path

import pytest

from semel import Admin, Broker, NewTopic
from semel.verify.demo.processes import Child
from semel.verify.demo.shop import judgement, topics
from semel.verify.demo.shop.audit import Watcher, read_topic
from semel.verify.demo.shop.model import Shop
from semel.verify.demo.shop.story import bad_connection
from semel.verify.fault_proxy import FaultProxy

SHOP = Shop(seed=4, transactions=45, orders=40)
_PATIENCE_SECONDS = 240


@pytest.fixture
def shop_broker() -> "Broker":
    return Broker(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)


@pytest.mark.timeout(
    900
)  # Four processes one after the other, through a bad connection, beside everything else.
def test_a_till_that_is_killed_and_cut_off_sends_every_event_once(
    shop_broker: Broker, tmp_path: Path
) -> None:
    with shop_broker as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(name, count) for name, count in topics.PARTITIONS.items()])
        with FaultProxy(broker.bootstrap, bad_connection(3)) as proxy, Watcher(proxy.bootstrap) as watcher:
            for stop_at in (12, 30, SHOP.transactions):
                till = start_till(proxy.bootstrap, tmp_path)
                try:
                    hear_until(till, stop_at)
                    if stop_at == SHOP.transactions:
                        assert till.wait(_PATIENCE_SECONDS) == 0, till.last_words()
                finally:
                    till.end()
            faults = proxy.fates()
        assert watcher.failure is None
        rows = read_topic(broker.bootstrap, topics.ORDERS, topics.PARTITIONS[topics.ORDERS])
    assert faults
    line = judgement._sent(SHOP, SHOP.all_events(), rows)
    assert line.kept, line


def test_a_till_ends_with_those_who_started_it(tmp_path: Path) -> None:
    till = start_till("127.0.0.1:9", tmp_path)  # Nobody listens there: it waits.
    assert till.code is None
    till._process.stdin.close()  # type: ignore[union-attr]  # a Child always has one
    assert till.wait(_PATIENCE_SECONDS) == 1
    till.end()


def start_till(bootstrap: str, folder: Path) -> Child:
    arguments = {
        "--bootstrap": bootstrap,
        "--seed": SHOP.seed,
        "--transactions": SHOP.transactions,
        "--orders": SHOP.orders,
        "--minutes": SHOP.minutes,
        "--per-second": 1000,
    }
    words = [str(word) for pair in arguments.items() for word in pair]
    command = [sys.executable, "-m", "semel.verify.demo.shop.till", *words]
    return Child("till", command, folder / "till.log", environment={})


def hear_until(till: Child, transaction: int) -> None:
    """Wait until it says that so many transactions are committed."""
    while int(till.lines.get(timeout=_PATIENCE_SECONDS).removeprefix("committed ")) < transaction:
        pass
