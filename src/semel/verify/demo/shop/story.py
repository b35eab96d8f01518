"""The story of the shop: everything runs, everything is killed, and in the end every order counts once.

Role.   Behind `semel demo` and `make demo`. Everything is real: a broker's process, a till's, a Spark driver's, a connection
        that is really cut, and kill -9.
Flow.   broker -> topics and products -> the bad connection, used by everybody -> pipeline -> till -> faults by plan
        -> the till is done -> the pipeline finishes -> everything is read anew and judged.
Rules.  * A kill comes when the work has come so far, not at a time: a slow machine sees the same story.
        * One fault at a time, unless the plan says two at once: the next kill waits until the work of the last victim goes on.
        * A process that ends without being killed is started again, as an operator would, and told as what it is.
"""

import contextlib
import queue
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from semel import Admin, NewTopic, Producer
from semel.core.wire.registry import ApiKey
from semel.verify.demo.processes import BrokerProcess, Child, DemoFailedError
from semel.verify.demo.shop import model, topics
from semel.verify.demo.shop.audit import Watcher, read_all
from semel.verify.demo.shop.judgement import Verdict, judge
from semel.verify.demo.shop.model import Shop
from semel.verify.demo.shop.timeline import BROKER, DRIVER, NAMES, TILL, Fault, Sample, Timeline
from semel.verify.fault_proxy import Fate, FaultProxy, Plan, at_random

_TICK_SECONDS: Final = 0.2
_RESTARTS_MAX: Final = 5
_FAULTS_MAX: Final = 100_000
_DELAY_SECONDS_MAX: Final = 0.1
_CUTS: Final = {Fate.CUT_BEFORE: 0.008, Fate.CUT_AFTER: 0.012, Fate.DELAY: 0.03}
_COPIES: Final = {Fate.REPEAT: 0.03, Fate.LATE_COPY: 0.01}
_HARMED: Final = frozenset(
    {
        *(
            ApiKey.PRODUCE,
            ApiKey.FETCH,
            ApiKey.LIST_OFFSETS,
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.ADD_PARTITIONS_TO_TXN,
        ),
        *(ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN),
    }
)
_PACKAGE: Final = "semel.verify.demo.shop"


@dataclass(frozen=True, slots=True)
class Kill:
    """kill -9 of these processes at once, when this share of the order events is counted, or sent where it is the till's."""

    who: tuple[str, ...]
    at: float


KILLS: Final = (
    Kill((BROKER,), 0.12),
    Kill((TILL,), 0.35),
    Kill((DRIVER,), 0.35),
    Kill((BROKER,), 0.55),
    Kill((BROKER, DRIVER), 0.75),
)


@dataclass(frozen=True, slots=True)
class Script:
    """What is played."""

    shop: Shop
    transactions_per_second: float = 10.0
    kills: tuple[Kill, ...] = KILLS
    batch_rows_max: int = 20_000
    seconds_max: float = 600.0
    pipeline: tuple[str, ...] = (sys.executable, "-m", f"{_PACKAGE}.pipeline")
    """The program, which is given `--bootstrap`, `--directory` and `--batch-rows-max`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of the story."""

    verdict: Verdict
    timeline: Timeline
    requests: int
    """All that went through the bad connection."""


@dataclass(slots=True)
class _Part:
    """A program of the story, over all its lives."""

    who: str
    start: Callable[[], Child]
    child: Child | None = None
    restarts: int = 0
    is_up: bool = False
    done: bool = False

    @property
    def state(self) -> str:
        if self.child is None:
            return "closed"
        return "done" if self.done else "up" if self.is_up else "starting"


@dataclass(slots=True)
class Story:
    """One performance, in a folder of its own; `show` is called a few times a second."""

    script: Script
    folder: Path
    show: Callable[[Timeline, Mapping[str, str]], None]
    timeline: Timeline = field(init=False)
    _started: float = field(init=False, default=0.0)
    _broker: BrokerProcess = field(init=False)
    _proxy: FaultProxy = field(init=False)
    _parts: dict[str, _Part] = field(init=False, default_factory=dict)
    _kills: list[Kill] = field(init=False)

    def play(self) -> Outcome:
        """From the beginning to the verdict."""
        shop = self.script.shop
        self._started = time.monotonic()
        self.timeline = Timeline(total=len(shop.all_events()))
        self._kills = list(self.script.kills)
        self._broker = BrokerProcess(self.folder / "broker" / "data")
        try:
            self._broker.start()
            self._tell(f"a broker serves on {self._broker.bootstrap}")
            self._open_the_shop()
            self._proxy = FaultProxy(self._broker.bootstrap, bad_connection(shop.seed), exchanges_max=0)
            with self._proxy, Watcher(self._proxy.bootstrap) as watcher, self._programs():
                while not self._parts[DRIVER].done:
                    self._step(watcher)
                    time.sleep(_TICK_SECONDS)
            self._tell("reading every topic from its beginning, and comparing with the model")
            self._show()
            verdict = judge(shop, read_all(self._broker.bootstrap))
        finally:
            self._broker.stop()
        return Outcome(verdict, self.timeline, sum(self._proxy.tally.values()))

    # Before

    def _open_the_shop(self) -> None:
        with Admin(bootstrap_servers=self._broker.bootstrap) as admin:
            admin.create_topics(
                [
                    NewTopic(
                        name,
                        num_partitions=partitions,
                        configs={"cleanup.policy": "compact"} if name in topics.TABLES else {},
                    )
                    for name, partitions in topics.PARTITIONS.items()
                ]
            )
        with Producer(bootstrap_servers=self._broker.bootstrap) as producer:
            producer.send_arrow(topics.PRODUCTS, model.encode_products()).result()

    @contextlib.contextmanager
    def _programs(self) -> Iterator[None]:
        for who, start in ((TILL, self._start_till), (DRIVER, self._start_driver)):
            self._parts[who] = _Part(who, start)
        try:
            self._parts[DRIVER].child = self._start_driver()
            self._tell("Spark starts")
            yield
        finally:
            for part in self._parts.values():
                if part.child is not None:
                    part.child.end()

    def _start_till(self) -> Child:
        shop = self.script.shop
        arguments = {
            "--bootstrap": self._proxy.bootstrap,
            "--seed": shop.seed,
            "--transactions": shop.transactions,
            "--orders": shop.orders,
            "--minutes": shop.minutes,
            "--per-second": self.script.transactions_per_second,
        }
        return self._child("till", (sys.executable, "-m", f"{_PACKAGE}.till"), arguments)

    def _start_driver(self) -> Child:
        arguments = {
            "--bootstrap": self._proxy.bootstrap,
            "--directory": self.folder / "pipeline",
            "--batch-rows-max": self.script.batch_rows_max,
        }
        child = self._child("pipeline", self.script.pipeline, arguments)
        if self._parts[TILL].done and not self._kills:
            child.say("finish")
        return child

    def _child(self, name: str, program: tuple[str, ...], arguments: Mapping[str, object]) -> Child:
        words = [str(word) for pair in arguments.items() for word in pair]
        return Child(name, [*program, *words], self.folder / f"{name}.log", environment={})

    # On the way

    def _step(self, watcher: Watcher) -> None:
        if watcher.failure is not None:
            raise watcher.failure
        if (code := self._broker.code) is not None:
            raise DemoFailedError(f"the broker ended by itself (code {code}): {self._broker.last_words()}")
        self._sample(watcher)
        for part in self._parts.values():
            self._hear(part)
            self._look_after(part)
        self._recovered()
        self._kill_what_is_due()
        if self.timeline.last.seconds > self.script.seconds_max:
            raise DemoFailedError(
                f"not done after {self.script.seconds_max:.0f} s: {self.timeline.last.counted:,} of "
                f"{self.timeline.total:,} order events are counted; {self._last_words()}"
            )
        self._show()

    def _sample(self, watcher: Watcher) -> None:
        counts, tally = watcher.counts(), self._proxy.tally
        self.timeline.samples.append(
            Sample(
                seconds=self._now(),
                sent=counts.get(topics.ORDERS, 0),
                counted=counts.get(topics.CLEAN, 0) + counts.get(topics.REJECTED, 0),
                cuts=tally[Fate.CUT_BEFORE] + tally[Fate.CUT_AFTER] + tally[Fate.LATE_COPY],
                delays=tally[Fate.DELAY],
                copies=tally[Fate.REPEAT] + tally[Fate.LATE_COPY],
            )
        )

    def _hear(self, part: _Part) -> None:
        """Take up the program's lines: it is at work, or done."""
        child = part.child
        while child is not None:
            try:
                line = child.lines.get_nowait()
            except queue.Empty:
                return
            part.is_up = part.is_up or line == "ready" or line.startswith("committed ")
            if line == "ready":
                self._tell("the pipeline's three queries run")
                self._open_the_till()

    def _open_the_till(self) -> None:
        """Once there is somebody to count: a machine on which Spark starts slowly sees the same story."""
        till = self._parts[TILL]
        if till.child is None:
            till.child = self._start_till()
            self._tell("the till opens")

    def _look_after(self, part: _Part) -> None:
        """Whether it has ended, and how."""
        if part.child is None or part.done or (code := part.child.code) is None:
            return
        self._hear(part)
        if code == 0:
            part.done = True
            self._tell(
                "the till has sent everything" if part.who == TILL else "the pipeline has written everything"
            )
            if part.who == TILL:
                self._finish_if_due()
            return
        part.restarts += 1
        if part.restarts > _RESTARTS_MAX:
            raise DemoFailedError(f"{NAMES[part.who]} ended {part.restarts} times: {part.child.last_words()}")
        self._tell(f"{NAMES[part.who]} ended by itself (code {code}): started again")
        self.timeline.faults.append(Fault(part.who, self._now(), on_purpose=False))
        self._start_again(part)

    def _recovered(self) -> None:
        """Whose work goes on again?"""
        last = self.timeline.last
        for fault in self.timeline.faults:
            if fault.back_seconds is not None or fault.who == BROKER or not self._parts[fault.who].is_up:
                continue
            before = max(
                (s for s in self.timeline.samples if s.seconds <= fault.seconds), key=lambda s: s.seconds
            )
            if fault.who == TILL or last.counted > before.counted or last.counted == last.sent:
                fault.back_seconds = last.seconds
                self._tell(f"{NAMES[fault.who]} is at work again after {last.seconds - fault.seconds:.1f} s")

    def _kill_what_is_due(self) -> None:
        if any(fault.back_seconds is None for fault in self.timeline.faults):
            return
        if not all(part.is_up for part in self._parts.values()):
            return
        last = self.timeline.last
        for kill in list(self._kills):
            done = (last.sent if kill.who == (TILL,) else last.counted) / self.timeline.total
            if done >= kill.at:
                self._kills.remove(kill)
                self._kill(kill.who)
                self._finish_if_due()
                return

    def _kill(self, who: tuple[str, ...]) -> None:
        if who == (TILL,) and self._parts[TILL].done:
            self._tell("the till is done before it could be killed")
            return
        self._tell(f"kill -9: {' and '.join(NAMES[one] for one in who)}")
        self._show()
        faults = {one: Fault(one, self._now()) for one in who}
        self.timeline.faults += faults.values()
        for one in who:
            if one == BROKER:
                self._broker.kill()
            else:
                child = self._parts[one].child
                if child is not None:
                    child.end()
        for one in who:
            if one == BROKER:
                self._broker.start()
                self._proxy.point_to(self._broker.bootstrap)
                faults[one].back_seconds = self._now()
                spent = self._now() - faults[one].seconds
                self._tell(f"the broker has recovered and serves again after {spent:.1f} s")
            else:
                self._start_again(self._parts[one])

    def _start_again(self, part: _Part) -> None:
        part.is_up = False
        if part.child is not None:
            part.child.end()
        part.child = part.start()

    def _finish_if_due(self) -> None:
        """Once there is nothing more to send and nobody left to kill, the pipeline may come to its end."""
        child = self._parts[DRIVER].child
        if self._parts[TILL].done and not self._kills and child is not None:
            child.say("finish")

    # For people

    def _now(self) -> float:
        return time.monotonic() - self._started

    def _tell(self, what: str) -> None:
        self.timeline.happenings.append((self._now(), what))

    def _show(self) -> None:
        states = {who: part.state for who, part in self._parts.items()}
        self.show(self.timeline, {BROKER: "up", **states})

    def _last_words(self) -> str:
        words = [
            f"the {part.child.name} said: {part.child.last_words()}"
            for part in self._parts.values()
            if part.child is not None
        ]
        return "; ".join(words)


def bad_connection(seed: int) -> Plan:
    """Cuts and delays for everything that reads, writes and commits; and some Produce requests arrive twice."""
    cuts = at_random(seed, _CUTS, keys=_HARMED, faults_max=_FAULTS_MAX, delay_max_seconds=_DELAY_SECONDS_MAX)
    copies = at_random(seed + 1, _COPIES, faults_max=_FAULTS_MAX, delay_max_seconds=_DELAY_SECONDS_MAX)

    def plan(key: ApiKey, count: int) -> tuple[Fate, float]:
        copied = copies(key, count)
        return cuts(key, count) if copied[0] is Fate.PASS else copied

    return plan
