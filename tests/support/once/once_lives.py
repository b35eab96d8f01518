"""Lives of workers that are killed: each is a process that counts its steps and kills itself, with SIGKILL, at one of them.

A program. It imports everything once and then forks a life for every line it reads: `{"life": "sink", …}` answers `{"pid":
…}`, `{"wait": pid}` answers how it ended. So a life costs a fork and its connections, not an interpreter.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import sqlalchemy as sa

from semel import Consumer, Producer
from semel.client.sync import consumer as _consumer  # Loaded before the first fork.
from semel.client.sync import producer as _producer
from semel.once import (
    Deduplicator,
    Inbox,
    InboxMessage,
    Outbox,
    RetryPolicy,
    SqlClaims,
    exactly_once_sink,
    process,
)
from semel.runtime.kernel_cache import warm
from semel.types import TopicPartition

_LOADED = (_consumer, _producer, *map(sa.create_engine, ("sqlite://", "postgresql+psycopg://")))
"""Whatever a life would import: it has it from the first fork on."""
_PATIENT = RetryPolicy(attempts_max=1_000, backoff_ms=1, backoff_max_ms=1)

metadata = sa.MetaData()
results = sa.Table(
    "results",
    metadata,
    sa.Column("round", sa.Text),
    sa.Column("partition", sa.Integer),
    sa.Column("record_offset", sa.BigInteger),
    sa.Column("key", sa.LargeBinary),
    sa.Column("value", sa.LargeBinary),
)
totals = sa.Table(
    "totals",
    metadata,
    sa.Column("round", sa.Text, primary_key=True),
    sa.Column("key", sa.LargeBinary, primary_key=True),
    sa.Column("total", sa.BigInteger, nullable=False),
)


class Steps:
    """Counts what this life does, and ends or freezes it."""

    def __init__(self, kill_at: int, freeze_at: int = 0) -> None:
        self.count = 0
        self._kill_at = kill_at
        self._freeze_at = freeze_at

    def __call__(self, *_: object) -> None:
        self.count += 1
        if self.count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.count == self._freeze_at:
            os.kill(os.getpid(), signal.SIGSTOP)  # Until somebody sends SIGCONT.

    def on(self, engine: sa.Engine) -> sa.Engine:
        """Before and after every statement, and before every commit."""
        for moment in ("before_cursor_execute", "after_cursor_execute", "commit"):
            sa.event.listen(engine, moment, self)
        return engine

    def around(self, target: Any, *methods: str) -> Any:
        """Before and after these methods of a client."""
        for name in methods:
            setattr(target, name, self._stepped(getattr(target, name)))
        return target

    def _stepped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **keywords: Any) -> Any:
            self()
            answer = method(*args, **keywords)
            self()
            return answer

        return stepped


def engine_of(life: Mapping[str, Any]) -> sa.Engine:
    """A connection for every worker; on SQLite, patience with one that is frozen while it writes."""
    patience = {"timeout": 60} if life["database"].startswith("sqlite") else {}
    return sa.create_engine(life["database"], pool_size=8, connect_args=patience)


def count_in(db: sa.Connection, name: str, record: Any, steps: Steps) -> None:
    """The work: a row for the record, and its amount added to its key's total. Done twice, both show it."""
    db.execute(
        sa.insert(results).values(
            round=name,
            partition=record.partition,
            record_offset=record.offset,
            key=record.key,
            value=record.value,
        )
    )
    added = db.execute(
        sa.update(totals)
        .where(totals.c.round == name, totals.c.key == record.key)
        .values(total=totals.c.total + int(record.value))
    )
    if added.rowcount == 0:
        db.execute(sa.insert(totals).values(round=name, key=record.key, total=int(record.value)))
    steps()


def consumer_of(life: Mapping[str, Any], steps: Steps, *, group: str) -> Consumer:
    settings = {
        "bootstrap.servers": life["bootstrap"],
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": life.get("reset", "none"),
        "max.poll.records": 5,
    }
    consumer: Consumer = steps.around(Consumer(settings), "poll", "commit", "seek")
    return consumer


def ends_of(life: Mapping[str, Any]) -> dict[TopicPartition, int]:
    return {TopicPartition(life["topic"], partition): end for partition, end in enumerate(life["ends"])}


def sink(life: Mapping[str, Any], steps: Steps) -> None:
    """Positions with results. Every life is a group of its own: only the database knows where to go on."""
    name, ends = life["name"], ends_of(life)
    counts = exactly_once_sink(steps.on(engine_of(life)), name=name)
    with consumer_of(life, steps, group=f"{name}-{os.getpid()}") as consumer:
        if life.get("assign"):
            counts.assign(consumer, list(ends))
        else:
            counts.subscribe(consumer, [life["topic"]])

        def work(db: sa.Connection, records: list[Any]) -> None:
            for record in records:
                count_in(db, name, record, steps)

        counts.run(consumer, work, timeout_ms=50, until=lambda: counts.positions() == ends)


def inbox(life: Mapping[str, Any], steps: Steps) -> None:
    name, ends = life["name"], ends_of(life)
    box = Inbox(steps.on(engine_of(life)), name=name, lease_ms=150, retries=_PATIENT)
    with consumer_of(life, steps, group=f"{name}-{os.getpid()}") as consumer:
        box.subscribe(consumer, [life["topic"]])

        def work(db: sa.Connection, message: InboxMessage) -> None:
            count_in(db, name, message, steps)

        box.run(
            consumer,
            work,
            timeout_ms=50,
            until=lambda: box.sink.positions() == ends and not box.unfinished(),
        )


def message_id(record: Any) -> str:
    return str(dict(record.headers)["id"].decode())


def claims(life: Mapping[str, Any], steps: Steps) -> None:
    """Message ids, which the topic repeats; offsets are committed after the work, one poll at a time."""
    name, ends = life["name"], ends_of(life)
    seen = SqlClaims(steps.on(engine_of(life)), name=name)
    with consumer_of({**life, "reset": "earliest"}, steps, group=name) as consumer:
        consumer.assign(list(ends))
        while {where: consumer.position(where) for where in ends} != ends:
            for record in consumer.poll(50):
                with seen.once(message_id(record)) as db:
                    if db is not None:
                        count_in(db, name, record, steps)
            consumer.commit()


def leases(life: Mapping[str, Any], steps: Steps) -> None:
    """Message ids again, with work that is not in the transaction of its mark: claim, work, done, commit."""
    name, ends = life["name"], ends_of(life)
    engine = steps.on(engine_of(life))
    dedup = Deduplicator(SqlClaims(engine, name=name), lease_ms=150)
    with consumer_of({**life, "reset": "earliest"}, steps, group=name) as consumer:
        consumer.assign(list(ends))
        while {where: consumer.position(where) for where in ends} != ends:
            for record in consumer.poll(50):
                with dedup.claim(message_id(record)) as mine:
                    if mine:
                        with engine.begin() as db:
                            count_in(db, name, record, steps)
            consumer.commit()


def pool(life: Mapping[str, Any], steps: Steps) -> None:
    """Eight workers; the work commits by itself, so that it may be repeated, but never lost."""
    name, ends = life["name"], ends_of(life)
    engine = steps.on(engine_of(life))

    def work(record: Any) -> None:
        with engine.begin() as db:
            values = {"partition": record.partition, "record_offset": record.offset}
            db.execute(sa.insert(results).values(round=name, key=record.key, value=record.value, **values))
        steps()

    with consumer_of({**life, "reset": "earliest"}, steps, group=name) as consumer:
        consumer.assign(list(ends))

        def committed() -> bool:
            found = consumer.committed(list(ends))
            return all((at := found[where]) is not None and at.offset == end for where, end in ends.items())

        process(consumer, work, workers=8, order="key", commit_interval_ms=20, until=committed)


def outbox(life: Mapping[str, Any], steps: Steps) -> None:
    """Writes its share of rows, if that was not done before, and relays until nothing waits."""
    name = life["name"]
    box = Outbox(steps.on(engine_of(life)), name=name, topic=life["topic"])
    for part in range(life["parts"]):
        with box.engine.begin() as db:
            if db.scalar(
                sa.select(sa.func.count()).where(results.c.round == name, results.c.partition == part)
            ):
                continue  # The rows of this part, and its own mark, were committed together by an earlier life.
            db.execute(sa.insert(results).values(round=name, partition=part))
            for n in range(life["rows"]):
                box.put(db, key=b"%d" % n, value=b"%d-%d" % (part, n), partition=0)
    settings = {"bootstrap.servers": life["bootstrap"]}
    producer = Producer({**settings, "transactional.id": name})
    steps.around(
        producer,
        *(
            "init_transactions",
            "begin_transaction",
            "send",
            "send_offsets_to_transaction",
            "commit_transaction",
        ),
    )
    with producer, consumer_of(life, steps, group=name) as consumer:
        box.relay(producer, consumer, rows_max=7).run(until=lambda: box.waiting() == 0)


LIVES: Mapping[str, Callable[[Mapping[str, Any], Steps], None]] = {
    "sink": sink,
    "inbox": inbox,
    "claims": claims,
    "leases": leases,
    "pool": pool,
    "outbox": outbox,
}


def live(life: Mapping[str, Any], answer: int) -> NoReturn:
    """One life, in a process of its own; it tells how many steps it had, if it lives to tell."""
    code = 1
    try:
        steps = Steps(life["kill_at"], life.get("freeze_at", 0))
        LIVES[life["life"]](life, steps)
        os.write(answer, b"%d" % steps.count)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    warm()  # Before the first fork, so that no life has to compile.
    answers: dict[int, int] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            pid = int(asked["wait"])
            _, status = os.waitpid(pid, 0)
            told = answers.pop(pid)
            steps = os.read(told, 100)
            os.close(told)
            print(
                json.dumps({"code": os.waitstatus_to_exitcode(status), "steps": int(steps or 0)}), flush=True
            )
            continue
        told, answer = os.pipe()
        pid = os.fork()
        if pid == 0:
            live(asked, answer)
        os.close(answer)
        answers[pid] = told
        print(json.dumps({"pid": pid}), flush=True)


if __name__ == "__main__":
    main()
