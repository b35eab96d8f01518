"""Brokers of a cluster are killed in turn while producers write with acks=all, and every record is looked for afterwards.

Role.   `KillRounds.play` is one round: new topics, Kafka's VerifiableProducer on one and librdkafka on the other, Kafka's
        VerifiableConsumer behind the first; each broker is killed once with `kill -9` and comes back; then judgement.
Rules.  * Broker and moment are drawn from a seed. A dead broker comes back at once, somewhere within its session, or once the cluster has
          gone on without it. While its former session lives, a broker is refused; its supervisor starts it again, as in production.
        * Right is: every acknowledged value is there once, at its offset, in order, on every replica and for a consumer; replicas are
          equal byte for byte; no producer was told of an error; nothing that a consumer saw is gone (I4).
"""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from semel.peers.kafka import KafkaHome, PeerFailedError
from support.cluster import replica_files
from support.cluster.judging import paths
from support.cluster.load import (
    Ack,
    Load,
    Verdict,
    VerifiableLoad,
    VerifiableReader,
    as_stored,
    consumed,
    judge,
)
from support.cluster.members import Member
from support.cluster.mixed_cluster import KAFKA, SESSION_MS, MixedCluster

SPREAD: Final = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
AT_ONCE, WITHIN, AFTER = "at once", "within its session", "once the others went on"
MOMENTS: Final = (AFTER, WITHIN, AT_ONCE)
_RESTART_SECONDS: Final = 180.0


class Kill(NamedTuple):
    """Who dies, and when it comes back."""

    broker: int
    back: str


@dataclass(slots=True)
class Tally:
    """What a round, or several, came to."""

    kills: Counter[str] = field(default_factory=Counter)
    """By the kind of broker, its place, and when it came back."""
    acked: int = 0
    seen: int = 0
    lost: int = 0
    duplicated: int = 0
    misplaced: int = 0
    disordered: int = 0
    differing: int = 0
    unseen: int = 0
    errors: int = 0
    renewed: int = 0
    """Numbers that a client wrote again, under a new epoch of its own."""
    refused_starts: int = 0
    stories: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return not self.stories

    def add(self, other: "Tally") -> None:
        self.kills.update(other.kills)
        for name in (
            *("acked", "seen", "lost", "duplicated", "misplaced"),
            *("disordered", "differing", "unseen", "errors", "renewed", "refused_starts"),
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.stories += other.stories


def plan(cluster: MixedCluster, dice: random.Random) -> list[Kill]:
    """Every broker once, in some order, and back at some moment. Who alone can control is not waited for by the others."""
    brokers, moments = list(cluster.ids), list(MOMENTS)
    dice.shuffle(brokers)
    dice.shuffle(moments)
    alone = cluster.of_kind(KAFKA) if len(cluster.of_kind(KAFKA)) == 1 else []
    return [
        Kill(broker, WITHIN if broker in alone and back == AFTER else back)
        for broker, back in zip(brokers, moments, strict=True)
    ]


class KillRounds:
    """Rounds on one cluster."""

    def __init__(self, cluster: MixedCluster, home: KafkaHome, directory: Path, dice: random.Random) -> None:
        self._cluster = cluster
        self._home = home
        self._directory = directory
        self._dice = dice

    def play(self, number: int, kills: Sequence[Kill]) -> Tally:
        """One round. Its topics are deleted if all was right."""
        cluster, tally = self._cluster, Tally()
        verifiable, loaded = f"verifiable-{number}", f"loaded-{number}"
        topics = (verifiable, loaded)
        for topic in topics:
            cluster.create(topic, SPREAD, {"min.insync.replicas": "2"})
        log = self._directory / f"round-{number}"
        with (
            VerifiableReader(
                self._home, cluster.bootstrap, verifiable, log.with_suffix(".consumer")
            ) as reader,
            VerifiableLoad(
                *(self._home, cluster.bootstrap, verifiable, log.with_suffix(".producer")),
                partitions=len(SPREAD),
            ) as kafkas,
            Load(cluster.bootstrap, loaded, len(SPREAD), pause_seconds=0.01) as load,
        ):
            for kill in kills:
                kafkas.wait_acks(50)
                load.wait_acks(20)
                self._kill(kill, topics, load, tally)
                cluster.wait_in_sync(*topics)
                for topic in topics:
                    cluster.elect_preferred(topic)
            kafkas.wait_acks(50)
            load.wait_acks(20)
            load.finish()
            kafkas.finish()
            cluster.wait_in_sync(*topics)
            reader.wait_seen({ack.value for ack in kafkas.acks})
        for topic, acks, errors in (
            (verifiable, kafkas.acks, kafkas.errors),
            (loaded, load.acks, load.errors),
        ):
            if errors:
                tally.errors += len(errors)
                tally.stories.append(f"{topic}: {errors[:5]}")
            self._judge(topic, acks, tally)
        self._judge_reader(verifiable, reader, tally)
        if tally.is_right:
            for topic in topics:
                cluster.delete(topic)
        return tally

    def _kill(self, kill: Kill, topics: Sequence[str], load: Load, tally: Tally) -> None:
        cluster, member = self._cluster, self._cluster.members[kill.broker]
        is_controller = cluster.controller() == kill.broker
        time.sleep(self._dice.uniform(0, 0.3))  # Anywhere between two fetches, not where a round always is.
        member.kill()
        match kill.back:
            case "once the others went on":
                for topic in topics:
                    cluster.wait_out_of_sync(topic, kill.broker)
                load.wait_acks(20)
            case "within its session":
                time.sleep(self._dice.uniform(0, SESSION_MS / 1000))
        tally.refused_starts += start_again(member)
        cluster.wait_registered(kill.broker)
        who = f"{member.kind}{', the controller' if is_controller else ''}"
        tally.kills[f"{who}, back {kill.back}"] += 1

    def _judge(self, topic: str, acks: Sequence[Ack], tally: Tally) -> None:
        """The files of all replicas, and what a consumer is given."""
        cluster = self._cluster
        ends = {}
        renewed: set[int] = set()
        for partition in cluster.assignment(topic):
            replicas = paths(cluster, topic, partition)
            if found := replica_files.settled_differences(replicas):
                tally.differing += len(found)
                tally.stories.append(f"{topic}-{partition}: {found}")
            mine = [ack for ack in acks if ack.partition == partition]
            for name, path in replicas.items():
                files = replica_files.read(path)
                ends[partition] = files.log_end
                own = files.renewed()
                renewed |= own
                verdict = judge(mine, {partition: as_stored(files.records())})
                _note(tally, f"{topic}-{partition} on {name}", verdict.without(own))
        verdict = judge(acks, consumed(cluster.bootstrap, topic, ends))
        _note(tally, f"a consumer of {topic}", verdict.without(renewed))
        tally.renewed += len(renewed)
        tally.acked += len(acks)

    def _judge_reader(self, topic: str, reader: VerifiableReader, tally: Tally) -> None:
        """Whatever VerifiableConsumer saw, while brokers died, is there to the end."""
        for partition in self._cluster.assignment(topic):
            _, path = next(iter(paths(self._cluster, topic, partition).items()))
            there = set(as_stored(replica_files.read(path).records()))
            gone = [
                one
                for one in reader.seen
                if one.partition == partition and (one.offset, one.value) not in there
            ]
            if gone:
                tally.unseen += len(gone)
                tally.stories.append(f"{topic}-{partition}: seen and gone {gone[:5]}")
        tally.seen += len(reader.seen)


def _note(tally: Tally, where: str, verdict: Verdict) -> None:
    tally.lost += len(verdict.lost)
    tally.duplicated += len(verdict.duplicated)
    tally.misplaced += len(verdict.misplaced)
    tally.disordered += len(verdict.disordered)
    if not verdict.is_right:
        tally.stories.append(f"{where}: {verdict}")


def start_again(member: Member) -> int:
    """Start it until it stays, as a supervisor does. How often it was refused because its former session still lived."""
    deadline = time.monotonic() + _RESTART_SECONDS
    refused = 0
    while True:
        try:
            member.start()
        except PeerFailedError as failed:
            if not member.is_refused_for_its_former_session(str(failed)) or time.monotonic() > deadline:
                raise
            refused += 1
        else:
            return refused
