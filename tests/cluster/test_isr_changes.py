"""Each leader hears the controller's answer to its own proposal, once, whatever is lost on the way.

Method: leaders' proposals in a simulation, against controllers played by functions. In the last story the leaders and the
controller are the real rules (`core.replication.leading`, `core.cluster.fencing`), and every answer may be lost.
"""

import asyncio
import logging
import random
import uuid
from collections.abc import Awaitable, Callable, Sequence

import pytest

from semel.cluster import isr_changes
from semel.cluster.controller_channel import ControllerChannel
from semel.cluster.isr_changes import IsrChanges
from semel.core.cluster import fencing
from semel.core.cluster.versions import ADVERTISED
from semel.core.replication.leading import Altered, Granted, Leading, Proposal
from semel.core.wire.framing import read_request_header
from semel.core.wire.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from support.cluster.scripted_controller import (
    FIRST,
    LinkSettings,
    Said,
    ScriptedController,
    golden_frame,
    silence,
    without_correlation,
)
from support.net.net_worlds import in_simulation

NODE_ID = 1
ORDERS, OTHERS = uuid.UUID(int=0xA), uuid.UUID(int=0xB)
NAMES = {ORDERS.bytes: "orders", OTHERS.bytes: "others"}
NO_ID = uuid.UUID(int=0)
Answer = Granted | ErrorCode


def wish(*isr: int, partition_epoch: int = 0) -> Proposal:
    return Proposal(isr or (1, 2), (-1,) * len(isr or (1, 2)), None, 0, partition_epoch)


def members(data: AlterPartitionData) -> list[int]:
    return data.new_isr or [one.broker_id for one in data.new_isr_with_epochs]


def granted(data: AlterPartitionData) -> AlteredPartition:
    return AlteredPartition(
        partition_index=data.partition_index,
        leader_id=NODE_ID,
        leader_epoch=data.leader_epoch,
        isr=members(data),
        partition_epoch=data.partition_epoch + 1,
    )


def refused(data: AlterPartitionData, code: int) -> AlteredPartition:
    return AlteredPartition(partition_index=data.partition_index, error_code=code)


def answered(
    request: AlterPartitionRequest, row: Callable[[AlterPartitionData], AlteredPartition] = granted
) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        topics=[
            AlteredTopic(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                partitions=[row(data) for data in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def places(request: AlterPartitionRequest) -> list[tuple[str, int]]:
    """What a request asks for, in its order."""
    return [
        (topic.topic_name or NAMES[topic.topic_id], data.partition_index)
        for topic in request.topics
        for data in topic.partitions
    ]


class Leaders:
    """Proposals, and what each has heard."""

    def __init__(self, runtime: Runtime, channel: ControllerChannel, epoch: Callable[[], int]) -> None:
        self.runtime = runtime
        self.changes = IsrChanges(runtime, channel, node_id=NODE_ID, broker_epoch=epoch)
        self.heard: list[tuple[TopicPartition, Proposal, Answer]] = []

    def propose(self, topic: str, index: int, proposal: Proposal, topic_id: uuid.UUID | None = None) -> None:
        place = TopicPartition(topic, index)
        known = {"orders": ORDERS, "others": OTHERS}[topic] if topic_id is None else topic_id
        self.changes.propose(
            place, known, proposal, lambda answer: self.heard.append((place, proposal, answer))
        )

    async def all_heard(self) -> None:
        async with asyncio.timeout(600):
            while self.changes.pending:
                await self.runtime.tasks.sleep(0.01)


def told(
    story: Callable[[Leaders], Awaitable[None]],
    controller: ScriptedController,
    *,
    epochs: Sequence[int] = (7,),
) -> None:
    left = list(epochs)

    async def run(runtime: Runtime) -> None:
        channel = ControllerChannel(runtime, link=LinkSettings(), controller=lambda: FIRST, node_id=NODE_ID)
        listener = await controller.listen(runtime, FIRST.port)
        try:
            await story(Leaders(runtime, channel, lambda: left.pop(0) if len(left) > 1 else left[0]))
        finally:
            await channel.close()
            await listener.close(grace_seconds=0)

    in_simulation(run)


@pytest.mark.parametrize("title", ["kafka leader", "by trial leader"])
def test_the_bytes_are_those_of_a_kafka_leader(title: str) -> None:
    """The wish of a recorded frame is proposed; the second one's client id and broker id are another broker's."""
    recorded = bytearray(golden_frame(f"AlterPartition v3 request: {title}"))
    header, position = read_request_header(recorded)
    request = AlterPartitionRequest.decode(recorded, header.api_version, position)
    ((topic,),) = [request.topics]
    (data,) = topic.partitions
    controller = ScriptedController(answered)
    proposal = Proposal(
        tuple(members(data)),
        tuple(one.broker_epoch for one in data.new_isr_with_epochs),
        None,
        data.leader_epoch,
        data.partition_epoch,
    )

    async def run(runtime: Runtime) -> None:
        listener = await controller.listen(runtime, FIRST.port)
        channel = ControllerChannel(
            runtime, link=LinkSettings(), controller=lambda: FIRST, node_id=request.broker_id
        )
        changes = IsrChanges(
            runtime, channel, node_id=request.broker_id, broker_epoch=lambda: request.broker_epoch
        )
        heard: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        place = TopicPartition("any", data.partition_index)
        changes.propose(place, uuid.UUID(bytes=topic.topic_id), proposal, heard.set_result)
        assert await heard == Granted(tuple(members(data)), data.leader_epoch, data.partition_epoch + 1)
        await channel.close()
        await listener.close()

    in_simulation(run)
    (sent,) = controller.frames
    assert without_correlation(sent) == without_correlation(bytes(recorded))


def test_what_is_proposed_meanwhile_goes_together_in_the_next_request() -> None:
    async def slowly(request: AlterPartitionRequest) -> AlterPartitionResponse:
        await asyncio.sleep(0.5)
        return answered(request)

    controller = ScriptedController(slowly)

    async def story(leaders: Leaders) -> None:
        leaders.propose("orders", 3, wish(1))
        await leaders.runtime.tasks.sleep(0.1)
        leaders.propose("others", 0, wish(1, 3, partition_epoch=4))
        leaders.propose("orders", 1, wish(1, 2))
        leaders.propose("orders", 0, wish(2, 1))
        await leaders.all_heard()
        assert leaders.heard == [
            (("orders", 3), wish(1), Granted((1,), 0, 1)),
            (("others", 0), wish(1, 3, partition_epoch=4), Granted((1, 3), 0, 5)),
            (("orders", 1), wish(1, 2), Granted((1, 2), 0, 1)),
            (("orders", 0), wish(2, 1), Granted((2, 1), 0, 1)),
        ]

    told(story, controller)
    assert [places(one) for one in controller.asked] == [
        [("orders", 3)],
        [("others", 0), ("orders", 1), ("orders", 0)],
    ]
    assert controller.under_way_max == 1
    assert {one.broker_epoch for one in controller.asked} == {7}
    assert [version for key, version in controller.versions if key == ApiKey.ALTER_PARTITION] == [3, 3]


def test_a_later_proposal_takes_the_place_of_one_that_waits() -> None:
    async def slowly(request: AlterPartitionRequest) -> AlterPartitionResponse:
        await asyncio.sleep(0.5)
        return answered(request)

    controller = ScriptedController(slowly)

    async def story(leaders: Leaders) -> None:
        leaders.propose("orders", 0, wish(1))
        await leaders.runtime.tasks.sleep(0.1)
        leaders.propose("orders", 0, wish(1, 2, partition_epoch=5))
        leaders.propose("orders", 1, wish(1))
        leaders.propose("orders", 0, wish(1, 3, partition_epoch=6))
        await leaders.all_heard()
        assert leaders.heard == [
            (("orders", 0), wish(1), Granted((1,), 0, 1)),
            (("orders", 0), wish(1, 3, partition_epoch=6), Granted((1, 3), 0, 7)),
            (("orders", 1), wish(1), Granted((1,), 0, 1)),
        ], "the one under way is answered too; its leader knows that it is late"

    told(story, controller)
    assert [places(one) for one in controller.asked] == [[("orders", 0)], [("orders", 0), ("orders", 1)]]


def test_a_lost_answer_is_asked_for_again_and_told_once() -> None:
    answers: list[Callable[[AlterPartitionRequest], Said]] = [
        lambda _request: None,
        lambda _request: silence(),
        answered,
    ]

    def next_answer(request: AlterPartitionRequest) -> Said:
        return answers.pop(0)(request)

    controller = ScriptedController(next_answer)

    async def story(leaders: Leaders) -> None:
        leaders.propose("orders", 0, wish(1))
        await leaders.runtime.tasks.sleep(1)
        leaders.propose("orders", 1, wish(1))
        leaders.propose("orders", 0, wish(1, 2, partition_epoch=9))
        await leaders.all_heard()
        assert leaders.heard == [
            (("orders", 0), wish(1, 2, partition_epoch=9), Granted((1, 2), 0, 10)),
            (("orders", 1), wish(1), Granted((1,), 0, 1)),
        ]

    told(story, controller, epochs=(7, 8, 9))
    assert [places(one) for one in controller.asked] == [
        [("orders", 0)],
        [("orders", 0)],
        [("orders", 0), ("orders", 1)],
    ]
    assert [one.broker_epoch for one in controller.asked] == [7, 8, 9], "that of then"


def test_a_partition_that_is_led_no_more_hears_nothing() -> None:
    async def slowly(request: AlterPartitionRequest) -> AlterPartitionResponse:
        await asyncio.sleep(0.5)
        return answered(request)

    controller = ScriptedController(slowly)

    async def story(leaders: Leaders) -> None:
        leaders.propose("orders", 0, wish(1))
        leaders.propose("orders", 1, wish(1))
        await leaders.runtime.tasks.sleep(0.1)
        leaders.propose("orders", 2, wish(1))
        leaders.propose("orders", 3, wish(1))
        for index in (0, 2):
            leaders.changes.forget(TopicPartition("orders", index))
        await leaders.all_heard()
        assert [place for place, _proposal, _answer in leaders.heard] == [("orders", 1), ("orders", 3)]

    told(story, controller)
    assert [places(one) for one in controller.asked] == [[("orders", 0), ("orders", 1)], [("orders", 3)]]


def test_nothing_is_sent_for_partitions_that_were_all_forgotten_while_no_controller_answered() -> None:
    controller = ScriptedController(answered)

    async def run(runtime: Runtime) -> None:
        known = [None]
        channel = ControllerChannel(
            runtime, link=LinkSettings(), controller=lambda: known[0] or None, node_id=NODE_ID
        )
        leaders = Leaders(runtime, channel, lambda: 7)
        leaders.propose("orders", 0, wish(1))
        await runtime.tasks.sleep(5)
        leaders.changes.forget(TopicPartition("orders", 0))
        listener = await controller.listen(runtime, FIRST.port)
        known[0] = FIRST  # type: ignore[call-overload]
        await runtime.tasks.sleep(5)
        assert controller.asked == []
        leaders.propose("orders", 1, wish(1))
        await leaders.all_heard()
        assert [places(one) for one in controller.asked] == [[("orders", 1)]]
        await channel.close()
        await listener.close()

    in_simulation(run)


@pytest.mark.parametrize("code", [3, 41, 42, 55, 74, 95, 100, 107, -1, 9999])
def test_a_refusal_of_one_partition_is_told_to_its_leader_only(code: int) -> None:
    controller = ScriptedController(
        lambda request: answered(
            request, lambda data: granted(data) if data.partition_index else refused(data, code)
        )
    )

    async def story(leaders: Leaders) -> None:
        leaders.propose("orders", 0, wish(1))
        leaders.propose("orders", 1, wish(1))
        await leaders.all_heard()
        known = ErrorCode(code) if code != 9999 else ErrorCode.UNKNOWN_SERVER_ERROR
        assert [answer for _place, _proposal, answer in leaders.heard] == [known, Granted((1,), 0, 1)]

    told(story, controller)
    assert len(controller.asked) == 1


def test_a_partition_the_answer_leaves_out_is_told_to_ask_again(caplog: pytest.LogCaptureFixture) -> None:
    def without_the_first(request: AlterPartitionRequest) -> AlterPartitionResponse:
        answer = answered(request)
        del answer.topics[0].partitions[0]
        return answer

    async def story(leaders: Leaders) -> None:
        leaders.propose("orders", 0, wish(1))
        leaders.propose("orders", 1, wish(1))
        await leaders.all_heard()
        assert [answer for _place, _proposal, answer in leaders.heard] == [
            ErrorCode.UNKNOWN_SERVER_ERROR,
            Granted((1,), 0, 1),
        ]

    told(story, ScriptedController(without_the_first))
    assert "orders-0: the controller's answer to AlterPartition does not name it" in caplog.text


@pytest.mark.parametrize(
    ("code", "level"),
    [
        (ErrorCode.STALE_BROKER_EPOCH, logging.WARNING),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, logging.ERROR),
        (ErrorCode.UNKNOWN_SERVER_ERROR, logging.WARNING),
    ],
)
def test_a_request_refused_as_a_whole_is_sent_again_with_the_broker_epoch_of_then(
    code: ErrorCode, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = 8
    controller = ScriptedController(
        lambda request: (
            answered(request) if request.broker_epoch == 20 else AlterPartitionResponse(error_code=code)
        )
    )

    async def story(leaders: Leaders) -> None:
        leaders.propose("orders", 0, wish(1))
        await leaders.runtime.tasks.sleep(1)
        leaders.propose("orders", 1, wish(1))
        await leaders.all_heard()
        assert len(leaders.heard) == 2
        leaders.propose("orders", 2, wish(1))
        began = leaders.runtime.clock.monotonic()
        await leaders.all_heard()
        assert leaders.runtime.clock.monotonic() - began < 0.05, "the pauses are over"

    with caplog.at_level(logging.WARNING, "semel.cluster"):
        told(story, controller, epochs=(*range(10, 10 + refusals), 20))
    pauses = [b - a for a, b in zip(controller.times, controller.times[1 : refusals + 1], strict=False)]
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0], abs=0.01)
    assert [(record.levelno, code.name in record.message) for record in caplog.records] == [(level, True)]
    assert "with broker epoch 10" in caplog.text


def test_a_leader_that_asks_again_at_once_does_so_ever_more_slowly() -> None:
    """A controller that is behind answers NOT_CONTROLLER for the partition; the leader repeats its wish in its answer."""
    controller = ScriptedController(lambda request: answered(request, lambda data: refused(data, 41)))

    async def story(leaders: Leaders) -> None:
        place = TopicPartition("orders", 0)

        def again(_answer: Answer) -> None:
            leaders.changes.propose(place, ORDERS, wish(1), again)

        again(ErrorCode.NONE)
        await leaders.runtime.tasks.sleep(60)

    told(story, controller)
    assert 55 <= len(controller.asked) <= 66


def test_a_leader_that_asks_something_else_at_once_need_not_wait() -> None:
    controller = ScriptedController(answered)

    async def story(leaders: Leaders) -> None:
        began = leaders.runtime.clock.monotonic()
        heard = 0

        def next_one(_answer: Answer) -> None:
            nonlocal heard
            heard += 1
            if heard < 20:
                leaders.changes.propose(
                    TopicPartition("orders", 0), ORDERS, wish(1, partition_epoch=heard), next_one
                )

        next_one(ErrorCode.NONE)
        await leaders.all_heard()
        assert heard == 20
        assert leaders.runtime.clock.monotonic() - began < 0.2

    told(story, controller)


@pytest.mark.parametrize("last", [0, 1, 2, 3])
@pytest.mark.parametrize("with_id", [True, False])
def test_older_controllers_are_told_names_and_so_are_all_where_a_topic_has_no_id(
    last: int, with_id: bool
) -> None:
    controller = ScriptedController(answered, served={**ADVERTISED, ApiKey.ALTER_PARTITION: (0, last)})

    async def story(leaders: Leaders) -> None:
        leaders.propose("orders", 0, wish(1, 2), topic_id=None if with_id else NO_ID)
        leaders.propose("others", 0, wish(1, 3))
        await leaders.all_heard()
        assert [answer for _place, _proposal, answer in leaders.heard] == [
            Granted((1, 2), 0, 1),
            Granted((1, 3), 0, 1),
        ]

    told(story, controller)
    version = last if with_id else min(last, 1)
    assert controller.versions[-1] == (ApiKey.ALTER_PARTITION, version)
    (request,) = controller.asked
    assert [bool(topic.topic_name) for topic in request.topics] == [version < 2] * 2
    assert [members(data) for topic in request.topics for data in topic.partitions] == [[1, 2], [1, 3]]


def test_a_controller_without_alter_partition_is_asked_until_another_has_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller = ScriptedController(answered, served={})

    async def story(leaders: Leaders) -> None:
        leaders.propose("orders", 0, wish(1))
        await leaders.runtime.tasks.sleep(9)
        assert leaders.changes.pending == 1
        assert len(controller.versions) <= 15
        leaders.changes.forget(TopicPartition("orders", 0))

    told(story, controller)
    assert caplog.text.count("does not serve AlterPartition") == 1


def test_a_request_has_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_changes, "PARTITIONS_MAX", 10)
    controller = ScriptedController(answered)

    async def story(leaders: Leaders) -> None:
        for index in range(35):
            leaders.propose("orders", index, wish(1))
        await leaders.all_heard()
        assert sorted(place.partition for place, _proposal, _answer in leaders.heard) == list(range(35))

    told(story, controller)
    assert [len(places(one)) for one in controller.asked] == [10, 10, 10, 5]


class State:
    """A partition, as the controller has written it."""

    def __init__(self) -> None:
        self.leader_epoch, self.partition_epoch = 0, 0
        self.isr: tuple[int, ...] = (1, 2, 3)


class Life:
    epoch = -1


ALIVE = {2: Life(), 3: Life()}


class ModelController:
    """Kafka's rules for one broker's wishes; while `has_faults`, requests and answers are lost, late or refused."""

    def __init__(self, dice: random.Random, partitions: int) -> None:
        self.dice = dice
        self.states = [State() for _ in range(partitions)]
        self.has_faults = True

    def answer(self, request: AlterPartitionRequest) -> Said:
        fate = self.dice.random() if self.has_faults else 1.0
        if fate < 0.1:
            return None
        if fate < 0.2:
            answered(request, self._decide)
            return None  # It was written, and nobody hears of it.
        if fate < 0.3:
            code = self.dice.choice([ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER])
            return AlterPartitionResponse(error_code=code)
        return self._late(request) if fate < 0.6 else answered(request, self._decide)

    async def _late(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        answer = answered(request, self._decide)
        await asyncio.sleep(self.dice.uniform(0, 2))
        return answer

    def _decide(self, data: AlterPartitionData) -> AlteredPartition:
        state = self.states[data.partition_index]
        isr = tuple(members(data))
        code = fencing.wish(
            leader_epoch=data.leader_epoch,
            known_leader_epoch=state.leader_epoch,
            partition_epoch=data.partition_epoch,
            known_partition_epoch=state.partition_epoch,
            is_present_state=isr == state.isr,
        )
        if code is not ErrorCode.NONE:
            return refused(data, code)
        if isr != state.isr:
            if self.has_faults and self.dice.random() < 0.2:
                codes = [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.UNKNOWN_SERVER_ERROR]
                return refused(data, self.dice.choice(codes))
            state.isr, state.partition_epoch = isr, state.partition_epoch + 1
        return AlteredPartition(
            partition_index=data.partition_index,
            leader_id=NODE_ID,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.partition_epoch,
        )


class Led:
    """A leader with the real rules, whose followers come and go."""

    def __init__(self, index: int, state: State, world: Leaders, dice: random.Random) -> None:
        self.index = index
        self.state = state
        self.world = world
        self.dice = dice
        self.leading = Leading(NODE_ID, lag_max_ms=1000)
        self.become()

    def become(self) -> None:
        """LeaderAndIsr."""
        self.leading.become(
            leader_epoch=self.state.leader_epoch,
            partition_epoch=self.state.partition_epoch,
            replicas=(1, 2, 3),
            isr=self.state.isr,
            log_end_offset=0,
            now_ms=self.world.runtime.clock.monotonic_ms(),
        )

    async def live(self) -> None:
        for _ in range(60):
            await asyncio.sleep(self.dice.uniform(0, 0.5))
            fate = self.dice.random()
            if fate < 0.1:
                self.state.leader_epoch += 1
                self.state.partition_epoch += 1
                await asyncio.sleep(self.dice.uniform(0, 1))
                self.become()
            else:
                asked = self._expand() if fate < 0.5 else self._shrink()
                if asked is not None:
                    self._propose(asked)

    def _expand(self) -> Proposal | None:
        follower, now_ms = self.dice.choice([2, 3]), self.world.runtime.clock.monotonic_ms()
        self.leading.fetched(
            follower,
            0,
            log_start_offset=0,
            log_end_offset=0,
            now_ms=now_ms,
            broker_epoch=-1,
            alive=ALIVE,
        )
        self.leading.brokers_changed()
        return self.leading.expand(follower, high_watermark=0, alive=ALIVE)

    def _shrink(self) -> Proposal | None:
        now_ms = self.world.runtime.clock.monotonic_ms() + self.dice.choice([0, 0, 5000])
        return self.leading.shrink(log_end_offset=5, now_ms=now_ms)

    def _propose(self, proposal: Proposal) -> None:
        self.world.changes.propose(
            TopicPartition("orders", self.index),
            ORDERS,
            proposal,
            lambda answer: self._hear(proposal, answer),
        )

    def _hear(self, proposal: Proposal, answer: Answer) -> None:
        if self.leading.altered(proposal, answer) is Altered.AGAIN:
            self._propose(proposal)


@pytest.mark.parametrize("seed", range(30))
def test_leaders_and_controller_agree_in_the_end_whatever_was_lost(seed: int) -> None:
    """Followers come and go; answers and requests are lost; the controller makes leader epochs of its own and tells late."""
    dice = random.Random(seed)
    model = ModelController(dice, partitions=4)

    async def story(world: Leaders) -> None:
        leaders = [Led(index, state, world, dice) for index, state in enumerate(model.states)]
        await asyncio.gather(*(one.live() for one in leaders))
        model.has_faults = False
        await world.all_heard()
        for one in leaders:
            if one.leading.proposal is not None:  # The metadata tells how it ended.
                one.become()
            assert one.leading.isr == set(one.state.isr)
            assert one.leading.partition_epoch == one.state.partition_epoch

    controller = ScriptedController(model.answer)
    told(story, controller)
    assert len(controller.asked) > 20


def test_a_leader_that_breaks_at_its_answer_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody foresaw the error: it is logged with its trace, and what was not told is asked for again."""
    controller = ScriptedController(answered)

    async def story(leaders: Leaders) -> None:
        def broken(_answer: Answer) -> None:
            raise ZeroDivisionError("nobody foresaw it")

        leaders.changes.propose(TopicPartition("orders", 0), ORDERS, wish(1), broken)
        leaders.propose("orders", 1, wish(1))
        leaders.propose("orders", 2, wish(1))
        await leaders.all_heard()
        assert [place for place, _proposal, _answer in leaders.heard] == [("orders", 1), ("orders", 2)]

    told(story, controller)
    assert [places(one) for one in controller.asked] == [
        [("orders", 0), ("orders", 1), ("orders", 2)],
        [("orders", 1), ("orders", 2)],
    ]
    (line,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert line.exc_info is not None


def test_requests_that_cannot_be_built_are_tried_again_with_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    controller = ScriptedController(answered)
    build = IsrChanges._build
    times: list[float] = []

    async def story(leaders: Leaders) -> None:
        def breaking(changes: IsrChanges, version: int) -> object:
            if len(times) < 12:
                times.append(leaders.runtime.clock.monotonic())
                raise ZeroDivisionError("nobody foresaw it")
            return build(changes, version)

        monkeypatch.setattr(IsrChanges, "_build", breaking)
        leaders.propose("orders", 0, wish(1))
        await leaders.all_heard()
        assert leaders.heard == [(("orders", 0), wish(1), Granted((1,), 0, 1))]

    told(story, controller)
    assert times[-1] - times[0] > 6, "each pause is longer, up to a second"
    assert 1 <= sum(record.levelno >= logging.ERROR for record in caplog.records) <= 3
