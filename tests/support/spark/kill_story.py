"""Kill anything, and count: the campaign of `kill_lives`, over sinks, brokers, and one machine or a cluster.

    python tests/support/spark/kill_story.py --runs 200 --write docs/spark-kills.md

plays that many kills of Semel's atomic sink, and fewer of its drop-in sink and of Spark's own, on Semel and on Apache Kafka, in local
mode and on a standalone cluster of a master and two workers. `--only atomic:kafka:cluster:30` plays one part of it; the page adds
parts up. Ends with 1 if anything of Semel's was lost, repeated or torn. A part on Apache Kafka ends early when the broker has left
transactions without a marker (`tests/support/transactions/markers_story.py`): what readers see then is no sink's doing, and the page tells it apart.
"""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

from semel.exceptions import KafkaException
from semel.peers import kafka as kafka_peer
from semel.runtime.environment import environment
from support.compat.compat_kit import BrokerProcess
from support.spark.kill_lives import Broker, HangingError, Lives, Verdict, WrongError
from support.spark.kill_page import Part, add, as_markdown
from support.spark.kill_plan import plan
from support.spark.spark_cluster import Cluster, standalone_cluster

QUERIES: Final = 5
CORES_OF_A_WORKER: Final = 6
"""Slots for the tasks of all queries, on either executor alone."""
LOCAL, CLUSTER = "local", "cluster"
WHERE: Final = {LOCAL: "one process", CLUSTER: "standalone, 2 workers"}
_QUICK: Final = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
_TWO_PHASE: Final = {"transaction_two_phase_commit_enable": "true"}


class Wanted(NamedTuple):
    """A part to be played."""

    sink: str
    broker: str
    where: str
    runs: int

    @classmethod
    def of(cls, text: str) -> "Wanted":
        """From `sink:broker:where:runs`."""
        sink, broker, where, runs = text.split(":")
        if (
            sink not in ("atomic", "dropin", "spark")
            or broker not in ("semel", "kafka")
            or where not in WHERE
        ):
            raise argparse.ArgumentTypeError(
                f"{text}: give SINK:BROKER:WHERE:RUNS, of atomic, dropin or spark, semel or kafka, local or cluster"
            )
        return cls(sink, broker, where, int(runs))


def whole(runs: int) -> list[Wanted]:
    """The campaign: the atomic sink in four places, the others beside it."""
    places = [(broker, where) for where in (LOCAL, CLUSTER) for broker in ("semel", "kafka")]
    share = -(-runs // len(places))
    return [
        *(Wanted("atomic", *place, share) for place in places),
        *(Wanted("dropin", *place, -(-share // 2)) for place in places),
        *(Wanted("spark", *place, 35) for place in places[:2]),
    ]


@contextlib.contextmanager
def broker_for(kind: str, directory: Path, **settings: str) -> Iterator[Broker]:
    """A broker of a kind, in a process of its own."""
    if kind == "semel":
        with BrokerProcess(directory / "broker", **_QUICK, **settings) as semel:
            yield semel
        return
    home = kafka_peer.find(kafka_peer.DEFAULT_VERSION)
    broker = kafka_peer.KafkaBroker(
        home,
        directory / "broker",
        settings={key.replace("_", "."): value for key, value in _QUICK.items()},
        heap="400M",
    )
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def play(wanted: Wanted, *, seed: int, scratch: Path, cluster: Cluster | None) -> tuple[Part, bool]:
    """One part: a broker, a few queries, and all their lives; and whether it came to its end. Ctrl-C ends it early."""
    here = environment("")
    directory = scratch / f"{wanted.sink}-{wanted.broker}-{wanted.where}-{seed}"
    directory.mkdir(parents=True)
    two_phase = _TWO_PHASE if (wanted.sink, wanted.broker) == ("dropin", "semel") else {}
    started, verdict, story, is_whole, is_theirs = time.monotonic(), Verdict(0, 0, 0, 0), "", True, False
    with (
        broker_for(wanted.broker, directory, **two_phase) as broker,
        Lives(directory, broker, wanted.sink, count=QUERIES, cluster=cluster, seed=seed) as lives,
    ):
        try:
            *lives_and_deaths, last = plan(
                wanted.sink, runs=wanted.runs, queries=QUERIES, on_cluster=cluster is not None, seed=seed
            )
            for life in lives_and_deaths:
                lives.live(life)
                _say(f"{wanted}: {lives.tally.runs.total()} runs, {time.monotonic() - started:.0f} s")
            verdict = lives.finish(last)
        except KeyboardInterrupt:
            is_whole, verdict = False, lives.cut_short()
        except WrongError as wrong:
            story = str(wrong)
            _say(story)
            is_theirs = isinstance(wrong, HangingError) and wanted.broker == "kafka"
            with contextlib.suppress(KafkaException):
                verdict = lives.verdict(but_hanging=is_theirs)
    for failure in lives.tally.failures:
        _say(failure)
    part = Part(
        sink=wanted.sink,
        broker=wanted.broker,
        where=WHERE[wanted.where],
        seed=seed,
        runs=dict(sorted(lives.tally.runs.items())),
        deaths=dict(sorted(lives.tally.deaths.items())),
        restarts=lives.tally.restarts,
        batches=verdict.batches,
        lost=verdict.lost,
        duplicated=verdict.duplicated,
        torn=verdict.torn,
        cpu_seconds=round(lives.tally.cpu_seconds, 1),
        seconds=round(time.monotonic() - started, 1),
        commit=here.commit,
        date=here.date,
        machine=f"{here.cores} cores of {here.processor}, {here.python}",
        story=story,
        is_theirs=is_theirs,
    )
    return part, is_whole


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description="Kill anything around Spark's sinks, and count.")
    parser.add_argument(
        "--runs", type=int, default=200, help="kills around the atomic sink (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", action="append", type=Wanted.of, metavar="SINK:BROKER:WHERE:RUNS", help="only this part"
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="add the outcome to this page")
    options = parser.parse_args(arguments)
    parts = list[Part]()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semel-kills-")))
        cluster: Cluster | None = None
        for wanted in options.only or whole(options.runs):
            if wanted.where == CLUSTER and cluster is None:
                cluster = stack.enter_context(
                    standalone_cluster(scratch / "cluster", cores=CORES_OF_A_WORKER)
                )
            part, is_whole = play(
                wanted,
                seed=options.seed,
                scratch=scratch,
                cluster=cluster if wanted.where == CLUSTER else None,
            )
            parts.append(part)
            if options.write:
                add(options.write, [part])
            if not is_whole:
                break
    sys.stdout.write(as_markdown(parts))
    return int(not all(one.is_right for one in parts if one.sink != "spark"))


if __name__ == "__main__":
    sys.exit(main())
