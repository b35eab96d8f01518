"""Drivers with several queries live and die: who is to be killed is killed at the step it was told, and what is committed is judged.

`Lives` plays the lives of one set of queries on one broker. A query stops at the step of its next kill (`kill_driver`); while it
stands there, what readers of committed records see is judged: exactly the batches before, whole and once. Then the victim is
killed with `kill -9`, and the query goes on: to its next kill, by itself or with the next driver. A run is one kill, met by a live
query, and judged after the query has recovered from it. The last life is left alone.
"""

import contextlib
import json
import os
import random
import signal
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self

import pyarrow as pa

import semel
from semel.exceptions import KafkaException
from semel.peers import spark as spark_peer
from semel.spark.python_path import use_python
from support.spark.kill_plan import (
    BROKER,
    CALM_STEP,
    DRIVER,
    ENDED_STEPS,
    EXECUTOR,
    FIRST_STEPS,
    STEPS,
    UNSETTLED_STEPS,
    WORKER,
    ZOMBIE,
    Kill,
    Life,
)
from support.spark.spark_cluster import Cluster
from support.spark.spark_kit import (
    DriverProcess,
    driver_process,
    eventually,
    new_topic,
    read_all,
    small_config,
    unique,
)

ROWS: Final = 40
PARTITIONS: Final = 3
LOCAL: Final = "local[12,4]"
"""Slots for the tasks of all queries at once; a task is tried again, as on a cluster."""
PATIENCE_SECONDS: Final = 300.0
_JUDGE_SECONDS: Final = 30.0
_TORN_SECONDS: Final = 5.0
_RANDOM_BATCHES: Final = 4
_RANDOM_SECONDS: Final = 1.2
_FAR: Final = 1_000_000
DAEMON: Final = "support.spark.kill_daemon"
_POSITIONS: Final = ("__consumer_offsets", "__semel_sink_ledger")
"""Where sinks keep how far they are."""
_DRIVER: Final = Path(__file__).with_name("kill_driver.py")
_TESTS: Final = Path(__file__).parents[2]
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Broker(Protocol):
    """A broker that can be killed and comes back where it was."""

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...


class Verdict(NamedTuple):
    """What is committed, compared with what should be."""

    batches: int
    lost: int
    duplicated: int
    torn: int

    @property
    def is_right(self) -> bool:
        return (self.lost, self.duplicated, self.torn) == (0, 0, 0)


def judged(topics: Sequence[pa.Array], rows: int, *, open_batch: int | None = None) -> Verdict:
    """Numbers of each topic, as they were read: lost, repeated, or in batches of which only a part is there.

    `open_batch` may be there in part: a sink that is atomic per task is in the middle of it.
    """
    counts = [Counter(int(one) for one in numbers.to_pylist()) for numbers in topics]
    duplicated = sum(count - 1 for each in counts for count in each.values())
    end = 1 + max((number for each in counts for number in each), default=-1)
    batches = -(-end // rows)
    if open_batch is not None:
        batches = min(batches, open_batch)
    lost = sum(number not in each for each in counts for number in range(batches * rows))
    torn = sum(
        0
        < sum(number in each for each in counts for number in range(n * rows, (n + 1) * rows))
        < len(counts) * rows
        for n in range(batches)
    )
    return Verdict(batches, lost, duplicated, torn)


class Parked(NamedTuple):
    """Where a query waits."""

    number: int
    batch: int
    step: str
    pid: int


class WrongError(AssertionError):
    """A promise was broken; the text tells the story."""


class HangingError(WrongError):
    """Readers wait for transactions that their coordinator calls complete and that have no marker: the broker's doing, not a sink's."""


@dataclass
class Query:
    """One query from its first life to its last."""

    folder: Path
    bootstrap: str
    sink: str
    rows: int = ROWS
    number: int = 0
    """Of the last order."""
    batch: int = -1
    """The last at which it was seen."""
    owed: list[Kill] = field(default_factory=list)
    """What it has met and not yet been judged for."""
    story: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = unique("query").replace("-", "")
        self.topics = [new_topic(self.bootstrap, word, partitions=PARTITIONS) for word in ("left", "right")]
        self.folder.mkdir(parents=True, exist_ok=True)

    def order(self, life: int, step: str, batch: int) -> None:
        """Where to wait next; lets it go from where it is."""
        self.number += 1
        order = {
            "number": self.number,
            "life": life,
            "step": step,
            "batch": batch,
            "fresh": step in FIRST_STEPS,
        }
        draft = self.folder / f"{self.name}.draft"
        draft.write_text(json.dumps(order))
        draft.rename(self.folder / f"{self.name}.order")

    def parked(self) -> Parked | None:
        """Where it waits, if it does."""
        with contextlib.suppress(FileNotFoundError):
            found = Parked(**json.loads((self.folder / f"{self.name}.at").read_text()))
            if found.number == self.number:
                self.batch = found.batch
                return found
        return None

    def verdict(self, open_batch: int | None = None) -> Verdict:
        """What is committed now."""
        found = [read_all(self.bootstrap, topic).column("value") for topic in self.topics]
        return judged([column.cast(pa.string()) for column in found], self.rows, open_batch=open_batch)

    def judge(self, at: Parked) -> None:
        """It waits: exactly the batches before are seen, and its own where the step says so. Markers take a moment."""
        is_ended = at.step in ENDED_STEPS
        expected = {at.batch + is_ended}
        if at.step in UNSETTLED_STEPS:
            expected.add(at.batch + 1)  # Who died before may have stored this batch, too.
        open_batch = at.batch if self.sink == "dropin" and not is_ended else None
        seen: Verdict | None = None

        def is_as_expected() -> bool:
            nonlocal seen
            with contextlib.suppress(KafkaException):
                seen = self.verdict(open_batch)
            return seen is not None and seen.is_right and seen.batches in expected

        try:
            eventually(is_as_expected, "", seconds=_JUDGE_SECONDS)
        except AssertionError:
            hanging = self.hanging()
            raise (HangingError if hanging else WrongError)(
                f"{self.name} waits at {at.step!r} of batch {at.batch}: expected {sorted(expected)} batches, found {seen}\n"
                + "\n".join([*hanging, *self._open_transactions(), *self.story])
            ) from None

    def hanging(self) -> list[str]:
        """Transactions that hold readers of this query's topics or positions back, and that nobody will ever end."""
        with semel.Admin(bootstrap_servers=self.bootstrap) as admin:
            there = {one.name for one in admin.list_topics(list_internal=True)}
            topics = [one for one in (*self.topics, *_POSITIONS) if one in there]
            found = admin.find_hanging_transactions(topics, older_than_ms=0)
            states = admin.describe_transactions(
                {one.transactional_id for one in found if one.transactional_id}
            )
        return [
            f"{one.transactional_id} is {states[one.transactional_id].state if one.transactional_id else 'unknown'} for its "
            f"coordinator, and open in {one.topic}-{one.partition} from offset {one.start_offset}"
            for one in found
        ]

    def _open_transactions(self) -> list[str]:
        """What may keep readers of committed records from going on."""
        with semel.Admin(bootstrap_servers=self.bootstrap) as admin:
            listed = admin.list_transactions(states=["Ongoing", "PrepareCommit", "PrepareAbort"])
            described = admin.describe_transactions([one.transactional_id for one in listed])
            return [f"{name}: {one}" for name, one in described.items()]

    def is_torn(self, at: Parked) -> bool:
        """Whether a part of the batch at which it waits is seen; a task that has written needs a moment to be."""

        def is_begun() -> bool:
            return self.verdict().batches > at.batch

        with contextlib.suppress(AssertionError):
            eventually(is_begun, "", seconds=_TORN_SECONDS)
        return self.verdict().torn > 0


@dataclass
class Tally:
    """What has been played."""

    runs: Counter[str] = field(default_factory=Counter)
    """By kill."""
    deaths: Counter[str] = field(default_factory=Counter)
    """Processes, by what they were."""
    restarts: int = 0
    """Queries that failed and were started again."""
    failures: list[str] = field(default_factory=list)
    """What they said."""
    torn: int = 0
    """Batches of which a part was seen, of a sink that does not promise otherwise."""
    cpu_seconds: float = 0.0


@dataclass
class Lives:
    """The lives of a set of queries."""

    directory: Path
    broker: Broker
    sink: str
    count: int = 4
    cluster: Cluster | None = None
    seed: int = 0
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.folder = self.directory / unique("lives")
        self.queries = [Query(self.folder, self.broker.bootstrap, self.sink) for _ in range(self.count)]
        self._life = 0
        self._dice = random.Random(self.seed)
        self._driver: DriverProcess | None = None
        self._zombie: tuple[DriverProcess, int] | None = None
        self._drivers = list[ExitStack]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for driver in self._drivers:
            driver.close()

    def live(self, life: Life) -> None:
        """A driver's life, which ends with the last kill of its queries."""
        self._end(self._meet(life))

    def finish(self, life: Life) -> Verdict:
        """A life that its driver survives, and two batches that nobody disturbs; then everything must be there."""
        self._meet(life)
        for query in self.queries:
            query.order(self._life, CALM_STEP[self.sink], query.batch + 1)
        self._all_settle()
        verdict = self.verdict()
        self._stop(DRIVER, is_counted=False)
        self.tally.cpu_seconds += self._cpu_of_broker()
        return verdict._replace(torn=verdict.torn + self.tally.torn)

    def cut_short(self) -> Verdict:
        """End in the middle of a life: what was judged counts, and what is committed is judged once more."""
        self._stop(DRIVER, is_counted=False)
        self.tally.cpu_seconds += self._cpu_of_broker()
        with contextlib.suppress(AssertionError):
            eventually(lambda: self.verdict().is_right, "", seconds=_JUDGE_SECONDS)
        verdict = self.verdict()
        return verdict._replace(torn=verdict.torn + self.tally.torn)

    def _meet(self, life: Life) -> list[Kill]:
        """All kills that the driver survives; then its queries wait for the one each that it does not, if there is one."""
        turns = [deque(kills) for kills in life]
        self._start([_step_of(turn, self.sink) for turn in turns])
        ready = set[int]()
        while len(ready) < len(self.queries):
            index, at = self._next(skip=ready)
            query, turn = self.queries[index], turns[index]
            self._settle(query, at)
            if not turn or turn[0].ends_the_life:
                ready.add(index)
                continue
            kill = turn.popleft()
            if not self._strike(query, at, kill, _step_of(turn, self.sink)):
                turn.appendleft(kill)
                self._aim(query, _step_of(turn, self.sink))
        return [turn[0] for turn in turns if turn]

    def verdict(self, *, but_hanging: bool = False) -> Verdict:
        """What is committed now, of all queries; what is under way does not count as torn."""
        verdicts = [
            query.verdict(open_batch=None if self.sink == "atomic" else query.batch)
            for query in self.queries
            if not (but_hanging and query.hanging())
        ]
        return Verdict(*map(sum, zip(*verdicts, strict=True))) if verdicts else Verdict(0, 0, 0, 0)

    # A life

    def _start(self, steps: Sequence[str]) -> None:
        self._life += 1
        if self._zombie is not None:
            # Each query must have replaced the old one for certain before that one wakes up.
            first = [next(step for step in STEPS[self.sink] if step in ENDED_STEPS)] * len(self.queries)
        else:
            first = list(steps)
        for query, step in zip(self.queries, first, strict=True):
            self._aim(query, step)
        orders = {
            "master": LOCAL if self.cluster is None else self.cluster.url,
            "config": self._config(),
            "folder": str(self.folder),
            "life": self._life,
            "sink": self.sink,
            "bootstrap": self.broker.bootstrap,
            "rows": ROWS,
            "queries": [
                {"name": one.name, "topics": one.topics, "checkpoint": str(self.folder / one.name)}
                for one in self.queries
            ],
        }
        environment = {"PYSPARK_PYTHON": use_python(is_local=True, environment={})}
        self._drivers.append(ExitStack())
        self._driver = self._drivers[-1].enter_context(
            driver_process(_DRIVER, [json.dumps(orders)], directory=self.folder, environment=environment)
        )
        if self._zombie is not None:
            self._all_settle()
            self._wake_the_zombie()
            self._all_settle()
            for query, step in zip(self.queries, steps, strict=True):
                self._aim(query, step)

    def _all_settle(self) -> None:
        """Wait for all of them, and judge each."""
        done = set[int]()
        while len(done) < len(self.queries):
            index, at = self._next(skip=done)
            self._settle(self.queries[index], at)
            done.add(index)

    def _config(self) -> dict[str, str]:
        config = small_config(self.folder)
        config |= {
            "spark.speculation": "true",  # It must not matter.
            "spark.speculation.interval": "100ms",
            "spark.speculation.quantile": "0.1",
            "spark.speculation.multiplier": "1.01",
            "spark.speculation.minTaskRuntime": "10ms",
            "spark.python.daemon.module": DAEMON,
        }
        if self.cluster is not None:
            config |= {
                "spark.executor.memory": "640m",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.executorEnv.PYTHONPATH": f"{_TESTS}:{_TESTS.parent / 'src'}",
            }
        if self.sink == "spark":
            jars = spark_peer.connector_classpath()
            config |= {"spark.driver.extraClassPath": jars, "spark.executor.extraClassPath": jars}
        return config

    def _next(self, skip: "set[int]") -> tuple[int, Parked]:
        """The next query that waits."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            for index, query in enumerate(self.queries):
                if index not in skip and (at := query.parked()) is not None:
                    return index, at
            self._check_driver()
            if time.monotonic() > deadline:
                waiting = {query.name: query.parked() for query in self.queries}
                hanging = sorted({line for query in self.queries for line in query.hanging()})
                text = (
                    f"a query does not come to its step: {waiting}\n" + "\n".join(hanging) + self._stories()
                )
                raise HangingError(text) if hanging else WrongError(f"{text}\n{self._text()}")
            time.sleep(0.02)

    def _check_driver(self) -> None:
        assert self._driver is not None
        if self._driver.process.poll() is not None:
            raise WrongError(f"the driver ended by itself\n{self._text()}")

    def _text(self) -> str:
        return "" if self._driver is None else self._driver.text()[-12000:]

    def _stories(self) -> str:
        return "\n".join(line for query in self.queries for line in ("", query.name, *query.story))

    def _settle(self, query: Query, at: Parked) -> None:
        """Judge what the query has met; from then on it is a run."""
        if self.sink == "spark":  # It promises nothing that could be broken; what it does is counted.
            self.tally.torn += query.is_torn(at)
        else:
            try:
                query.judge(at)
            except HangingError:
                raise
            except WrongError as wrong:
                raise WrongError(f"{wrong}\n{self._text()}") from None
        for kill in query.owed:
            self.tally.runs[str(kill)] += 1
        query.owed.clear()

    def _aim(self, query: Query, step: str) -> None:
        # A fresh start begins with the batch that was under way.
        query.order(self._life, step, query.batch + (step not in FIRST_STEPS))

    # Deaths

    def _strike(self, query: Query, at: Parked, kill: Kill, after: str) -> bool:
        """Kill around a query that waits or, at random, works, and have it go on. Whether it was met."""
        if kill.step is None:
            query.order(self._life, CALM_STEP[self.sink], at.batch + _RANDOM_BATCHES)
            time.sleep(self._dice.uniform(0, _RANDOM_SECONDS))
            if query.parked() is not None:
                return False  # It was faster; once more.
        victims = list[int]()
        if WORKER in kill.who:
            victims = self._workers(at if kill.step else None)
        elif kill.who == EXECUTOR:
            victims = self._executors(at if kill.step else None)
        if kill.who != BROKER and not victims:
            return False
        self._met(query, at, kill)
        if victims:
            victim = self._dice.choice(victims)
            self.tally.cpu_seconds += cpu_seconds([victim])
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            self.tally.deaths[EXECUTOR if kill.who == EXECUTOR else WORKER] += 1
        if BROKER in kill.who:
            self.tally.cpu_seconds += self._cpu_of_broker()
            self.broker.kill()
            self._aim(query, after)  # It goes on while there is no broker.
            self.broker.start()
            self.tally.deaths[BROKER] += 1
        else:
            self._aim(query, after)
        return True

    def _met(self, query: Query, at: Parked, kill: Kill) -> None:
        query.owed.append(kill)
        query.story.append(f"life {self._life}, batch {at.batch}: {kill}")

    def _cpu_of_broker(self) -> float:
        process: Any = getattr(self.broker, "process", None) or getattr(self.broker, "_process", None)
        return 0.0 if process is None else cpu_seconds([process.pid])

    def _workers(self, at: Parked | None) -> list[int]:
        """Python processes tasks run in: the one that waits, if one does."""
        below = self._below()
        command = f"-m {DAEMON}"  # The first forks the others.
        workers = [
            pid for pid, line in below.items() if command in line and command in below.get(_parent(pid), "")
        ]
        return [at.pid] if at is not None and at.pid in workers else workers

    def _executors(self, at: Parked | None) -> list[int]:
        """The application's executors: the one whose task waits, if one does."""
        application = self._application()
        found = [
            pid
            for pid, line in self._below().items()
            if "CoarseGrainedExecutorBackend" in line and application in line and "java" in line
        ]
        if at is not None:
            waiting = [pid for pid in (_parent(_parent(at.pid)),) if pid in found]
            return waiting or found
        return found

    def _below(self) -> dict[int, str]:
        assert self._driver is not None
        roots = [self._driver.process.pid]
        if self.cluster is not None:
            roots += [worker.process.pid for worker in self.cluster.workers]
        return descendants(roots)

    def _application(self) -> str:
        assert self._driver is not None
        return next(line.split()[1] for line in self._driver.text().splitlines() if line.startswith("app "))

    def _end(self, kills: Sequence[Kill]) -> None:
        """The driver's death, which all its queries wait for; or which meets them anywhere."""
        if kills[0].step is None:
            for query in self.queries:
                query.order(self._life, CALM_STEP[self.sink], query.batch + _FAR)
            time.sleep(self._dice.uniform(0.1, 2 * _RANDOM_SECONDS))
        for query, kill in zip(self.queries, kills, strict=True):
            self._met(query, Parked(query.number, query.batch, "", 0), kill)
        if kills[0].who == ZOMBIE:
            assert self._driver is not None
            os.killpg(self._driver.process.pid, signal.SIGSTOP)
            self._zombie = (self._driver, self._life)
            self.tally.deaths[ZOMBIE] += 1
            self._count_restarts()
            self.tally.cpu_seconds += cpu_seconds([self._driver.process.pid, *self._below()])
            return
        self._stop(DRIVER)

    def _wake_the_zombie(self) -> None:
        """It goes on where it was, and must find that it is replaced: every query of it fails, and then it ends."""
        assert self._zombie is not None
        (driver, life), self._zombie = self._zombie, None
        (self.folder / f"{life}.over").touch()
        os.killpg(driver.process.pid, signal.SIGCONT)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while driver.process.poll() is None:
            if time.monotonic() > deadline:
                raise WrongError(f"a replaced driver did not notice it\n{driver.text()[-8000:]}")
            time.sleep(0.02)
        self._drivers.pop(0).close()

    def _stop(self, who: str, *, is_counted: bool = True) -> None:
        assert self._driver is not None
        self._count_restarts()
        roots = [self._driver.process.pid]
        self.tally.cpu_seconds += cpu_seconds([*roots, *self._below()])
        self._drivers.pop().close()
        if is_counted:
            self.tally.deaths[who] += 1

    def _count_restarts(self) -> None:
        assert self._driver is not None
        failed = [line for line in self._driver.text().splitlines() if line.startswith("failed ")]
        self.tally.restarts += len(failed)
        self.tally.failures += failed


def _step_of(turn: "deque[Kill]", sink: str) -> str:
    """Where a query waits for its next kill."""
    return (turn[0].step if turn else None) or CALM_STEP[sink]


# Processes


def descendants(roots: Sequence[int]) -> dict[int, str]:
    """The processes below some, with their command lines."""
    parents = dict[int, int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            parents[int(entry.name)] = _parent(int(entry.name))
    found = dict[int, str]()
    level = set(roots)
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        found.update((child, _command(child)) for child in sorted(level))
    return found


def cpu_seconds(pids: Sequence[int]) -> float:
    """Processor time of processes and of the children they have waited for."""
    return sum(sum(map(int, _stat(pid)[11:15])) for pid in set(pids) if _stat(pid)) / _TICKS


def _stat(pid: int) -> list[str]:
    """The fields of a process from its state on; none if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
