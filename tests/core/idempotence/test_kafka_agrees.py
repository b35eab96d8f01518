"""Apache Kafka's own ProducerStateManager must give the same verdicts, entries, offsets and snapshots as ours.

Method: thousands of random histories (data from clients, coordinators and replicas, markers of both transaction
versions, verification guards, high watermark, expiry, reload from snapshot) are run through `ProducerState` here, each
step's answer written down as one line; then one JVM runs the same steps through Kafka's classes
(`tests/java/ProducerStateOracle.java`) and every line must be equal.
"""

import random
from collections import Counter
from pathlib import Path

import pytest

from semel.core.idempotence import snapshot
from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import Append, Duplicate, ProducerEntry, Verdict
from semel.core.records.batch import HEADER_SIZE, BatchHeader, write_header
from semel.errors import CorruptSnapshotError, Refuse
from semel.peers.kafka import KafkaHome
from support.idempotence.idempotence_kit import NOW_MS, header

ORACLE = Path(__file__).parents[2] / "java" / "ProducerStateOracle.java"
HISTORIES = 1_500
EXPIRATION_MS = 10_000
TXN_TIMEOUT_MAX_MS = 900_000
LAST = 2**31 - 1
EPOCH_MAX = 32767


class Script:
    """Our partition, the lines that tell its story to Kafka, and the answers we gave."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.answers: list[str] = []
        self.seen: Counter[str] = Counter()
        self.tokens: list[int] = []
        self.state = ProducerState()
        self.sent: list[BatchHeader] = []
        self.now_ms = NOW_MS

    def say(self, line: str, answer: str) -> None:
        self.lines.append(line)
        self.answers.append(answer)
        self.seen[
            f"{line[0]} {answer.split(' ', maxsplit=1)[0] if line[0] in 'DMV' else ''}{_code(answer)}"
        ] += 1

    def begin(self) -> None:
        verify = self.rng.random() < 0.3
        self.state = ProducerState(producer_id_expiration_ms=EXPIRATION_MS, verification_required=verify)
        self.tokens, self.sent = [], []
        self.say(f"N {EXPIRATION_MS} {int(verify)}", "ok")
        self.tick(0)

    def tick(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self.say(f"T {self.now_ms}", "ok")

    @property
    def offset(self) -> int:
        return self.state.map_end_offset

    def batch(self) -> BatchHeader:
        """Something a producer might send: the next batch, a resend, or something close."""
        rng = self.rng
        producer_id = rng.choice((1, 1, 2, 3, -1))
        transactional = rng.random() < 0.4
        count = rng.choice((1, 1, 2, 3, 10))
        timestamp_ms = self.now_ms - rng.choice((0, 0, 0, 5, EXPIRATION_MS - 1, EXPIRATION_MS))
        window = self.state.producers.get(producer_id)
        epoch, sequence = rng.choice((0, 0, 1)), rng.choice((0, 0, 3, LAST, LAST - 1, -1))
        if window is not None:
            transactional = (
                window.has_open_transaction or transactional if rng.random() < 0.9 else transactional
            )
            epoch, sequence = window.producer_epoch, (window.last_sequence + 1) & LAST
            kind = rng.random()
            resends = [one for one in self.sent if one.producer_id == producer_id]
            if kind < 0.3 and resends:
                return rng.choice(resends[-7:])._replace(base_offset=self.offset)
            if kind < 0.45:
                epoch, sequence = (
                    min(epoch + rng.choice((-2, -1, 1, 2)), EPOCH_MAX),
                    rng.choice((0, 0, 1, sequence, -1)),
                )
            elif kind < 0.6:
                sequence = rng.choice((sequence + rng.randrange(-4, 5), -1, 0)) % 2**31
        return header(
            producer_id,
            epoch,
            sequence,
            count,
            offset=self.offset,
            timestamp_ms=timestamp_ms,
            transactional=transactional,
        )

    def data(self) -> None:
        batch = self.batch()
        origin = self.rng.choice("CCCCCCKR")
        token_index = (
            self.rng.randrange(len(self.tokens)) if self.tokens and self.rng.random() < 0.7 else None
        )
        window = self.state.producers.get(batch.producer_id)
        if origin == "R" and window is not None and window.has_open_transaction:
            batch = batch._replace(
                attributes=header(transactional=True).attributes
            )  # Kafka throws on replay, we go on.
        verdict: Verdict = Append()
        if origin != "R":
            verdict = self.state.judge(
                batch,
                by_coordinator=origin == "K",
                verification_token=None if token_index is None else self.tokens[token_index],
            )
        if isinstance(verdict, Append):
            self.state.record(batch)
            self.sent.append(batch)
        raw = bytearray(HEADER_SIZE)
        write_header(raw, 0, batch)
        guard = "-" if token_index is None else str(token_index)
        self.say(f"D {origin} {guard} {raw.hex()}", _verdict(verdict))

    def marker(self) -> None:
        rng = self.rng
        producer_id = rng.choice((1, 1, 2, 3))
        window = self.state.producers.get(producer_id)
        epoch = (0 if window is None else window.producer_epoch) + rng.choice((0, 0, 1, 1, -1))
        epoch = EPOCH_MAX if rng.random() < 0.03 else max(0, min(epoch, EPOCH_MAX))
        coordinator_epoch = (0 if window is None else window.coordinator_epoch) + rng.choice((0, 0, 0, 1, -1))
        origin, version = rng.choice((("K", 0), ("K", 1), ("K", 2), ("K", 2), ("R", -1)))
        commit = rng.random() < 0.5
        marker = {"producer_id": producer_id, "producer_epoch": epoch, "coordinator_epoch": coordinator_epoch}
        offset, timestamp_ms = self.offset, self.now_ms - rng.choice((0, 0, 7))
        line = f"M {origin} {version} {producer_id} {epoch} {coordinator_epoch} {int(commit)} {offset} {timestamp_ms}"
        if origin == "K":
            verdict = self.state.judge_marker(transaction_version=version, **marker)
            if isinstance(verdict, Refuse):
                self.say(line, _verdict(verdict))
                return
        done = self.state.record_marker(commit=commit, offset=offset, timestamp_ms=timestamp_ms, **marker)
        if done is None:
            self.say(line, "A")
            return
        lso = self.state.last_stable_offset_after(done)
        self.state.complete(done)
        self.say(
            line, f"A {done.producer_id} {done.first_offset} {done.last_offset} {int(done.is_aborted)} {lso}"
        )

    def verification(self) -> None:
        producer_id, epoch = self.rng.choice((1, 1, 2, 3)), self.rng.choice((0, 0, 1, 2))
        window = self.state.producers.get(producer_id)
        if window is not None and self.rng.random() < 0.7:
            epoch = window.producer_epoch
        sequence, bump = self.rng.choice((0, 0, 1, 5)), self.rng.random() < 0.5
        token = self.state.start_verification(
            producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            supports_epoch_bump=bump,
            now_ms=self.now_ms,
        )
        line = f"V {producer_id} {epoch} {sequence} {int(bump)}"
        match token:
            case Refuse():
                self.say(line, _verdict(token))
            case None:
                self.say(line, "V none")
            case int():
                if token not in self.tokens:
                    self.tokens.append(token)
                self.say(line, f"V {self.tokens.index(token)}")

    def high_watermark(self) -> None:
        offset = self.rng.randrange(self.offset + 1)
        self.state.on_high_watermark(offset)
        self.say(f"H {offset}", "ok")

    def log_start(self) -> None:
        offset = self.rng.randrange(self.offset + 1)
        if 0 < offset < self.offset:
            self.state.on_log_start_offset(offset)
            self.say(f"O {offset}", "ok")

    def expire(self) -> None:
        self.tick(self.rng.choice((1, EXPIRATION_MS // 2, EXPIRATION_MS, TXN_TIMEOUT_MAX_MS // 2)))
        self.state.expire(self.now_ms)
        self.say(f"X {self.now_ms}", "ok")

    def reload(self) -> None:
        if self.offset == 0:
            return
        entries = snapshot.decode(snapshot.encode(self.state.entries()))
        fresh = ProducerState(
            producer_id_expiration_ms=EXPIRATION_MS, verification_required=self.state.verification_required
        )
        self.tokens = []  # Guards are not saved; the old ones hold nothing open any more.
        fresh.load(entries, map_end_offset=self.offset, now_ms=self.now_ms)
        self.state = fresh
        self.say(f"L 0 {self.now_ms}", "ok")

    def show(self) -> None:
        state = self.state
        late = state.has_late_transaction(self.now_ms, transaction_timeout_max_ms=TXN_TIMEOUT_MAX_MS)
        self.say(
            f"? {self.now_ms}",
            f"P {_producers(state.entries())} unstable={_text(state.first_unstable_offset)} "
            f"undecided={_text(state.first_undecided_offset)} end={state.map_end_offset} late={int(late)}",
        )
        self.say("S", snapshot.encode(state.entries()).hex())
        self.say(
            f"R {snapshot.encode(state.entries(), keep_windows=True).hex()}",
            f"P {_producers(snapshot.decode(snapshot.encode(state.entries())))}",
        )


def _code(answer: str) -> str:
    return answer.removeprefix("E") if answer.startswith("E ") else ""


def _verdict(verdict: Verdict) -> str:
    match verdict:
        case Append():
            return "A"
        case Duplicate(base_offset=base, last_offset=last, timestamp_ms=time):
            return f"D {base} {last} {time}"
        case Refuse(code=code):
            return f"E {int(code)}"


def _text(value: int | None) -> str:
    return "none" if value is None else str(value)


def _producers(entries: list[ProducerEntry]) -> str:
    return ";".join(
        f"{one.producer_id}/{one.producer_epoch}/{one.coordinator_epoch}/{one.last_timestamp_ms}/"
        f"{_text(one.current_txn_first_offset)}/["
        + ",".join(
            f"{b.first_sequence}:{b.last_sequence}:{b.last_offset}:{b.offset_delta}:{b.timestamp_ms}"
            for b in one.batches
        )
        + "]"
        for one in entries
    )


def write_script(seed: int, histories: int) -> Script:
    rng = random.Random(seed)
    script = Script(rng)
    steps = (
        script.data,
        script.marker,
        script.verification,
        script.high_watermark,
        script.log_start,
        script.expire,
        script.reload,
    )
    for _ in range(histories):
        script.begin()
        for step in rng.choices(steps, weights=(60, 18, 8, 5, 2, 3, 2), k=rng.randrange(5, 45)):
            step()
            if rng.random() < 0.12:
                script.show()
        script.show()
    return script


@pytest.mark.java
def test_kafka_gives_the_same_answers(kafka_home: KafkaHome) -> None:
    script = write_script(seed=431, histories=HISTORIES)
    theirs = kafka_home.run(str(ORACLE), stdin="\n".join(script.lines) + "\n").splitlines()
    assert len(theirs) == len(script.answers)
    for number, (line, ours, kafkas) in enumerate(zip(script.lines, script.answers, theirs, strict=True)):
        if ours != kafkas:
            start = max(i for i in range(number + 1) if script.lines[i].startswith("N "))
            story = "\n".join(
                f"{told:60.200} -> {heard:.300}"
                for told, heard in zip(script.lines[start:number], theirs[start:number], strict=True)
                if told[0] not in "RS"
            )
            raise AssertionError(f"{story}\n{line}\n  ours  {ours}\n  Kafka {kafkas}")
    # Every kind of step and every kind of answer was compared, many times.
    for kind in (
        "D A",
        "D D",
        "D E 45",
        "D E 47",
        "D E 48",
        "D E 87",
        "M A",
        "M E 47",
        "M E 52",
        "V V",
        "V E 47",
        "L ",
        "X ",
    ):
        assert script.seen[kind] > 100, (kind, script.seen)


@pytest.mark.java
def test_kafka_reads_and_refuses_the_same_snapshot_files(kafka_home: KafkaHome) -> None:
    """Whole files, cut files, files with a flipped bit, files with a wrong version."""
    rng = random.Random(7)
    lines, answers = list[str](), list[str]()
    for number in range(300):
        script = write_script(seed=number, histories=1)
        keep = rng.random() < 0.5
        data = bytearray(snapshot.encode(script.state.entries(), keep_windows=keep))
        damage = rng.choice(("none", "none", "cut", "flip", "version", "longer"))
        if damage == "cut":
            del data[rng.randrange(len(data)) :]
        elif damage == "flip":
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif damage == "version":
            data[1] = rng.choice((0, 2))
        elif damage == "longer":
            data += b"\x00"
        lines.append(f"R {data.hex()}")
        try:
            answers.append(f"P {_producers([_last_only(entry) for entry in snapshot.decode(data)])}")
        except CorruptSnapshotError:
            answers.append("corrupt")
    assert kafka_home.run(str(ORACLE), stdin="\n".join(lines) + "\n").splitlines() == answers
    assert 50 < answers.count("corrupt") < 250


def _last_only(entry: ProducerEntry) -> ProducerEntry:
    """Kafka's reading of a snapshot that keeps whole windows."""
    return snapshot.decode(snapshot.encode([entry]))[0]
