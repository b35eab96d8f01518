"""Ten commits and a kill -9: does every partition get the marker of a transaction that its coordinator calls complete?

    python tests/support/transactions/markers_story.py --broker kafka --rounds 12

A round: ten librdkafka producers have a transaction open, each in three partitions; all commit at once, and the broker is killed in the
middle. It comes back, and every commit is told as done. From then on a transaction that a partition has open, and that its coordinator
has completed, is open for ever: nobody will write its marker. `semel txn find-hanging` calls that hanging. Its records are seen by no
reader of committed records, until the producer's next transaction in the partition ends, and decides about these, too.
"""

import argparse
import contextlib
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

import confluent_kafka

import semel
from semel.client.admin.open_transactions import OpenTransaction
from semel.peers import kafka as kafka_peer
from support.compat.compat_kit import BrokerProcess, eventually
from support.transactions.transaction_clients import DEADLINE_SECONDS, read

PRODUCERS: Final = 10
PARTITIONS: Final = 3
_KILL_SECONDS_MAX: Final = 0.01
_QUICK: Final = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
_QUIET_SECONDS: Final = 3.0


class Killable(Protocol):
    """A broker that can be killed and comes back where it was."""

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...


def play(broker: Killable, number: int, dice: random.Random) -> list[OpenTransaction]:
    """One round; what hangs after it. Raises if a record is not there although nothing hangs."""
    topic = f"markers-{number}"
    with semel.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(semel.NewTopic(topic, num_partitions=PARTITIONS))
    producers = [_with_open_transaction(broker.bootstrap, topic, number, index) for index in range(PRODUCERS)]
    done = threading.Semaphore(0)
    commits = [threading.Thread(target=_commit, args=[one, done]) for one in producers]
    for commit in commits:
        commit.start()
    for _ in range(dice.randrange(PRODUCERS // 2)):
        assert done.acquire(timeout=DEADLINE_SECONDS), "no commit comes to its end"
    time.sleep(dice.uniform(0, _KILL_SECONDS_MAX))
    broker.kill()
    broker.start()
    for commit in commits:
        commit.join(DEADLINE_SECONDS)
        assert not commit.is_alive(), "a commit does not come to its end"
    hanging = _settled(broker.bootstrap, topic)
    if not hanging:
        wanted = sorted(b"%d" % index for index in range(PRODUCERS))
        for partition in range(PARTITIONS):
            assert sorted(read(broker.bootstrap, topic, partition, committed=True)) == wanted
    return hanging


def _with_open_transaction(bootstrap: str, topic: str, number: int, index: int) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {
            "log_level": 0,
            "bootstrap.servers": bootstrap,
            "transactional.id": f"markers-{number}-{index}",
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            "metadata.recovery.strategy": "none",
        }
    )
    producer.init_transactions(DEADLINE_SECONDS)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(topic, value=b"%d" % index, partition=partition)
    assert producer.flush(DEADLINE_SECONDS) == 0
    return producer


def _commit(producer: confluent_kafka.Producer, done: threading.Semaphore) -> None:
    while True:
        try:
            producer.commit_transaction(DEADLINE_SECONDS)
            done.release()
            return
        except confluent_kafka.KafkaException as error:
            if not error.args[0].retriable():
                raise


def _settled(bootstrap: str, topic: str) -> list[OpenTransaction]:
    """What still hangs when every coordinator is done. It may be quicker to tell than a partition."""
    with semel.Admin(bootstrap_servers=bootstrap) as admin:

        def hanging() -> list[OpenTransaction]:
            return list(admin.find_hanging_transactions([topic], older_than_ms=0))

        busy = ["Ongoing", "PrepareCommit"]
        eventually(lambda: not admin.list_transactions(states=busy), "every transaction is complete")
        with contextlib.suppress(AssertionError):
            eventually(lambda: not hanging(), "every marker is there", seconds=_QUIET_SECONDS)
        return hanging()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module: 1 if anything hung."""
    parser = argparse.ArgumentParser(description="Ten commits and a kill -9, and what hangs afterwards.")
    parser.add_argument("--broker", choices=["semel", "kafka"], default="semel")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    hung = 0
    with tempfile.TemporaryDirectory(prefix="semel-markers-") as scratch:
        broker: Killable
        if options.broker == "semel":
            broker = BrokerProcess(Path(scratch) / "data")
        else:
            home = kafka_peer.find(kafka_peer.DEFAULT_VERSION)
            broker = kafka_peer.KafkaBroker(home, Path(scratch) / "kafka", heap="400M", settings=_QUICK)
        broker.start()
        try:
            for number in range(options.rounds):
                hanging = play(broker, number, random.Random(f"{options.seed}-{number}"))
                hung += bool(hanging)
                sys.stdout.write(f"round {number}: {len(hanging)} hang\n")
                for one in hanging:
                    sys.stdout.write(f"  {one}\n")
                sys.stdout.flush()
        finally:
            broker.kill()
    sys.stdout.write(f"{options.broker}: in {hung} of {options.rounds} rounds a marker is missing\n")
    return int(hung > 0)


if __name__ == "__main__":
    sys.exit(main())
