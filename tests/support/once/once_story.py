"""Rounds of kills: a worker is killed at a step, the next one goes on, and in the end the table must equal the model.

`Rounds` plays them for one kind of worker on one broker and one database. The tests play a few, spread over all steps a life
has; as a program, `python tests/support/once/once_story.py --rounds 1000`, it plays many, on SQLite and on PostgreSQL, in parts if need be:
`--first 200 --last 399 --database sqlite --kind sink`.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

import sqlalchemy as sa

from semel import Consumer, Producer
from semel.types import TopicPartition
from support.compat.compat_kit import BrokerProcess
from support.once.once_lives import metadata, results, totals
from support.peers.database_servers import postgresql

TOPIC: Final = "amounts"
PARTITIONS: Final = 2
RECORDS: Final = 24
KINDS: Final = ("sink", "inbox", "claims", "leases", "pool", "outbox")
REPEATS: Final = {
    "leases",
    "pool",
}  # Their work is not in one transaction with their books: it may repeat, never be lost.
_KILLED: Final = -9
_TOLD_EVERY: Final = 25
_QUICK: Final = {
    "group_initial_rebalance_delay_ms": "0",
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
}


class Zygote:
    """Starts lives, and tells how they ended."""

    def __init__(self, log: Path) -> None:
        self.log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("once_lives.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def start(self, life: Mapping[str, Any]) -> int:
        return int(self._ask(life)["pid"])

    def wait(self, pid: int) -> tuple[int, int]:
        """The exit code, -9 for a kill, and the steps of a life that lived to the end."""
        answer = self._ask({"wait": pid})
        if answer["code"] not in (0, _KILLED):
            raise AssertionError(f"a life ended with {answer['code']}: {self.log.read_text()[-4000:]}")
        return answer["code"], answer["steps"]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def write_topic(bootstrap: str) -> list[int]:
    """Amounts with keys and message ids, some of them repeated under the same id; where each partition ends."""
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        sent = [
            producer.send(
                TOPIC,
                b"%d" % (n * n),
                b"key-%d" % (n % 5),
                n % PARTITIONS,
                headers=[("id", b"id-%d" % (n % 2 + n // 2 // 2 * 2))],
            )
            for n in range(RECORDS)
        ]
        ends = [0] * PARTITIONS
        for future in sent:
            stored = future.result(60)
            ends[stored.partition] = max(ends[stored.partition], stored.offset + 1)
        return ends


def read_topic(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> list[Any]:
    """Everything that is committed."""
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        where = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(where)
        ends, records = consumer.end_offsets(where), list[Any]()
        while {each: consumer.position(each) for each in where} != ends:
            records += consumer.poll(500)
        return records


class Rounds:
    """One broker with its topic, one database, one zygote."""

    def __init__(self, bootstrap: str, database: str, ends: Sequence[int], zygote: Zygote) -> None:
        self.bootstrap = bootstrap
        self.database = database
        self.zygote = zygote
        self.kills = 0
        self.names = "round"  # What the names of rounds begin with: one broker may serve many databases.
        self.engine = sa.create_engine(database)
        metadata.create_all(self.engine)
        self._records = read_topic(bootstrap, TOPIC)
        self._ends = list(ends)
        self._spans: dict[str, int] = {}

    def life(self, kind: str, name: str, *, kill_at: int = 0, **more: object) -> dict[str, object]:
        given: dict[str, object] = {
            "bootstrap": self.bootstrap,
            "database": self.database,
            "topic": TOPIC,
            "ends": self._ends,
        }
        if kind == "outbox":
            given |= {"topic": f"out-{name}", "parts": 3, "rows": 6}
        return {"life": kind, "name": name, "kill_at": kill_at, **given, **more}

    def play(self, kind: str, seed: int, *, of: int) -> None:
        """One round: round `seed` of `of` is first killed in that part of all steps, then anywhere, then lives."""
        span = self.span(kind)
        dice = random.Random(f"{kind} {seed}")
        name = f"{self.names}-{kind}-{seed}"
        kill_at = 1 + (2 * seed + 1) * span // (2 * of)
        while not self._killed(
            kind, name, kill_at
        ):  # This life had fewer steps than the one that was left alone.
            self.compare(kind, name)
            kill_at, name = max(1, kill_at * 2 // 3), f"{name}-again"
        kills = 1 + sum(self._killed(kind, name, dice.randint(1, span)) for _ in range(dice.randint(0, 2)))
        self.kills += kills
        self.finish(kind, name, kills=kills)

    def _killed(self, kind: str, name: str, kill_at: int) -> bool:
        code, _ = self.zygote.wait(self.zygote.start(self.life(kind, name, kill_at=kill_at)))
        return code == _KILLED

    def span(self, kind: str) -> int:
        """How many steps a life has that is left alone."""
        if kind not in self._spans:
            name = f"{self.names}-{kind}-alone"
            code, steps = self.zygote.wait(self.zygote.start(self.life(kind, name)))
            assert code == 0
            self.compare(kind, name)
            self._spans[kind] = steps
        return self._spans[kind]

    def finish(self, kind: str, name: str, *, kills: int = 0) -> None:
        """A last life, which is left alone; then the comparison."""
        code, _ = self.zygote.wait(self.zygote.start(self.life(kind, name)))
        assert code == 0
        self.compare(kind, name, kills=kills)

    def compare(self, kind: str, name: str, *, kills: int = 0) -> None:
        """Row by row: the table, or for the outbox the topic, against what must be there."""
        if kind == "outbox":
            self._compare_topic(name)
            return
        counted = self._records
        if kind in ("claims", "leases"):
            counted = list({record.headers: record for record in reversed(self._records)}.values())
        with self.engine.connect() as db:
            rows = db.execute(sa.select(results).where(results.c.round == name)).all()
            sums = db.execute(sa.select(totals).where(totals.c.round == name)).all()
        found = Counter((row.partition, row.record_offset, row.key, row.value) for row in rows)
        wanted = Counter((r.partition, r.offset, r.key, r.value) for r in counted)
        if kind in REPEATS:
            lost = {row[2:] for row in wanted} - {row[2:] for row in found}
            assert not lost, f"{name}: lost {sorted(lost)}"
            if kind == "leases":
                assert sum(found.values()) <= len(wanted) + kills, f"{name}: more repeats than kills"
            return
        assert found == wanted, f"{name}: missing {wanted - found}, too many {found - wanted}"
        model: Counter[bytes] = Counter()
        for record in counted:
            model[record.key] += int(record.value)
        assert {row.key: row.total for row in sums} == dict(model), f"{name}: totals"

    def _compare_topic(self, name: str) -> None:
        records = read_topic(self.bootstrap, f"out-{name}", 1)
        wanted = [(b"%d" % n, b"%d-%d" % (part, n)) for part in range(3) for n in range(6)]
        assert [(record.key, record.value) for record in records] == wanted, name


@contextmanager
def world(directory: Path) -> Iterator[tuple[BrokerProcess, list[int], Zygote]]:
    """A broker in its own process, with the topic, and who starts lives."""
    with BrokerProcess(directory / "broker", num_partitions=str(PARTITIONS), **_QUICK) as broker:
        zygote = Zygote(directory / "lives.log")
        try:
            yield broker, write_topic(broker.bootstrap), zygote
        finally:
            zygote.close()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--rounds", type=int, default=1_000, help="how many there are in all (default %(default)s)"
    )
    parser.add_argument(
        "--first", type=int, default=0, help="the first of them to play, where they are played in parts"
    )
    parser.add_argument("--last", type=int, help="and the last")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), action="append")
    parser.add_argument("--kind", choices=KINDS, action="append")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semel-once-")))
        wanted = options.database or ("sqlite", "postgresql")
        databases = {"sqlite": f"sqlite:///{directory / 'once.db'}"} if "sqlite" in wanted else {}
        if "postgresql" in wanted:
            databases["postgresql"] = stack.enter_context(postgresql())
        last = options.rounds - 1 if options.last is None else min(options.last, options.rounds - 1)
        broker, ends, zygote = stack.enter_context(world(directory))
        for database, url in databases.items():
            played = Rounds(broker.bootstrap, url, ends, zygote)
            played.names = database
            for kind in options.kind or KINDS:
                begun, before = time.monotonic(), played.kills
                for seed in range(options.first, last + 1):
                    played.play(kind, seed, of=options.rounds)
                    if seed == last or not (seed + 1) % _TOLD_EVERY:
                        print(
                            f"{kind} on {database}: rounds {options.first} to {seed} of {options.rounds}, "
                            f"{played.kills - before} kills over {played.span(kind)} steps, "
                            f"{time.monotonic() - begun:.0f} s, every row as in the model",
                            flush=True,
                        )
            played.engine.dispose()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
