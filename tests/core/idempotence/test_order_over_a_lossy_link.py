"""For any faults of link and broker, each batch is stored once and in the order it was sent.

Method: `in_flight` as the client, `producer_state` as the broker, between them a link driven by one seed: it loses
answers, breaks connections, delivers what was in a broken connection's buffers later or never, and a broker that is
busy, answers "moved" before or after it stored, and restarts from its snapshot. The log is a list; the checks look at
that list and at what the client told its user, nothing else.
"""

import random
from dataclasses import dataclass, field

import pytest

from semel.core.idempotence import snapshot
from semel.core.idempotence.delivery import Answered, Decision, Event, Expired, Fail, Lost, Send, Settle
from semel.core.idempotence.in_flight import InFlight
from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import Append, Duplicate
from semel.core.records.batch import BatchHeader
from semel.errors import ErrorCode, Refuse
from support.idempotence.idempotence_kit import NOW_MS, header

SCHEDULES = 1_000
PARTITIONS = 2
BATCHES = 9  # Per partition.
STEPS_MAX = 20_000
BUSY = ErrorCode.NOT_ENOUGH_REPLICAS
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE


@dataclass(slots=True)
class Broker:
    """Partitions with their logs: which batch lies at which offset."""

    states: list[ProducerState] = field(default_factory=lambda: [ProducerState() for _ in range(PARTITIONS)])
    logs: list[list[tuple[int, int]]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    is_kafka: bool = False  # Remembers only the last batch of a producer across a restart.

    def produce(self, send: Send[int], count: int) -> tuple[ErrorCode, int]:
        state = self.states[send.partition]
        batch = self.batch(send, count)
        match state.judge(batch):
            case Append():
                state.record(batch)
                self.logs[send.partition].append((send.batch_id, batch.base_offset))
                return ErrorCode.NONE, batch.base_offset
            case Duplicate(base_offset=base_offset):
                return ErrorCode.NONE, base_offset
            case Refuse(code=code):
                return code, -1

    def batch(self, send: Send[int], count: int) -> BatchHeader:
        return header(
            send.identity.producer_id,
            send.identity.producer_epoch,
            send.base_sequence,
            count,
            offset=self.states[send.partition].map_end_offset,
        )

    def restart(self) -> None:
        for number, state in enumerate(self.states):
            saved = snapshot.encode(state.entries(), keep_windows=not self.is_kafka)
            self.states[number] = ProducerState()
            self.states[number].load(snapshot.decode(saved), map_end_offset=state.map_end_offset)


@dataclass(slots=True)
class World:
    """One run: client, link, broker, and what the user was told."""

    rng: random.Random
    queue: InFlight[int]
    trouble: float
    may_fail: bool = False  # Batches may be refused for good and may expire.
    is_kafka: bool = False
    broker: Broker = field(init=False)
    counts: dict[int, int] = field(default_factory=dict)
    connection: list[Send[int]] = field(default_factory=list)  # Requests on their way, in order.
    answers: list[Answered[int]] = field(default_factory=list)  # Answers on their way back, in order.
    lingering: list[Send[int]] = field(default_factory=list)  # In the buffers of broken connections.
    told: dict[int, Settle[int] | Fail[int]] = field(default_factory=dict)
    sent: dict[int, list[Send[int]]] = field(default_factory=dict)
    poisoned: set[int] = field(default_factory=set)

    def run(self) -> None:
        self.broker = Broker(is_kafka=self.is_kafka)
        self.queue.use_identity(7, 0)
        for batch_id in range(PARTITIONS * BATCHES):
            self.counts[batch_id] = self.rng.choice((1, 1, 3, 10))
            self.queue.enqueue(batch_id % PARTITIONS, batch_id, self.counts[batch_id])
            if self.may_fail and self.rng.random() < 0.08:
                self.poisoned.add(batch_id)
        for _ in range(STEPS_MAX):
            if len(self.told) == len(self.counts) and not self.connection and not self.answers:
                break
            self.step()
        while self.lingering:  # Late bytes of old connections must do no harm at the end either.
            self.deliver_lingering()

    def step(self) -> None:
        if self.rng.random() < self.trouble:
            self.rng.choice((self.break_connection, self.broker.restart, self.deliver_lingering))()
        elif self.may_fail and self.rng.random() < 0.01:
            self.expire_one()
        possible = [self.send_one]
        if self.connection:
            possible.append(self.serve_one)
        if self.answers:
            possible.append(self.answer_one)
        self.rng.choice(possible)()

    def answer_one(self) -> None:
        self.hear(self.queue.handle(self.answers.pop(0), NOW_MS))

    def send_one(self) -> None:
        first = self.rng.randrange(PARTITIONS)
        sends = (self.queue.send((first + number) % PARTITIONS, NOW_MS) for number in range(PARTITIONS))
        send = next((one for one in sends if one is not None), None)
        if send is None:
            return
        self.check_order_of_sending(send)
        self.sent.setdefault(send.batch_id, []).append(send)
        self.connection.append(send)

    def check_order_of_sending(self, send: Send[int]) -> None:
        """Earlier batches have smaller sequences and were sent first (ORD-07)."""
        for batch_id in range(send.partition, send.batch_id, PARTITIONS):
            if batch_id in self.told:
                continue
            before = self.sent[batch_id][-1]
            assert before.identity == send.identity
            assert before.base_sequence + self.counts[batch_id] <= send.base_sequence

    def serve_one(self) -> None:
        send = self.connection.pop(0)
        code, base_offset = ErrorCode.NONE, -1
        fate = self.rng.random()
        if send.batch_id in self.poisoned:
            code = TOO_LARGE
        elif fate < self.trouble:
            code = self.rng.choice((BUSY, MOVED))
        else:
            code, base_offset = self.broker.produce(send, self.counts[send.batch_id])
            if code is ErrorCode.NONE and fate < 1.5 * self.trouble:
                code, base_offset = MOVED, -1  # Stored, and then another became the leader.
        self.answers.append(Answered(send.partition, send.batch_id, code, base_offset))

    def break_connection(self) -> None:
        """Answers are lost; what the broker had not read may still be read, later or never."""
        lost = [Lost(one.partition, one.batch_id) for one in self.answers]
        lost += [Lost(one.partition, one.batch_id) for one in self.connection]
        self.lingering += [one for one in self.connection if self.rng.random() < 0.5]
        self.answers, self.connection = [], []
        for event in lost:
            self.hear(self.queue.handle(event, NOW_MS))

    def deliver_lingering(self) -> None:
        if self.lingering:
            send = self.lingering.pop(0)
            if send.batch_id not in self.poisoned:
                self.broker.produce(send, self.counts[send.batch_id])

    def expire_one(self) -> None:
        waiting = [batch_id for batch_id in self.counts if batch_id not in self.told]
        if waiting:
            event: Event[int] = Expired(waiting[0] % PARTITIONS, waiting[0])
            self.hear(self.queue.handle(event, NOW_MS))

    def hear(self, decisions: list[Decision[int]]) -> None:
        for one in decisions:
            if isinstance(one, Settle | Fail):
                assert one.batch_id not in self.told, "the user was told twice"
                self.told[one.batch_id] = one

    # The final invariants.

    def check(self) -> None:
        assert len(self.told) == len(self.counts), "somebody was never told"
        for partition, log in enumerate(self.broker.logs):
            stored = dict(log)
            assert len(stored) == len(log), f"stored twice: {log}"
            assert list(stored) == sorted(stored), f"out of order: {log}"
            for batch_id in range(partition, len(self.counts), PARTITIONS):
                told = self.told[batch_id]
                if isinstance(told, Settle):
                    assert stored[batch_id] == told.base_offset, (
                        f"batch {batch_id} is elsewhere: {told}, {log}"
                    )
                else:
                    assert self.may_fail, told
                    assert told.maybe_stored or batch_id not in stored, f"{told} is stored: {log}"


@pytest.mark.mission("IDEM-36", "ORD-05", "ORD-07")
@pytest.mark.parametrize("in_flight_max", [1, 2, 3, 4, 5])
def test_stored_order_is_send_order(in_flight_max: int) -> None:
    retried = 0
    for seed in range(SCHEDULES):
        rng = random.Random(f"{in_flight_max}/{seed}")
        world = World(rng, InFlight(in_flight_max=in_flight_max), trouble=rng.choice((0.02, 0.1, 0.3)))
        try:
            world.run()
            world.check()
            stored = [[batch_id for batch_id, _ in log] for log in world.broker.logs]
            assert stored == [list(range(p, PARTITIONS * BATCHES, PARTITIONS)) for p in range(PARTITIONS)]
        except AssertionError as wrong:
            raise AssertionError(f"in flight {in_flight_max}, seed {seed}") from wrong
        retried += sum(len(sends) > 1 for sends in world.sent.values())
    assert retried > SCHEDULES, "the schedules were too kind"


@pytest.mark.parametrize("is_kafka", [False, True])
@pytest.mark.parametrize("in_flight_max", [1, 3, 5])
def test_batches_that_fail_or_expire_leave_no_copy_and_no_disorder(
    in_flight_max: int, is_kafka: bool
) -> None:
    failed, bumped, doubtful = 0, 0, 0
    for seed in range(400):
        rng = random.Random(f"{in_flight_max}/{seed}/failing")
        world = World(
            rng,
            InFlight(in_flight_max=in_flight_max),
            trouble=rng.choice((0.02, 0.1, 0.3)),
            may_fail=True,
            is_kafka=is_kafka,
        )
        try:
            world.run()
            world.check()
        except AssertionError as wrong:
            raise AssertionError(f"in flight {in_flight_max}, seed {seed}") from wrong
        failures = [one for one in world.told.values() if isinstance(one, Fail)]
        failed += len(failures)
        doubtful += sum(one.maybe_stored for one in failures)
        bumped += world.queue.identity.producer_epoch > 0
    assert failed > 400
    assert doubtful > 40
    assert bumped > 200


def run_with_one_failure(queue: InFlight[int]) -> list[int]:
    """Five batches; the broker refuses the second one the first time. The final content of the log."""
    broker, refused = Broker(), False
    queue.use_identity(7, 0)
    for batch_id in (1, 2, 3, 4, 5):
        queue.enqueue(0, batch_id, 1)
    flying: list[Send[int]] = []
    while True:
        while (send := queue.send(0, NOW_MS)) is not None:
            flying.append(send)
        if not flying:
            return [batch_id for batch_id, _ in broker.logs[0]]
        answers = []
        for send in flying:
            if send.batch_id == 2 and not refused:
                refused = True
                answers.append(Answered(0, 2, BUSY))
            elif send.base_sequence < 0:
                plain = broker.batch(send, 1)._replace(producer_id=-1)
                broker.states[0].record(plain)
                broker.logs[0].append((send.batch_id, plain.base_offset))
                answers.append(Answered(0, send.batch_id, base_offset=plain.base_offset))
            else:
                answers.append(Answered(0, send.batch_id, *broker.produce(send, 1)))
        flying = []
        for answer in answers:
            queue.handle(answer, NOW_MS)


def test_without_idempotence_one_failure_reorders_five_in_flight_but_not_one() -> None:
    assert run_with_one_failure(InFlight(in_flight_max=5, idempotent=False)) == [1, 3, 4, 5, 2]
    assert run_with_one_failure(InFlight(in_flight_max=1, idempotent=False)) == [1, 2, 3, 4, 5]
    assert run_with_one_failure(InFlight(in_flight_max=5)) == [1, 2, 3, 4, 5]


def test_a_lost_answer_leaves_two_copies_without_idempotence_and_one_with_it() -> None:
    for idempotent, copies in ((False, 2), (True, 1)):
        queue: InFlight[int] = InFlight(idempotent=idempotent)
        broker = Broker()
        queue.use_identity(7, 0)
        queue.enqueue(0, 1, 1)
        for attempt in (1, 2):
            send = queue.send(0, NOW_MS)
            assert send is not None
            assert send.attempt == attempt
            if idempotent:
                code, base_offset = broker.produce(send, 1)
            else:
                code, base_offset = ErrorCode.NONE, len(broker.logs[0])
                broker.logs[0].append((1, base_offset))
            event = Lost(0, 1) if attempt == 1 else Answered(0, 1, code, base_offset)
            queue.handle(event, NOW_MS)
        assert len(broker.logs[0]) == copies
