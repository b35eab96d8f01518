"""The sender: takes batches that may leave to the leaders of their partitions, and tells their outcome.

Role.   Drives `core.idempotence.in_flight`, or `core.transactions.producer` where there are transactions, over the
        cluster's connections. It waits; they decide.
Flow.   `run` is one task. Each turn: expire batches that are too old, get missing things (an identity, leaders, connections),
        put batches that may leave into requests. Then it sleeps until something happens or is due.
Rules.  * A request has at most one batch of a partition and not more than `max.request.size`, and a broker at most
          `max.in.flight.requests.per.connection` requests. A batch is handed over to be sent only when there is a connection.
        * A batch without an answer is sent again after a pause that grows, until `retries` or `delivery.timeout.ms` is used up.
        * An answer that shows that another broker leads has the leaders asked again.
        * Every batch ends exactly once: settled or failed, also when the producer closes.
Elsewhere. Requests to coordinators: `transactions`. Producer ids: `identification`. Bytes: `encoding`. Who leads: `topics`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from semel.client.client_metrics import ProducerMetrics
from semel.client.cluster import Cluster
from semel.client.producer import answers
from semel.client.producer.encoding import Codec, encoded, halves
from semel.client.producer.identification import Identification
from semel.client.producer.outbox import Outbox
from semel.client.producer.parcels import Delivery, Node, Parcel
from semel.client.producer.topics import Topics
from semel.client.settings import ProducerConfig
from semel.client.troubles import Kind
from semel.core.client.accumulator import Batch
from semel.core.idempotence.delivery import (
    Answered,
    Decision,
    EpochBumped,
    Event,
    Expired,
    Fail,
    Lost,
    NeedAbort,
    NeedProducerId,
    Retry,
    Send,
    Settle,
)
from semel.core.idempotence.in_flight import InFlight
from semel.core.records import codecs
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from semel.errors import ErrorCode, SemelError, error_code
from semel.exceptions import IllegalStateException, KafkaException
from semel.runtime.bundle import Runtime
from semel.types import NO_TIMESTAMP, UNKNOWN_OFFSET, TopicPartition, WritableBytes

_logger: Final = logging.getLogger(__name__)
_JITTER: Final = 0.2
_ACKS_NONE: Final = 0
_SEQUENCE_ERRORS: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)


class Sender:
    """One producer's sender."""

    def __init__(
        self, runtime: Runtime, config: ProducerConfig, cluster: Cluster, outbox: Outbox, topics: Topics
    ) -> None:
        self.outbox = outbox
        self.topics = topics
        self.cluster = cluster
        self.runtime = runtime
        self.metrics = ProducerMetrics(config, runtime.clock.monotonic_ms)
        self.codec = Codec(
            codecs.NAMES.index(config.compression_type),
            config.compression_level,
            config.transactional_id is not None,
        )
        self.in_flight: InFlight[TopicPartition] | None = None
        self.delivery: Delivery | None = None
        """None until a transactional producer is initialized."""
        self._identification: Identification | None = None
        if config.transactional_id is None:
            self.in_flight = InFlight(
                in_flight_max=config.max_in_flight_requests_per_connection,
                idempotent=config.enable_idempotence,
            )
            self.delivery = self.in_flight
            self._identification = Identification(
                cluster,
                outbox,
                self.in_flight,
                timeout_ms=config.transaction_timeout_ms,
                pause_ms=self.pause_ms,
                on_refusal=self.die,
            )
        self.produce_version_max: int | None = None
        self.on_turn: Callable[[], object] | None = None
        """The steps of transactions in every turn, before and after batches leave."""
        self.problem: KafkaException | None = None
        """The error after which nothing can be sent."""
        self._config = config
        self._nodes: dict[int, Node] = {}
        self._not_before: dict[TopicPartition, int] = {}
        self._expiry_due_ms = 0
        self._refresh_not_before_ms = 0
        self._turns: list[asyncio.Future[None]] = []
        self._is_over = False

    # The task

    async def run(self) -> None:
        """Send until `stop`."""
        self.outbox.attach()
        while not self._is_over:
            self.outbox.begin_turn()
            due_ms = self._turn()
            self._tell_turn()
            await self._sleep(due_ms)

    def stop(self) -> None:
        """Send nothing more."""
        self._is_over = True
        if self._identification is not None:
            self._identification.stop()
        self.outbox.wake()

    async def _sleep(self, due_ms: int | None) -> None:
        if due_ms is None:
            await self.outbox.called()
            return
        wait_ms = due_ms - self.runtime.clock.monotonic_ms()
        try:
            async with asyncio.timeout(max(wait_ms, 0) / 1000):
                await self.outbox.called()
        except TimeoutError:
            return

    async def next_turn(self, deadline_ms: int | None = None) -> bool:
        """Return after the sender's next turn, for whoever waits for something it brings about; False if there is no time."""
        turned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append(turned)
        wait_ms = None if deadline_ms is None else deadline_ms - self.runtime.clock.monotonic_ms()
        try:
            async with asyncio.timeout(None if wait_ms is None else max(wait_ms, 0) / 1000):
                await turned
        except TimeoutError:
            return False
        return True

    def _tell_turn(self) -> None:
        turns, self._turns = self._turns, []
        for turned in turns:
            if not turned.done():
                turned.set_result(None)

    def _turn(self) -> int | None:
        """Do what can be done now; when something is due next."""
        now_ms = self.runtime.clock.monotonic_ms()
        dues = [self._expire(now_ms)]
        if self.on_turn is not None:
            self.on_turn()
        if self.delivery is not None and self.problem is None:
            dues.append(self._dispatch(now_ms))
            if self._identification is not None:
                self._identification.if_needed()
            if self.on_turn is not None:
                self.on_turn()  # A batch may need its partition to join the transaction.
        dues.append(self._refresh_if_needed(now_ms))
        return min((due for due in dues if due is not None), default=None)

    # What is missing

    def _refresh_if_needed(self, now_ms: int) -> int | None:
        due_ms = self.topics.due_ms()
        if self.topics.is_stale:
            due_ms = self._refresh_not_before_ms
        if now_ms < due_ms:
            return due_ms
        self._refresh_not_before_ms = now_ms + self.topics.pause_ms()
        task = self.topics.refresh({batch.partition.topic for batch in self.outbox.pending()})
        if task is not None:
            task.add_done_callback(lambda _task: self.outbox.wake())
        return None

    def _ready_node(self, node_id: int, now_ms: int) -> Node | None:
        """The broker, if a request can be written to it; otherwise it is being connected to."""
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = Node()
        if node.is_ready:
            return node
        if not node.is_connecting and now_ms >= node.not_before_ms:
            node.is_connecting = True
            self.runtime.tasks.spawn(self._connect(node_id, node), name=f"connect to broker {node_id}")
        return None

    async def _connect(self, node_id: int, node: Node) -> None:
        try:
            await self.cluster.served(node_id)
        except answers.NO_ANSWER as error:
            node.tries += 1
            node.not_before_ms = self.runtime.clock.monotonic_ms() + self.pause_ms(node.tries)
            self.topics.is_stale = True
            for batch in self.outbox.pending():
                if not batch.attempts and self.topics.leader(batch.partition) == node_id:
                    batch.trouble = str(error)
            _logger.debug("broker %d cannot be reached: %s", node_id, error)
        else:
            node.is_ready = True
            node.tries = 0
            self.metrics.connected()
        finally:
            node.is_connecting = False
            self.outbox.wake()

    def pause_ms(self, tries: int) -> int:
        """Before the next attempt; no two producers wait equally long."""
        spread = 1 + _JITTER * (2 * self.runtime.dice.random() - 1)
        return max(1, int(self.cluster.backoff_ms(tries) * spread))

    # Requests

    def _dispatch(self, now_ms: int) -> int | None:
        """Put into requests what may leave; when the first of what may not yet will."""
        delivery = self.delivery
        if delivery is None:
            return None
        if self._config.partitioner_adaptive_partitioning_enable:
            self.outbox.update_loads(iter(self.topics.all()))
        waiting = dict.fromkeys([*delivery.partitions(), *self.outbox.accumulator.partitions()])
        dues: list[int] = []
        candidates = list(waiting)
        while candidates:
            parcels: dict[int, Parcel] = {}
            moved = [one for one in candidates if self._pack(delivery, one, parcels, dues, now_ms)]
            for node_id, parcel in parcels.items():
                self._launch(node_id, parcel)
            candidates = moved
        return min(dues, default=None)

    def _pack(
        self,
        delivery: Delivery,
        partition: TopicPartition,
        parcels: dict[int, Parcel],
        dues: list[int],
        now_ms: int,
    ) -> bool:
        """Put the partition's next batch into the request for its leader, if it may leave; whether to look again after this."""
        not_before_ms = self._not_before.get(partition, 0)
        if now_ms < not_before_ms:
            dues.append(not_before_ms)
            return False
        leader = self.topics.leader(partition)
        if leader is None:
            self.topics.is_stale = True
            return False
        node = self._ready_node(leader, now_ms)
        if node is None:
            if now_ms < self._nodes[leader].not_before_ms:
                dues.append(self._nodes[leader].not_before_ms)
            return False
        parcel = parcels.get(leader)
        if parcel is None and node.in_flight >= self._config.max_in_flight_requests_per_connection:
            return False
        if now_ms < node.not_before_ms:  # It asked for a pause.
            dues.append(node.not_before_ms)
            return False
        room_bytes = None if parcel is None else self._config.max_request_size - parcel.size_bytes
        if room_bytes is not None:
            upcoming = delivery.upcoming(partition)  # A retry, or what a commit handed over.
            if upcoming is not None and self.outbox.under_way[upcoming].size_bytes > room_bytes:
                return True
        send = delivery.send(partition, now_ms)
        if send is None and delivery.has_room(partition, now_ms):
            batch = self.outbox.take_ready(partition, now_ms, room_bytes)
            if batch is None:
                due_ms = self.outbox.accumulator.due_ms(partition)
                if due_ms is not None:
                    dues.append(max(due_ms, now_ms + 1))
                return False
            delivery.enqueue(partition, batch.batch_id, batch.records_count)
            send = delivery.send(partition, now_ms)
        if send is None:
            return False
        if parcel is None:
            parcel = parcels[leader] = Parcel()
        parcel.sends.append(send)
        parcel.size_bytes += self.outbox.under_way[send.batch_id].size_bytes
        return True

    def _launch(self, node_id: int, parcel: Parcel) -> None:
        topics: dict[str, TopicProduceData] = {}
        now_ms, records_count = self.runtime.clock.monotonic_ms(), 0
        unwritable: list[tuple[Send[TopicPartition], Exception]] = []
        for send in parcel.sends:
            topic, partition = send.partition
            batch = self.outbox.under_way[send.batch_id]
            try:
                written = encoded(batch, send, self.codec)
            except Exception as error:  # Of records nobody can write: no others are to end with them.
                unwritable.append((send, error))
                continue
            batch.attempts += 1
            records_count += batch.records_count
            self._measure(batch, written, now_ms)
            data = topics.get(topic)
            if data is None:
                known = self.topics.get(topic)
                topic_id = known.topic_id if known is not None else bytes(16)
                data = topics[topic] = TopicProduceData(name=topic, topic_id=topic_id)
            data.partition_data.append(PartitionProduceData(index=partition, records=written))
        self._give_up(parcel, unwritable)
        if not parcel.sends:
            return
        request = ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        self.metrics.requested()
        self.metrics.request_sent(records=records_count)
        self._nodes[node_id].in_flight += 1
        self.runtime.tasks.spawn(
            self._exchange(node_id, parcel, request), name=f"produce to broker {node_id}"
        )

    def _give_up(self, parcel: Parcel, unwritable: Sequence[tuple[Send[TopicPartition], Exception]]) -> None:
        """Take batches that cannot be written out of a request: they are refused as a broker would, and were not sent."""
        for send, error in unwritable:
            parcel.sends.remove(send)
            _logger.error("a batch of %s cannot be written", send.partition, exc_info=error)
            answer = PartitionProduceResponse(
                error_code=ErrorCode.INVALID_RECORD, error_message=f"it cannot be written: {error!r}"
            )
            self._on_outcome(send, answer, None, "")

    def _measure(self, batch: Batch, written: WritableBytes, now_ms: int) -> None:
        topic, records = batch.partition.topic, batch.records_count
        if batch.attempts > 1:
            self.metrics.retried(topic, records=records)
        self.metrics.batch_sent(
            topic,
            records=records,
            size_bytes=len(written),
            uncompressed_bytes=max(batch.size_bytes, 1),
            queued_ms=now_ms - batch.created_ms,
            record_max_bytes=batch.largest_bytes or batch.size_bytes // max(records, 1),
        )

    async def _exchange(self, node_id: int, parcel: Parcel, request: ProduceRequest) -> None:
        node, since_ms = self._nodes[node_id], self.runtime.clock.monotonic_ms()
        said: dict[TopicPartition, PartitionProduceResponse] | None = None
        refused: SemelError | None = None
        lost = ""
        try:
            if self._config.acks == _ACKS_NONE:
                await self.cluster.send_unanswered(
                    request, node_id=node_id, version_max=self.produce_version_max
                )
                said = {
                    send.partition: PartitionProduceResponse(base_offset=UNKNOWN_OFFSET)
                    for send in parcel.sends
                }
            else:
                response = await self.cluster.send(
                    request, node_id=node_id, version_max=self.produce_version_max
                )
                said = answers.by_partition(request, response)
                now_ms = self.runtime.clock.monotonic_ms()
                self.metrics.answered()
                self.metrics.produce_answered(
                    latency_ms=now_ms - since_ms, throttle_ms=response.throttle_time_ms
                )
                if response.throttle_time_ms:
                    node.not_before_ms = now_ms + response.throttle_time_ms
        except answers.NO_ANSWER as error:
            if node.is_ready:
                self.metrics.disconnected()
            node.is_ready = False
            self.topics.is_stale = True
            lost = str(error)
            _logger.debug("no answer from broker %d: %s", node_id, error)
        except SemelError as error:
            refused = error
        finally:
            node.in_flight -= 1
        for send in parcel.sends:
            self._on_outcome(send, None if said is None else said.get(send.partition), refused, lost)
        self.outbox.wake()

    # Outcomes

    def _on_outcome(
        self,
        send: Send[TopicPartition],
        answer: PartitionProduceResponse | None,
        refused: SemelError | None,
        lost: str,
    ) -> None:
        batch = self.outbox.under_way.get(send.batch_id)
        retries_left = batch is not None and batch.attempts <= self._config.retries
        if refused is not None:
            answer = PartitionProduceResponse(error_code=int(refused.code), error_message=str(refused))
        if answer is None:
            if batch is not None:
                batch.trouble = lost
            self._handle(Lost(send.partition, send.batch_id, retries_left=retries_left))
            return
        code = error_code(answer.error_code)
        self._note(send.partition, batch, code, answer)
        if code in answers.STALE:
            self.topics.is_stale = True
            if answer.current_leader is not None and answer.current_leader.leader_id >= 0:
                self.topics.leader_moved(send.partition, answer.current_leader.leader_id)
        if code in answers.TOO_LARGE and batch is not None and batch.records_count > 1:
            self._split(send, batch)
            return
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and batch is not None:
            self.metrics.failed(batch.partition.topic, records=batch.records_count)
        event = Answered(send.partition, send.batch_id, code, answer.base_offset, retries_left=retries_left)
        self._handle(event, answer)

    def _note(
        self,
        partition: TopicPartition,
        batch: Batch | None,
        code: ErrorCode,
        answer: PartitionProduceResponse,
    ) -> None:
        """Remember what a broker said about a batch: if it is never stored, this is why."""
        troubles = self.cluster.troubles
        if not code:
            if troubles.is_any:
                troubles.over(Kind.RECORDS, str(partition))
            return
        said = answers.said_by(code, answer)
        if batch is not None:
            batch.trouble = said
        if code.retriable:
            troubles.met(
                Kind.RECORDS,
                str(partition),
                f"{self.cluster.where} does not store records for {partition}: {said}",
                f"they are sent again until delivery.timeout.ms={self._config.delivery_timeout_ms} is over",
            )

    def _split(self, send: Send[TopicPartition], batch: Batch) -> None:
        """The broker finds it too large: the same records again, in two batches."""
        if self.delivery is None or batch.data is None:
            raise IllegalStateException(f"a batch of {send.partition} was sent and has no bytes")
        self.metrics.split()
        pieces = self.outbox.replace(batch, list(halves(batch.data, self.codec)))
        self.delivery.split(
            send.partition, send.batch_id, [(piece.batch_id, piece.records_count) for piece in pieces]
        )
        _logger.warning(
            "%s takes no batch of %d bytes (max.message.bytes): it is sent in two",
            send.partition,
            len(batch.data),
        )

    def _handle(self, event: Event[TopicPartition], answer: PartitionProduceResponse | None = None) -> None:
        if self.delivery is None:
            raise IllegalStateException(f"{event} without anything under way")
        self.carry_out(self.delivery.handle(event, self.runtime.clock.monotonic_ms()), answer)

    def carry_out(
        self, decisions: Sequence[Decision[TopicPartition]], answer: PartitionProduceResponse | None = None
    ) -> None:
        """Do what was decided about batches; `answer` is the broker's, if one led to it."""
        for decision in decisions:
            match decision:
                case Settle(_partition, batch_id, base_offset):
                    stamped = NO_TIMESTAMP if answer is None else answer.log_append_time_ms
                    self.outbox.settle(batch_id, base_offset, stamped)
                case Fail():
                    self._on_failed(decision, answer)
                case Retry(partition, batch_id, _code):
                    batch = self.outbox.under_way.get(batch_id)
                    pause_ms = self.pause_ms(max(1, batch.attempts if batch else 1))
                    self._not_before[partition] = self.runtime.clock.monotonic_ms() + pause_ms
                case EpochBumped(identity):
                    _logger.info(
                        "a sequence is missing: producer %d goes on under epoch %d",
                        identity.producer_id,
                        identity.producer_epoch,
                    )
                case NeedProducerId() | NeedAbort():
                    pass  # The next turn fetches one; the transaction's state says the other.

    def _on_failed(self, decision: Fail[TopicPartition], answer: PartitionProduceResponse | None) -> None:
        batch = self.outbox.under_way.get(decision.batch_id)
        if batch is None:
            return
        last = self.cluster.troubles.last(batch.created_ms)
        error = answers.failure(decision, batch, answer, self._config, last)
        self.metrics.failed(batch.partition.topic, records=batch.records_count)
        is_the_end = decision.code in _SEQUENCE_ERRORS and self._config.sequence_error_policy == "fatal"
        if is_the_end:
            error.fatal, error.abortable, error.retriable = True, False, False
        self.outbox.fail(decision.batch_id, error)
        if is_the_end:
            self.die(error)

    def _expire(self, now_ms: int) -> int | None:
        """Give up what is older than `delivery.timeout.ms`; when the next will be."""
        outbox, timeout_ms = self.outbox, self._config.delivery_timeout_ms
        if now_ms >= self._expiry_due_ms:
            for batch in outbox.expire(now_ms - timeout_ms):
                self.metrics.failed(batch.partition.topic, records=batch.records_count)
                last = self.cluster.troubles.last(batch.created_ms)
                outbox.fail(batch.batch_id, answers.expired(batch, timeout_ms, last))
            old = [one for one in outbox.under_way.values() if now_ms - one.created_ms >= timeout_ms]
            for batch in old:
                self._handle(Expired(batch.partition, batch.batch_id))
            created = [one.created_ms for one in outbox.under_way.values()]
            oldest_ms = outbox.accumulator.oldest_ms()
            if oldest_ms is not None:
                created.append(oldest_ms)
            self._expiry_due_ms = min(created, default=now_ms) + timeout_ms
        return self._expiry_due_ms if outbox.accumulator.used_bytes else None

    @property
    def requests_in_flight(self) -> int:
        """How many requests with records wait for an answer."""
        return sum(node.in_flight for node in self._nodes.values())

    # The end

    def die(self, error: KafkaException) -> None:
        """Nothing can be sent any more: fail all there is, and whatever comes."""
        if self.problem is not None:
            return
        error.fatal, error.abortable, error.retriable = True, False, False
        self.problem = error
        self.outbox.shut(lambda: gone(error))
        self.fail_all(error)

    def fail_all(self, error: KafkaException) -> None:
        """Give up everything whose fate is not known."""
        self.outbox.take_all()
        for batch_id in list(self.outbox.under_way):
            self.outbox.fail(batch_id, error)


def gone(error: KafkaException) -> KafkaException:
    """The exception of every later call."""
    over = IllegalStateException(
        f"this producer cannot go on, close it: {error}", code=error.code, fatal=True
    )
    over.__cause__ = error
    return over
