"""A table on this machine whose process is killed at any step, and whose file is lost now and then: it must equal the model.

`play` runs lives of a `LocalFold` one after the other. A life counts its steps (every poll, send, commit and write of its store,
before and after) and kills itself with SIGKILL at one of them; the last one is left alone. As a program it plays many rounds:
`python tests/support/spark/fold_story.py --rounds 200`.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

from semel import Admin, ConsumerRecord, NewTopic, Producer
from semel.client.sync.consumer import Consumer
from semel.spark.pipelines.local_fold import LocalFold
from semel.spark.pipelines.local_store import LocalStore
from support.broker.broker_process import running_broker
from support.spark.spark_kit import read_all, unique
from support.spark.table_model import to_table

PARTITIONS: Final = 3
KEYS: Final = 25
RECORDS: Final = 240
_RECORDS_MAX: Final = 30
_STEPS: Final = (
    (Consumer, "poll"),
    (Producer, "send"),
    (Producer, "send_offsets_to_transaction"),
    (Producer, "commit_transaction"),
    (LocalStore, "apply"),
)


@dataclass(frozen=True)
class Played:
    """What a story was."""

    kills: int
    files_lost: int
    replayed: int
    """Records of the changelog that the last life read to rebuild its lost file."""
    replay_seconds: float


def add(old: bytes | None, record: ConsumerRecord) -> bytes | None:
    """A sum per key; a null value forgets the key."""
    return None if record.value is None else b"%d" % (int(old or 0) + int(record.value))


def write_amounts(bootstrap: str, topic: str, dice: random.Random) -> dict[bytes, bytes]:
    """Amounts for random keys, and the table they add up to."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])
    model: dict[bytes, int] = {}
    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(RECORDS):
            key, amount = b"key-%d" % dice.randrange(KEYS), dice.randrange(-50, 100)
            gone = dice.random() < 0.05
            producer.send(topic, None if gone else b"%d" % amount, key=key)
            if gone:
                model.pop(key, None)
            else:
                model[key] = model.get(key, 0) + amount
    return {key: b"%d" % value for key, value in model.items()}


def play(bootstrap: str, directory: Path, *, seed: int, lives: int) -> Played:
    """A topic, lives that are killed, one that is not; raises if the table is not the model."""
    dice = random.Random(seed)
    source, sums = unique("amounts"), unique("sums")
    model = write_amounts(bootstrap, source, dice)
    path = directory / f"{sums}.db"
    life = {"bootstrap": bootstrap, "source": source, "changelog": sums, "path": str(path)}
    plans = [{**life, "kill_at": dice.randrange(1, 90), "lose": dice.random() < 0.3} for _ in range(lives)]
    plans += [{**life, "kill_at": None, "lose": False}, {**life, "kill_at": None, "lose": True}]
    done = subprocess.run(
        [sys.executable, __file__, "--lives", json.dumps(plans)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ends) == len(plans), done.stderr[-4000:]
    final = {bytes.fromhex(key): bytes.fromhex(value) for key, value in ends[-1]["table"].items()}
    rows = read_all(bootstrap, sums).to_pydict()
    assert final == model, f"seed {seed}: the rebuilt table differs from the model"
    assert to_table(zip(rows["key"], rows["value"], strict=True)) == model, (
        f"seed {seed}: the changelog differs"
    )
    before = {bytes.fromhex(key): bytes.fromhex(value) for key, value in ends[-2]["table"].items()}
    assert before == model, f"seed {seed}: the table before its file was lost differs from the model"
    return Played(
        kills=sum(end["code"] != 0 for end in ends),
        files_lost=sum(bool(plan["lose"]) for plan in plans),
        replayed=ends[-1]["restored"],
        replay_seconds=ends[-1]["seconds"],
    )


def be_born(plans: list[dict[str, Any]]) -> None:
    """Fork a process for each life, one after the other, and tell how it ended."""
    for plan in plans:
        if plan["lose"]:
            for file in Path(plan["path"]).parent.glob(f"{Path(plan['path']).name}*"):
                file.unlink()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            live(plan, writer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as said:
            told = said.read()
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, -signal.SIGKILL):
            sys.exit(f"a life ended with {code}")
        print(json.dumps({"code": code, **(json.loads(told) if told else {})}), flush=True)


def live(plan: dict[str, Any], writer: int) -> None:
    """One life: catch up with the source, or die on the way."""
    count_steps(plan["kill_at"])
    began = time.perf_counter()
    with LocalFold(
        plan["path"],
        name=plan["changelog"],
        source=plan["source"],
        changelog=plan["changelog"],
        update=add,
        bootstrap=plan["bootstrap"],
        records_max=_RECORDS_MAX,
    ) as fold:
        seconds = time.perf_counter() - began
        fold.catch_up()
        table = {key.hex(): value.hex() for key, value in fold.table.items()}
        told = {"restored": fold.restored, "seconds": seconds, "table": table}
    with os.fdopen(writer, "w") as out:
        json.dump(told, out)


def count_steps(kill_at: int | None) -> None:
    """Make this process die at its `kill_at`th step."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            step()
            try:
                return function(*args, **keywords)
            finally:
                step()

        return call

    for owner, name in _STEPS:
        setattr(owner, name, counted(getattr(owner, name)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how many stories")
    parser.add_argument("--seed", type=int, default=0, help="of the first story")
    parser.add_argument("--lives", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.lives is not None:
        be_born(json.loads(options.lives))
        return
    kills = lost = 0
    with tempfile.TemporaryDirectory() as name, running_broker(Path(name) / "broker") as broker:
        for seed in range(options.seed, options.seed + options.rounds):
            played = play(broker.bootstrap, Path(name), seed=seed, lives=8)
            kills, lost = kills + played.kills, lost + played.files_lost
            print(
                f"seed {seed}: equal to the model; {played.kills} kills, {played.replayed} records replayed in "
                f"{played.replay_seconds:.2f} s",
                flush=True,
            )
    print(f"{options.rounds} stories, {kills} kills, {lost} files lost: every table equal to its model")


if __name__ == "__main__":
    main()
