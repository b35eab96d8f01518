"""A proof on real brokers: nothing is found where every promise is kept, and what is broken on purpose is found.

Method: short runs with real clients, a real proxy and a real broker in a process of its own, which is killed. A producer that
numbers nothing must be caught; a history kept in a file must give the same judgement.
"""

import asyncio
import json
import random
import re
import secrets
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from semel import Admin, NewTopic
from semel.cli.main import cli
from semel.cli.verify import _again
from semel.peers.kafka import KafkaBroker
from semel.types import TopicPartition
from semel.verify.demo.processes import BrokerProcess
from semel.verify.fault_proxy import Fate, FaultProxy
from semel.verify.faults import disturber
from semel.verify.faults.harmed_process import HarmedBroker
from semel.verify.history.events import (
    COMMITTED,
    UNCOMMITTED,
    Acked,
    Began,
    Drained,
    Ended,
    Fault,
    Polled,
    Position,
    Took,
)
from semel.verify.history.lines import from_lines, rounds_of, to_lines
from semel.verify.proof import judge as judging
from semel.verify.proof import round as proof_round
from semel.verify.proof import runner
from semel.verify.proof.anomalies import Anomaly, Finding
from semel.verify.proof.group_members import GroupMember
from semel.verify.proof.index import Index
from semel.verify.proof.judge import Limits, counts, judge, unread
from semel.verify.proof.options import Options, ProofError
from semel.verify.proof.page import html
from semel.verify.proof.programs import PlainWriter, Reader, Stage, TransactionalWriter
from semel.verify.proof.report import as_document, as_text
from semel.verify.proof.runner import Proof, prove
from semel.verify.proof.timeline import summary

PARTITIONS = 3
TOPICS = 5
GROUPS = 3
PATIENT = Limits(stuck_seconds=600, unavailable_seconds=600)
"""A machine that has other things to do breaks no promise."""


def silent(_stage: Stage, _what: str) -> None:
    """Nobody looks."""


def proof_of(options: Options) -> Proof:
    return asyncio.run(prove(replace(options, limits=PATIENT), silent))


@pytest.fixture(scope="module")
def proof() -> Proof:
    """Of a broker of its own, to which everything is done, one after the other."""
    left = ["network", "freeze", "kill", "slow-disk", "clock", "torn-write", "full-disk"]

    def one_after_the_other(disturbing: disturber.Disturber) -> list[str]:
        harm = left.pop()
        if not left:
            disturbing.stage.seconds = disturbing.stage.now()  # The last one, and it is over.
        return [harm]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disturber.Disturber, "possible", one_after_the_other)
        patch.setattr(disturber, "_TORN_WITHIN_SECONDS", 300.0)  # As long as it takes: somebody will write.
        options = Options(
            seconds=600, round_seconds=600, seed=4, partitions=PARTITIONS, writers=1, fault_seconds=0.2
        )
        return proof_of(options)


def topics(bootstrap: str) -> set[str]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return {one.name for one in admin.list_topics()}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster that is not the proof's own."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker") / "data")
    broker.start()
    yield broker.bootstrap
    broker.kill()


def test_a_broker_keeps_every_promise_whatever_is_done_to_it(proof: Proof) -> None:
    assert proof.findings == []
    done = sorted(proof.faults)
    killed = ("the broker killed (kill -9)", "the broker killed within a write (kill -9)")
    for what in (*killed, "the broker frozen", "the disk full", "the disk slow"):
        assert what in done
    assert any(what.startswith("the clock set ") for what in done)
    assert sum(proof.faults.values()) == 7
    assert any(isinstance(event, Fault) and event.blocks for event in proof.history)
    told = proof.summary
    assert told.acknowledged > 0
    assert told.committed > 0
    assert told.positions > 0
    assert proof.vitals or sys.platform != "linux"


def test_programs_of_groups_read_what_was_written_in_transactions(proof: Proof) -> None:
    """And what they are handed is written down: what was aborted among it would be found (`test_mutated_broker`)."""
    index = Index.of(proof.history)
    for kind, program in (("-inputs", "transformer-"), ("-grouped", "-member-")):
        handed = {
            value
            for _, poll in index.all_polls()
            if program in poll.process and poll.topic.endswith(kind)
            for _, value in poll.records
        }
        in_transactions = {value for values in index.parts.values() for value in values}
        assert handed & in_transactions
        assert handed - in_transactions


def test_nothing_is_left_unread(proof: Proof) -> None:
    """Every partition of every topic was read to its end, by readers of both kinds, and every position was asked for.

    Once by those who read along; then from the beginning, by others: what is gone by then was lost.
    """
    drained = [event for event in proof.history if isinstance(event, Drained)]
    for isolation in (COMMITTED, UNCOMMITTED):
        read = [event for event in drained if event.isolation == isolation]
        assert len(read) == 2 * TOPICS * PARTITIONS
        assert len({(event.process, event.topic, event.partition) for event in read}) == len(read)
        last = {event.process for event in read[TOPICS * PARTITIONS :]}
        assert len(last) == 1
        began = next(place for place, event in enumerate(proof.history) if event.at >= read[0].at)
        assert not any(
            isinstance(event, Polled) and event.process in last for event in proof.history[:began]
        ), "it has seen nothing before"
    assert sum(isinstance(event, Position) for event in proof.history) == GROUPS * PARTITIONS


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, with limits of a patient judge: whether it was quick enough is no matter of these tests."""
    for module in (runner, judging):
        monkeypatch.setattr(module, "judge", lambda history, _limits=None: judge(history, PATIENT))


@pytest.fixture
def all_twice(monkeypatch: pytest.MonkeyPatch, patient: None) -> None:
    """The same, on a way on which every request arrives twice now and then."""
    monkeypatch.setattr(disturber, "_WAY", {"requests that arrive twice": {Fate.REPEAT: 0.5, Fate.ECHO: 0.5}})


@pytest.mark.mission("IDEM-05")
@pytest.mark.usefixtures("all_twice")
def test_producers_without_numbers_are_caught(bootstrap: str, tmp_path: Path) -> None:
    document, page = tmp_path / "proof.json", tmp_path / "proof.html"
    options = ["--against", bootstrap, "--seconds", "4", "--seed", "1", "--fault-every", "0.2"]
    files = ["--json", str(document), "--html", str(page)]
    what = ["idempotence", "transactions", "--without-idempotence"]
    done = CliRunner().invoke(cli, ["verify", *what, *options, *files])
    assert done.exit_code == 1, done.output
    found = json.loads(document.read_text())
    assert {name for name, number in found["counts"].items() if number} == {"duplicate"}
    whys = [one["why"] for one in found["findings"]]
    assert all(why.startswith("writer-") for why in whys), "the others number what they send"
    assert "was sent once and lies 2 times" in done.output
    assert "Promises were broken" in page.read_text()


@pytest.mark.java
def test_kafka_keeps_every_promise_too(kafka_broker: KafkaBroker) -> None:
    found = proof_of(
        Options(against=kafka_broker.bootstrap, seconds=4, seed=2, partitions=PARTITIONS, fault_seconds=0.5)
    )
    assert found.findings == []
    assert any(isinstance(event, Ended) and event.outcome == "committed" for event in found.history)
    assert any(isinstance(event, Took) for event in found.history)


def test_the_report_says_what_was_done_and_looked_for(proof: Proof) -> None:
    text = "\n".join(as_text(proof, "semel verify --seed 4"))
    for anomaly in Anomaly:
        assert anomaly.value in text
    assert "Every promise was kept. Seed 4; again: semel verify --seed 4" in text
    document = json.loads(json.dumps(as_document(proof, "again")))
    assert document["kept"] is True
    assert document["counts"] == {anomaly.name.lower(): 0 for anomaly in counts([])}
    assert sum(document["faults"].values()) == sum(isinstance(event, Fault) for event in proof.history)
    page = html(proof, "again <&>")
    assert page.count("<polyline") == 8, "seven panels, one of them with two lines"
    assert "again &lt;&amp;&gt;" in page


@pytest.mark.usefixtures("patient")
def test_a_kept_history_is_judged_again(proof: Proof, tmp_path: Path) -> None:
    kept = tmp_path / "history.jsonl"
    lines = list(to_lines(proof.history))
    kept.write_text("\n".join(lines), encoding="utf-8")
    assert CliRunner().invoke(cli, ["verify", "--judge", str(kept)]).exit_code == 0
    polls = [line for line in lines if '"Polled"' in line]
    kept.write_text("\n".join(line for line in lines if line not in polls[-3:]), encoding="utf-8")
    judged = CliRunner().invoke(cli, ["verify", "--judge", str(kept)])
    assert judged.exit_code == 1, judged.output


@pytest.mark.mission("IDEM-05", "GUIDE-06")
@pytest.mark.usefixtures("all_twice")
def test_idempotence_alone_says_what_was_sent_and_stored(bootstrap: str) -> None:
    """Network faults, repeats and load in one command.

    Its exit code is 0 only if nothing is duplicated, lost or out of order; a test above sees it be 1 under the same faults.
    """
    options = [
        "--against",
        bootstrap,
        "--seconds",
        "3",
        "--seed",
        "5",
        "--fault-every",
        "0.2",
        "--writers",
        "4",
    ]
    done = CliRunner().invoke(cli, ["verify", "idempotence", *options])
    assert done.exit_code == 0, done.output
    said = {line.split()[0]: line.split()[1] for line in done.output.splitlines() if len(line.split()) == 2}
    assert said["sent"] == said["stored"] != "0"
    assert (said["duplicated"], said["lost"], said["reordered"]) == ("0", "0", "0")
    assert "Transactions: 0 committed" in done.output
    harmed = re.search(r"Faults in (\d+) s .*? (\d[\d,]*) requests harmed on the way", done.output)
    assert harmed, done.output
    assert harmed[2] != "0", "requests did arrive twice"
    assert re.search(r"Records: [1-9][\d,]* acknowledged, ", done.output)
    assert re.search(r"Acknowledged after \d+\.\d ms in the median, p99 \d+ ms\.", done.output)


@pytest.mark.usefixtures("patient")
def test_the_command(tmp_path: Path, bootstrap: str) -> None:
    document, page = tmp_path / "proof.json", tmp_path / "proof.html"
    options = [
        "--against",
        bootstrap,
        "--seconds",
        "1",
        "--writers",
        "1",
        "--fault-every",
        "0",
        "--seed",
        "9",
    ]
    files = ["--json", str(document), "--html", str(page)]
    done = CliRunner().invoke(cli, ["verify", "idempotence", *options, *files])
    assert done.exit_code == 0, done.output
    assert "Every promise was kept." in done.output
    assert re.search(
        r"^ +\d+ s of 1: [1-9][\d,]* acknowledged, 0 transactions, .*; calm: ", done.stderr, re.MULTILINE
    )
    assert json.loads(document.read_text())["seed"] == 9
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.usefixtures("patient")
def test_a_partition_that_cannot_be_read_proves_nothing(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What was seen until then is told and written, with the seed that nobody chose and the command that plays it again."""
    drain = Reader.drain
    drained: list[str] = []

    async def late(reader: Reader, deadline: float) -> list[TopicPartition]:
        drained.append(reader.name)
        return await drain(reader, deadline) if len(drained) <= 4 else [TopicPartition("records", 1)]

    monkeypatch.setattr(Reader, "drain", late)
    monkeypatch.setattr(secrets, "randbelow", lambda _below: 4711)
    document, page, kept = tmp_path / "proof.json", tmp_path / "proof.html", tmp_path / "history.jsonl"
    files = ["--json", str(document), "--html", str(page), "--history", str(kept)]
    options = [
        "--against",
        bootstrap,
        "--seconds",
        "3",
        "--round",
        "1",
        "--writers",
        "1",
        "--fault-every",
        "0",
    ]
    done = CliRunner().invoke(cli, ["verify", "idempotence", *options, *files])
    assert done.exit_code == 1
    assert isinstance(done.exception, ProofError)
    told = done.stdout
    assert "Nothing is proved: reader of committed could not read records-1 to its end" in told
    assert "Seed 4711; again: semel verify idempotence --seed 4711 --seconds 3 " in told
    assert "Every promise was kept" not in told
    assert Anomaly.LOST.value not in told, "nothing was counted"
    found = json.loads(document.read_text())
    assert (found["kept"], found["seed"], found["rounds"], found["counts"]) == (False, 4711, 2, None)
    assert found["error"].startswith("reader of committed could not read records-1")
    assert "</span>Nothing is proved</h1>" in page.read_text()
    assert Anomaly.LOST.value not in page.read_text()
    with kept.open() as lines:
        first, second = rounds_of(from_lines(lines))
    assert (first[0], second[0]) == (Began(first[0].at, 0), Began(second[0].at, 1))
    for history in (first, second):
        assert any(isinstance(event, Acked) for event in history)
    assert judge(first, PATIENT) == []
    assert not unread(first)
    assert unread(second)


@pytest.mark.usefixtures("patient")
def test_the_history_of_every_round_is_kept_and_judged_again(bootstrap: str, tmp_path: Path) -> None:
    kept = tmp_path / "history.jsonl"
    options = [
        "--against",
        bootstrap,
        "--seconds",
        "2",
        "--round",
        "1",
        "--writers",
        "1",
        "--fault-every",
        "0",
    ]
    done = CliRunner().invoke(cli, ["verify", "idempotence", *options, "--history", str(kept)])
    assert done.exit_code == 0, done.output
    lines = kept.read_text().splitlines()
    sent = re.search(r"sent +([\d,]+)\n", done.output)
    assert sent
    assert sum('"Sent"' in line for line in lines) == int(sent[1].replace(",", ""))
    assert '"Began"' in lines[0]
    judged = CliRunner().invoke(cli, ["verify", "--judge", str(kept)])
    assert judged.exit_code == 0, judged.output
    second = lines.index(next(line for line in lines[1:] if '"Began"' in line))
    polls = [number for number in range(second) if '"Polled"' in lines[number]]
    kept.write_text(
        "\n".join(line for number, line in enumerate(lines) if number not in polls), encoding="utf-8"
    )
    judged = CliRunner().invoke(cli, ["verify", "--judge", str(kept)])
    assert judged.exit_code == 1
    assert "acknowledged at offset" in judged.output, "the first round is judged, not only the last"


def test_a_proof_that_never_began_tells_its_seed(bootstrap: str) -> None:
    settings = ["-X", "security.protocol=SASL_SSL", "--against", bootstrap, "--seed", "12"]
    done = CliRunner().invoke(cli, ["verify", "idempotence", *settings])
    assert isinstance(done.exception, ProofError)
    assert "Seed 12; again: semel verify idempotence --seed 12 " in done.stderr


def test_what_is_encrypted_cannot_be_harmed_on_the_way(bootstrap: str) -> None:
    settings = {"security.protocol": "SASL_SSL"}
    with pytest.raises(ProofError, match=r"cannot read what is encrypted.*--fault-every 0"):
        proof_of(Options(against=bootstrap, workloads=("idempotence",), settings=settings, seconds=1))


def test_a_long_proof_is_played_in_rounds_on_topics_of_their_own(bootstrap: str) -> None:
    seen: list[Stage] = []

    def look(stage: Stage, _what: str) -> None:
        if stage not in seen:
            seen.append(stage)

    before = topics(bootstrap)
    options = Options(
        against=bootstrap, workloads=("idempotence",), seconds=2, round_seconds=1, writers=1, fault_seconds=0
    )
    found = asyncio.run(prove(replace(options, limits=PATIENT), look))
    assert (found.rounds, found.findings) == (2, [])
    assert len(seen) == 2
    assert found.summary.sent == sum(summary(stage.history).sent for stage in seen)
    assert found.summary.stored == found.summary.sent > summary(found.history).sent
    assert sum(found.timeline.acked.values()) == found.summary.acknowledged
    assert topics(bootstrap) == before


def test_a_finding_ends_a_proof_of_many_rounds(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its topics are kept, to be looked at."""
    finding = Finding(Anomaly.LOST, "gone")
    monkeypatch.setattr(runner, "judge", lambda _history, _limits: [finding])
    options = Options(
        against=bootstrap, workloads=("idempotence",), seconds=3, round_seconds=1, writers=1, fault_seconds=0
    )
    before = topics(bootstrap)
    found = proof_of(options)
    assert (found.rounds, found.findings) == (1, [finding])
    assert len(topics(bootstrap) - before) == 1


def test_a_group_that_does_not_come_to_its_end_is_found(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for calm in ("_CALM_SECONDS", "_CLUSTER_CALM_SECONDS"):
        monkeypatch.setattr(proof_round, calm, 1.0)

    async def idle(_member: GroupMember, _consumer: object, _process: str, _owed: object) -> None:
        await asyncio.sleep(0.1)

    monkeypatch.setattr(GroupMember, "_read", idle)
    found = proof_of(Options(against=bootstrap, workloads=("groups",), seconds=1, writers=1, fault_seconds=0))
    assert {one.anomaly for one in found.findings} == {Anomaly.GROUP_STUCK}


def test_a_fault_that_was_asked_for_and_cannot_be_done_is_told(bootstrap: str) -> None:
    command = [
        "verify",
        "idempotence",
        "--against",
        bootstrap,
        "--seconds",
        "1",
        "--fault",
        "kill",
        "--fault",
        "network",
    ]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code != 0
    assert "kill cannot be done here: it needs a broker of its own" in str(done.exception or done.output)
    alone = Options(against=bootstrap, workloads=("idempotence",), seconds=1, faults=("cut-off",))
    with pytest.raises(
        ProofError, match="cut-off cannot be done here: it needs a cluster of several brokers"
    ):
        proof_of(alone)


def test_a_workload_of_which_nothing_was_stored_proves_nothing(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def idle(_writer: TransactionalWriter) -> None:
        """Nobody lets it."""

    monkeypatch.setattr(TransactionalWriter, "run", idle)
    options = Options(
        against=bootstrap, workloads=("idempotence", "transactions"), seconds=1, writers=1, fault_seconds=0
    )
    with pytest.raises(ProofError, match=r"transactions: no transaction was committed, so nothing is proved"):
        proof_of(options)


def test_writers_write_at_least_once(bootstrap: str) -> None:
    """However little time there was, and whatever was open before."""
    began = time.monotonic()
    stage = Stage(
        {"bootstrap.servers": bootstrap}, "late", lambda: time.monotonic() - began, 0.0, 1, 0.01, 10_000
    )
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("late", 1)])

    async def write() -> None:
        await PlainWriter(stage, "plain", "late", random.Random(1)).run()
        await TransactionalWriter(stage, "transactional", "late", random.Random(1)).run()

    asyncio.run(write())
    found = summary(stage.history)
    assert (found.committed, found.lives) == (1, 1)
    assert found.acknowledged == found.sent > found.committed


def disturbing(broker: HarmedBroker, proxy: FaultProxy) -> disturber.Disturber:
    class Hasty(random.Random):
        """Waits for nothing."""

        def uniform(self, a: float, b: float) -> float:
            return 0.0

    stage = Stage({}, "run", lambda: 10.0, 60.0, 1, 0.01, 1000)
    return disturber.Disturber(stage, proxy, Hasty(1), 1.0, broker)


def test_a_fault_on_the_way_that_nobody_met_is_told_as_such() -> None:
    with FaultProxy("127.0.0.1:1") as proxy:
        one = disturbing(HarmedBroker(Path("unused")), proxy)
        asyncio.run(one._harm("network"))
    assert [what.rpartition(": ")[2] for what in one.kinds] == ["nobody met it"]


@pytest.mark.parametrize("kind", ["kill", "torn-write", "freeze", "full-disk", "clock"])
def test_a_broker_that_ended_by_itself_is_not_started_again(kind: str) -> None:
    class Crashed(HarmedBroker):
        @property
        def code(self) -> int | None:
            return 70

        def start(self) -> None:
            raise AssertionError("its end is hidden")

    with FaultProxy("127.0.0.1:1") as proxy:
        one = disturbing(Crashed(Path("unused")), proxy)
        with pytest.raises(disturber.BrokerEndedError, match="the broker ended by itself, with 70"):
            asyncio.run(one._harm(kind))
    assert one.kinds == {}


def test_a_history_without_its_end_is_no_proof(proof: Proof, tmp_path: Path) -> None:
    kept = tmp_path / "history.jsonl"
    half = [event for event in proof.history if not isinstance(event, Drained)]
    kept.write_text("\n".join(to_lines(half)), encoding="utf-8")
    judged = CliRunner().invoke(cli, ["verify", "--judge", str(kept)])
    assert judged.exit_code != 0
    assert "was not read to its end in it, so it proves nothing" in str(judged.exception or judged.output)
    kept.write_text("", encoding="utf-8")
    assert CliRunner().invoke(cli, ["verify", "--judge", str(kept)]).exit_code != 0


def test_the_command_to_repeat_it_has_everything_but_secrets() -> None:
    settings = {"client.rack": "a b", "sasl.jaas.config": 'password="p"', "sasl.password": "p"}
    options = Options(
        against="h:1",
        settings=settings,
        workloads=("idempotence", "spark"),
        seconds=90,
        round_seconds=30,
        seed=7,
        partitions=2,
        writers=3,
        fault_seconds=0.5,
        faults=("kill", "clock"),
        life_seconds=5,
    )
    words = shlex.split(_again(options, without_idempotence=True))
    assert words == [
        *("semel", "verify", "idempotence", "spark", "--seed", "7", "--seconds", "90", "--writers", "3"),
        *("--partitions", "2", "--fault-every", "0.5", "--fault", "kill", "--fault", "clock", "--life", "5"),
        *("--round", "30", "--against", "h:1", "-X", "client.rack=a b", "-X", "sasl.jaas.config=..."),
        *("-X", "sasl.password=...", "--without-idempotence"),
    ]


def test_only_what_is_asked_for_and_possible_is_done() -> None:
    stage = Stage({}, "run", lambda: 10.0, 60.0, 1, 0.01, 1000)
    broker = HarmedBroker(Path("unused"))
    with FaultProxy("127.0.0.1:1") as proxy:
        alone = disturber.Disturber(stage, proxy, random.Random(1), 1.0)
        assert alone.possible() == ["network"]
        own = disturber.Disturber(stage, proxy, random.Random(1), 1.0, broker, ("kill", "clock", "cut-off"))
        assert own.possible() == ["kill", "clock"]
        assert own.impossible() == ["cut-off"]
        young = replace(own, life_seconds=11.0)
        assert young.possible() == ["clock"], "it is not killed before it has lived so long"


def test_a_broker_grows_old_through_many_rounds() -> None:
    """Each round has a disturber of its own; the broker is the same."""

    class Aged(HarmedBroker):
        age_seconds = 0.0

    broker = Aged(Path("unused"))
    with FaultProxy("127.0.0.1:1") as proxy:
        for age, may_die in ((119.0, False), (239.0, False), (361.0, True)):
            broker.age_seconds = age
            stage = Stage({}, "run", lambda: 0.0, 60.0, 1, 0.01, 1000)
            one = disturber.Disturber(
                stage, proxy, random.Random(1), 1.0, broker, ("kill", "torn-write", "freeze"), 360.0
            )
            assert one.possible() == (["kill", "torn-write", "freeze"] if may_die else ["freeze"])
