"""A group whose members join, leave, die and freeze at random, while the broker is killed as well.

`run` plays it for as many seconds and members as it is told, with records flowing all the time, and checks in the end that
every record was processed and that nobody owned what another owned in the same generation. The tests play a short story;
as a program, `python tests/support/groups/group_chaos.py --members 20 --seconds 180`, it plays a long one.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

import confluent_kafka

from semel.peers.kafka import KafkaHome, find
from support.compat.compat_kit import BrokerProcess, eventually, stored
from support.groups.group_kit import OFFSETS_PARTITIONS, Crew, MemberProcess, Ownership

GROUP: Final = "crew"
TOPIC: Final = "letters"
SESSION_MS: Final = 2000
_SETTLE_SECONDS: Final = 120
_CLIENTS: Final = ("confluent-kafka", "kafka-python", "aiokafka")


class Load:
    """Records to every partition, all the time, by a producer that gives nothing up."""

    def __init__(self, bootstrap: str, partitions: int, per_second: int) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0, "linger.ms": 5}
        )
        self._partitions = partitions
        self._pause_seconds = partitions / per_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._pause_seconds):
            for partition in range(self._partitions):
                self._producer.produce(TOPIC, b"letter", partition=partition)
            self._producer.poll(0)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0, "records are left"


def run(
    directory: Path,
    *,
    seed: int,
    members: int,
    seconds: float,
    partitions: int,
    assignor: str = "range",
    kafka_home: KafkaHome | None = None,
    broker_kills: int = 1,
    per_second: int = 200,
) -> str:
    """Play it; what happened in one line. Raises AssertionError if something must not be."""
    dice = random.Random(seed)
    clients = [*_CLIENTS, "java"] if kafka_home is not None else list(_CLIENTS)
    settings = {
        "num_partitions": str(partitions),
        "offsets_topic_num_partitions": str(OFFSETS_PARTITIONS),
        "group_initial_rebalance_delay_ms": "300",
        "group_min_session_timeout_ms": "1000",
    }
    done: dict[str, int] = {}
    with (
        BrokerProcess(directory / "data", **settings) as broker,
        Crew(
            directory, broker.bootstrap, GROUP, TOPIC, assignor, session_ms=SESSION_MS, kafka_home=kafka_home
        ) as crew,
    ):
        load = Load(broker.bootstrap, partitions, per_second)
        try:
            for number in range(members):
                crew.start(clients[number % len(clients)])
            eventually(
                lambda: sum(bool(one.owns()) for one in crew.alive) >= min(2, members), "a group of some", 90
            )
            begun = time.monotonic()
            kills = sorted(dice.uniform(0.2, 0.8) * seconds for _ in range(broker_kills))
            while (passed := time.monotonic() - begun) < seconds:
                if kills and passed > kills[0]:
                    kills.pop(0)
                    what = "broker killed"
                    broker.kill()
                    broker.start()
                else:
                    what = _disturb(crew, dice, clients, members)
                done[what] = done.get(what, 0) + 1
                time.sleep(
                    dice.expovariate(members / 6)
                )  # The times at which things happen, no wait for anything.
        finally:
            load.stop()
        for member in crew.alive:
            crew.thaw(member)
        wanted = {(p, o) for p in range(partitions) for o in range(_end(broker.directory, p))}
        eventually(lambda: wanted <= set(crew.processed()), "every record is processed", _SETTLE_SECONDS)
        for member in crew.alive:
            crew.stop(member)
        ownership = Ownership.read(broker.directory, GROUP)
        ownership.check(crew.members, partitions, is_complete=assignor != "cooperative-sticky")
        repeated = sum(crew.processed().values()) - len(wanted)
        assert done.get("broker killed"), done
        assert sum(done.values()) > broker_kills + 3, f"too little happened for this to say anything: {done}"
        return (
            f"seed {seed}: {len(crew.members)} processes, {done}, {len(ownership.generations)} generations, "
            f"{len(wanted)} records, {repeated} processed again"
        )


def _disturb(crew: Crew, dice: random.Random, clients: list[str], members: int) -> str:
    alive = crew.alive
    frozen = [one for one in alive if one.is_frozen]
    awake = [one for one in alive if not one.is_frozen]
    choices = ["start"] * (len(alive) < members) * 3 + ["thaw"] * bool(frozen) * 2
    if len(awake) > 1:
        choices += ["kill", "stop", "freeze"]
    what = dice.choice(choices or ["start"])
    match what:
        case "start":
            crew.start(dice.choice(clients))
        case "thaw":
            crew.thaw(dice.choice(frozen))
        case "kill":
            crew.kill(dice.choice(alive))
        case "freeze":
            crew.freeze(dice.choice(awake))
        case "stop":
            _ask_to_leave(dice.choice(awake))
    return what


def _ask_to_leave(member: MemberProcess) -> None:
    member.process.terminate()


def _end(directory: Path, partition: int) -> int:
    records = stored(directory, TOPIC, partition)
    return records[-1].offset + 1 if records else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description="A group whose members join, leave, die and freeze at random."
    )
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--assignor", default="range", choices=["range", "roundrobin"])
    parser.add_argument("--java", action="store_true", help="with members of Kafka's Java client as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(
            run(
                Path(directory),
                seed=options.seed,
                members=options.members,
                seconds=options.seconds,
                partitions=options.partitions,
                assignor=options.assignor,
                kafka_home=find() if options.java else None,
                broker_kills=max(1, int(options.seconds // 60)),
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
