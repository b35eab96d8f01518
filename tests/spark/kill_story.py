"""Kill anything, and count: drivers, workers and brokers die at named steps and at random, and every row must be there once.

`Story` plays lives of one query on one broker: each life is a driver (`kill_driver`) that is killed, or survives what is killed
around it; the next one goes on from its checkpoint. Every number is written to two topics in one micro-batch. After every death
what is committed must be whole batches (of the atomic sink; the drop-in sink is atomic per task); at the end, every number once in both topics.

The tests play a few lives. As a program it plays many and writes down what came of them:

    python tests/spark/kill_story.py --runs 200 --write docs/spark-kills.md
"""

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))  # As a program it finds its neighbours by itself.

from compat_kit import BrokerProcess
from semel import Admin, OffsetSpec, TopicPartition
from semel.bench import kafka_peer, spark_peer
from semel.runtime.environment import environment
from semel.spark.sink.shared_transaction import Step
from spark_kit import DriverProcess, driver_process, eventually, new_topic, read_all, small_config, unique

ROWS: Final = 100
PARTITIONS: Final = 3
LIVES_PER_STORY: Final = 8
_CALM_LIVES_MAX: Final = 2
_QUERY_FAILED: Final = 3
"""How a driver ends whose query failed; the next life goes on."""
LIFE_SECONDS: Final = 280.0
KINDS: Final = ("driver", "driver at random", "worker", "broker", "worker, broker")
CLUSTER: Final = "local-cluster[2,1,640]"
RETRYING: Final = "local[2,4]"
"""One machine on which a task is tried again, as everywhere else: without barriers a lost worker costs a task, not a stage."""
_DRIVER: Final = Path(__file__).with_name("kill_driver.py")
_QUICK: Final = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}


class Broker(Protocol):
    """A broker that can be killed and comes back where it was."""

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...


class Kill(NamedTuple):
    """Who dies in a life, and when: after a named step of the batch after so many, or after some seconds of writing."""

    who: str
    step: str | None = None
    after_batches: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        when = f"after {self.step!r}" if self.step else f"{self.seconds:.1f} s on"
        return f"{self.who} {when}"


class Verdict(NamedTuple):
    """What is committed, compared with what should be."""

    batches: int
    lost: int
    duplicated: int
    torn: int

    @property
    def is_right(self) -> bool:
        return (self.lost, self.duplicated, self.torn) == (0, 0, 0)


def judged(topics: Sequence[pa.Array], rows: int) -> Verdict:
    """Numbers of each topic, as they were read: lost, repeated, or in batches of which only a part is there."""
    counts = [Counter(int(one) for one in numbers.to_pylist()) for numbers in topics]
    end = 1 + max((number for each in counts for number in each), default=-1)
    batches = -(-end // rows)
    lost = sum(number not in each for each in counts for number in range(batches * rows))
    duplicated = sum(count - 1 for each in counts for count in each.values())
    torn = sum(
        0
        < sum(number in each for each in counts for number in range(n * rows, (n + 1) * rows))
        < len(counts) * rows
        for n in range(batches)
    )
    return Verdict(batches, lost, duplicated, torn)


@dataclass
class Story:
    """One query, from its first life to its last."""

    directory: Path
    broker: Broker
    sink: str = "semel"
    master: str = "local[2]"
    rows: int = ROWS
    lives: list[str] = field(default_factory=list)
    """How each ended."""

    def __post_init__(self) -> None:
        self.name = unique("story")
        self.topics = [
            new_topic(self.broker.bootstrap, word, partitions=PARTITIONS) for word in ("left", "right")
        ]

    def live(self, kill: Kill) -> None:
        """A driver that starts, works and is killed, or sees somebody else killed and goes on for a batch or two."""
        dies = kill.who.startswith("driver")
        orders = self._orders(
            step=kill.step, after_batches=kill.after_batches, batches=None if dies else kill.after_batches + 3
        )
        with driver_process(_DRIVER, [json.dumps(orders)], directory=self.directory) as driver:
            if kill.step is None:
                self._wait_for_work(driver, kill.after_batches)
                time.sleep(kill.seconds)
                self._strike(kill.who, driver)
            code = driver.wait(LIFE_SECONDS)
            expected = {-signal.SIGKILL if dies else 0}
            if self.sink == "dropin" and not dies:
                expected.add(
                    _QUERY_FAILED
                )  # Some of its Python processes are the driver's own: Spark gives the query up.
            if code not in expected:
                raise AssertionError(f"{kill}: the driver ended with {code}\n{driver.text()[-8000:]}")
        self.lives.append(str(kill))

    def finish(self) -> Verdict:
        """The last life, which nobody disturbs; then everything must be there.

        A query of the drop-in sink may be stopped between two tasks of a batch; then the next life completes it.
        """
        verdict = self._calm_life()
        for _again in range(_CALM_LIVES_MAX if self.sink == "dropin" else 0):
            if not verdict.is_right:
                verdict = self._calm_life()
        return verdict

    def _calm_life(self) -> Verdict:
        with driver_process(
            _DRIVER, [json.dumps(self._orders(batches=2))], directory=self.directory
        ) as driver:
            code = driver.wait(LIFE_SECONDS)
            if code:
                raise AssertionError(f"the last driver ended with {code}\n{driver.text()[-8000:]}")
        return self.verdict()

    def verdict(self) -> Verdict:
        """What is committed now."""
        found = [read_all(self.broker.bootstrap, topic).column("value") for topic in self.topics]
        return judged([column.cast(pa.string()) for column in found], self.rows)

    def check_whole(self) -> None:
        """After a death: whole batches alone, each once. A transaction that is being ended takes a moment to be so."""
        eventually(self._is_whole, f"whole batches after {self.lives[-1:]}", seconds=20)

    def _is_whole(self) -> bool:
        return self.verdict().is_right

    def _orders(self, **orders: Any) -> dict[str, Any]:
        config = small_config(self.directory)
        config["spark.speculation"] = "true"  # It must not matter; barrier stages have none.
        config["spark.speculation.interval"] = "10ms"
        config["spark.speculation.quantile"] = "0.1"
        config["spark.speculation.multiplier"] = "1.01"
        if self.master.startswith("local-cluster"):
            config["spark.executor.memory"] = "512m"
        if self.sink == "spark":
            config["spark.driver.extraClassPath"] = spark_peer.connector_classpath()
        return {
            "kind": self.sink,
            "master": self.master,
            "config": config,
            "bootstrap": self.broker.bootstrap,
            "topics": self.topics,
            "name": self.name,
            "checkpoint": str(self.directory / self.name),
            "rows": self.rows,
            "step": None,
            "after_batches": 0,
            "batches": None,
            **orders,
        }

    def _wait_for_work(self, driver: DriverProcess, batches: int) -> None:
        """Until the driver has begun to write, after so many batches of its life."""
        before = self._end()

        def is_working() -> bool:
            if driver.process.poll() is not None:
                raise AssertionError(f"the driver ended by itself\n{driver.text()[-8000:]}")
            if self.sink == "semel":
                begun = {line.split()[1] for line in driver.text().splitlines() if line.startswith("step ")}
                return len(begun) > batches
            return self._end() >= before + max(1, batches * self.rows)

        eventually(is_working, "the driver's first batches", seconds=LIFE_SECONDS)

    def _end(self) -> int:
        """How many records the topics have, committed or not."""
        partitions = [TopicPartition(topic, n) for topic in self.topics for n in range(PARTITIONS)]
        with Admin(bootstrap_servers=self.broker.bootstrap) as admin:
            ends = admin.list_offsets(
                dict.fromkeys(partitions, OffsetSpec.latest()), isolation_level="read_uncommitted"
            )
            return sum(one.offset or 0 for one in ends.values())

    def _strike(self, who: str, driver: DriverProcess) -> None:
        if who == "driver at random":
            os.killpg(driver.process.pid, signal.SIGKILL)
        if "worker" in who:
            eventually(lambda: _kill_a_worker(driver.process.pid), "a worker to kill", seconds=LIFE_SECONDS)
        if "broker" in who:
            self.broker.kill()
            self.broker.start()


def _kill_a_worker(driver_pid: int) -> bool:
    """One of the processes tasks run in: an executor's JVM where there is one, else a Python worker. Whether there was one."""
    below = _descendants(driver_pid)
    executors = [pid for pid, line in below.items() if "CoarseGrainedExecutorBackend" in line]
    workers = [pid for pid, line in below.items() if "pyspark.daemon" in line]
    victims = executors or workers[1:]  # The first forks the others.
    if not victims:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(random.choice(victims), signal.SIGKILL)
    return True


def _descendants(pid: int) -> dict[int, str]:
    """The processes below one, with their command lines."""
    parents, lines = dict[int, int](), dict[int, str]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                lines[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    found = dict[int, str]()
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        found.update((child, lines.get(child, "")) for child in sorted(level))
    return found


def kills(seed: int) -> Iterator[Kill]:
    """Every named step first, then anything."""
    dice = random.Random(seed)
    for step in Step:
        yield Kill("driver", step=step.value, after_batches=1)
    while True:
        who = dice.choice(KINDS)
        if who == "driver":
            step = dice.choice([*Step]).value
            is_first = step in (Step.LEDGER_READ.value, Step.LEDGER_SETTLED.value)
            yield Kill(who, step=step, after_batches=0 if is_first else dice.randrange(3))
        else:
            yield Kill(who, after_batches=dice.randrange(1, 3), seconds=dice.uniform(0, 1.0))


def unnamed_kills(seed: int) -> Iterator[Kill]:
    """Anybody at any time: for a sink whose steps are in processes of Spark's own."""
    dice = random.Random(seed)
    while True:
        who = dice.choice([one for one in KINDS if one != "driver"])
        yield Kill(who, after_batches=dice.randrange(1, 3), seconds=dice.uniform(0, 1.0))


def kills_of_drivers(_seed: int) -> Iterator[Kill]:
    """The plainest kill, for the peer."""
    while True:
        yield Kill("driver at random", after_batches=1)


_PLANS: Final = {"semel": kills, "dropin": unnamed_kills, "spark": kills_of_drivers}


@contextlib.contextmanager
def broker_for(kind: str, directory: Path) -> Iterator[Broker]:
    """A broker of a kind, in a process of its own."""
    if kind == "semel":
        with BrokerProcess(directory / "broker", **_QUICK) as semel:
            yield semel
        return
    home = kafka_peer.find(kafka_peer.DEFAULT_VERSION)
    with home.broker(directory / "broker", **_QUICK) as kafka:
        yield kafka


@dataclass
class Campaign:
    """Many lives, and what came of them."""

    kind: str
    master: str
    sink: str
    runs: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    lost: int = 0
    duplicated: int = 0
    torn: int = 0
    seconds: float = 0.0

    def play(self, runs: int, seed: int) -> None:
        """So many kills, a new story after every few."""
        started = time.monotonic()
        plan = _PLANS[self.sink](seed)
        with (
            tempfile.TemporaryDirectory(prefix="semel-kills-") as scratch,
            broker_for(self.kind, Path(scratch)) as broker,
        ):
            while self.runs < runs:
                self._story(Path(scratch) / unique("story"), broker, plan, runs)
        self.seconds += time.monotonic() - started

    def _story(self, directory: Path, broker: Broker, plan: Iterator[Kill], runs: int) -> None:
        story = Story(directory, broker, sink=self.sink, master=self.master)
        for _life in range(min(LIVES_PER_STORY, runs - self.runs)):
            kill = next(plan)
            story.live(kill)
            self.runs += 1
            self.killed[kill.who if kill.step is None else f"driver after {kill.step!r}"] += 1
            if self.sink == "semel":
                story.check_whole()
            sys.stderr.write(f"{self.kind} {self.master} {self.sink} {self.runs}: {kill}\n")
        verdict = story.finish()
        self.batches += verdict.batches
        self.lost += verdict.lost
        self.duplicated += verdict.duplicated
        self.torn += verdict.torn


def as_markdown(campaigns: Sequence[Campaign], command: str) -> str:
    """The page."""
    here = environment(command)
    lines = [
        "# Kills of the Spark sink",
        "",
        "A query writes every number to two topics through `TopicSink`; drivers, workers and brokers are killed with `kill -9` at",
        "every named step and at random, and the query goes on from its checkpoint. Counted is what a `read_committed` reader",
        "sees in the end. Spark's own Kafka sink goes through the same kills of its driver for comparison.",
        "",
        f"{here.date}, commit {here.commit}, {here.python}, {here.cores} cores of {here.processor}. Reproduce with",
        f"`{command}`.",
        "",
        "| sink | broker | master | kills | batches | lost | duplicated | torn | seconds |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    names = {
        "semel": "`TopicSink`",
        "dropin": '`writeStream.format("semel")`',
        "spark": "Spark's own Kafka sink",
    }
    lines += [
        f"| {names[one.sink]} | {one.kind} | `{one.master}` | {one.runs} | {one.batches} | {one.lost} | {one.duplicated} "
        f"| {one.torn} | {one.seconds:.0f} |"
        for one in campaigns
    ]
    lines += ["", "Who was killed, how often:", ""]
    for one in campaigns:
        for who, count in sorted(one.killed.items()):
            lines.append(f"- {one.kind}, `{one.master}`, {names[one.sink]}: {who}: {count}")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description="Kill anything around the Spark sink, and count.")
    parser.add_argument("--runs", type=int, default=200, help="kills in all (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--broker", choices=["semel", "kafka", "both"], default="both")
    parser.add_argument("--master", action="append", help=f"Spark's (default: local[2] and {CLUSTER})")
    parser.add_argument(
        "--duplicates", type=int, default=6, help="kills of Spark's own sink (default %(default)s)"
    )
    parser.add_argument(
        "--dropin", type=int, default=40, help="kills of the drop-in sink (default %(default)s)"
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the outcome to this page")
    options = parser.parse_args(arguments)
    kinds = ["semel", "kafka"] if options.broker == "both" else [options.broker]
    masters = options.master or ["local[2]", CLUSTER]
    share = -(-options.runs // (len(kinds) * len(masters)))
    campaigns = [Campaign(kind, master, "semel") for kind in kinds for master in masters]
    for number, campaign in enumerate(campaigns):
        campaign.play(share, options.seed + number)
    if options.dropin:
        for number, kind in enumerate(kinds):
            dropin = Campaign(kind, RETRYING, "dropin")
            dropin.play(-(-options.dropin // len(kinds)), options.seed + number)
            campaigns.append(dropin)
    if options.duplicates:
        peer = Campaign(kinds[-1], "local[2]", "spark")
        peer.play(options.duplicates, options.seed)
        campaigns.append(peer)
    page = as_markdown(campaigns, "python tests/spark/kill_story.py " + " ".join(arguments or sys.argv[1:]))
    sys.stdout.write(page)
    if options.write:
        options.write.write_text(page, encoding="utf-8")
    ours = [one for one in campaigns if one.sink != "spark"]
    return int(any((one.lost, one.duplicated, one.torn) != (0, 0, 0) for one in ours))


if __name__ == "__main__":
    sys.exit(main())
