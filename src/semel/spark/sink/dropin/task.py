"""A task of the drop-in sink: its rows go into one transaction, which it leaves open.

Role.   `write_rows` runs in a Python worker, on whatever machine Spark chose.
Flow.   rows -> `by_topic` -> the producer's Arrow path -> all stored -> the transaction's name goes back to the driver.
Rules.  * Every attempt of every task has a transactional id of its own: an attempt that runs twice, late or beside another never
          writes into another's transaction.
        * Spark counts attempts anew when it repeats a stage, while attempts of the first try may still write, or count already.
          An id with an open transaction is therefore left alone, and an id taken that nobody else ever has.
        * The ids are used again by the next batch of the same run, and by no other run. So their number stays small, and a driver
          that was replaced cannot fence the tasks of the next.
        * An attempt that fails aborts its transaction; the transaction of a killed one is left to the driver's sweep or to the timeout.
        * A task without rows begins no transaction.
        * Spark gives attempts up before they have ended. An attempt that begins to write after its batch is over begins no
          transaction: nobody would end it, and readers would wait for it. It asks after it has taken its epoch; `settling` says why
          that is enough. It asks before, too: a repeated stage may just have committed a transaction of the same attempt under this
          id, and the next epoch would make that one unrecognizable.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from semel.client.sync.producer import Producer
from semel.exceptions import InvalidTxnTimeoutException, KafkaException
from semel.spark.sink.common.names import run_prefix
from semel.spark.sink.common.rows import by_topic
from semel.spark.sink.dropin.batch_ledger import Place, TaskTransaction
from semel.spark.sink.dropin.columns import RULES
from semel.spark.sink.dropin.digest import Digest
from semel.spark.sink.dropin.settling import Abilities, BrokerTransactions
from semel.spark.sink.dropin.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

_TWO_PHASE: Final = "transaction.two.phase.commit.enable"
_ABILITIES_MAX: Final = 16
_ABORT_SECONDS: Final = 10.0


class LateAttemptError(KafkaException):
    """Spark has given this attempt up, and its batch is over."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which attempt of which task writes, for which run of which sink."""

    name: str
    place: Place
    task: int
    number: int
    serial: int
    """No other attempt of the application has it."""

    @property
    def usual_id(self) -> str:
        """The transactional id of this attempt in every batch of the run."""
        return f"{run_prefix(self.name, self.place.run_id)}{self.task}.{self.number}"

    @property
    def only_id(self) -> str:
        """An id that is used once: brokers remember each for days."""
        return f"{self.usual_id}-{self.serial}"


def write_rows(
    options: SinkOptions, attempt: Attempt, batches: "Iterator[pa.RecordBatch]", *, may_be_two_phase: bool
) -> TaskTransaction | None:
    """Write all rows; the open transaction they are in, None if there were no rows."""
    digest = Digest()
    producer: Producer | None = None
    transactional_id = ""
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if producer is None:
                transactional_id, producer = _begun(options, attempt, may_be_two_phase=may_be_two_phase)
            digest.add(batch)
            for topic, rows in by_topic(batch, options.topic, RULES):
                producer.send_arrow(topic, rows)
        if producer is None:
            return None
        left = producer.leave_transaction_open()
    except BaseException:
        if producer is not None:
            with contextlib.suppress(
                KafkaException
            ):  # The first failure says more than that the abort failed too.
                producer.close(timeout=_ABORT_SECONDS)
        raise
    producer.close()
    return TaskTransaction(
        attempt.task, transactional_id, left.producer_id, left.epoch, digest.rows, digest.text
    )


def _begun(options: SinkOptions, attempt: Attempt, *, may_be_two_phase: bool) -> tuple[str, Producer]:
    """The attempt's transactional id, or another if somebody writes under it, and a producer that has begun to write."""
    with BrokerTransactions(options.producer_config("any")) as transactions:
        transactions.reach(is_first=attempt.place.batch_id == 0)
        in_use = transactions.is_in_use(attempt.usual_id)
        transactional_id = attempt.only_id if in_use else attempt.usual_id
        _check_in_time(transactions, options, attempt)
        two_phase = may_be_two_phase and _abilities(options, transactions).two_phase
        producer = _producer(options, transactional_id, two_phase=two_phase)
        try:
            _check_in_time(transactions, options, attempt)
            producer.begin_transaction()
        except BaseException:
            producer.close()
            raise
    return transactional_id, producer


def _check_in_time(transactions: BrokerTransactions, options: SinkOptions, attempt: Attempt) -> None:
    if transactions.is_over(attempt.name, attempt.place, options.ledger):
        raise LateAttemptError(
            f"sink {attempt.name}: batch {attempt.place.batch_id} of query {attempt.place.query_id} is over; attempt "
            f"{attempt.number} of task {attempt.task}, which Spark has given up, writes nothing any more"
        )


def _producer(options: SinkOptions, transactional_id: str, *, two_phase: bool) -> Producer:
    settings = options.producer_settings(transactional_id)
    if two_phase:
        settings.setdefault(_TWO_PHASE, "true")
    if settings.get(_TWO_PHASE) == "true":
        settings.pop("transaction.timeout.ms", None)  # It never times out.
    producer = Producer(settings)
    try:
        producer.init_transactions()
    except InvalidTxnTimeoutException as error:
        producer.close()
        raise InvalidTxnTimeoutException(
            f"kafka.transaction.timeout.ms={settings.get('transaction.timeout.ms')} is longer than the broker allows: set it "
            f"lower, or the broker's transaction.max.timeout.ms higher ({error})"
        ) from error
    except BaseException:
        producer.close()
        raise
    return producer


_known_abilities: Final = dict[str, Abilities]()


def _abilities(options: SinkOptions, transactions: BrokerTransactions) -> Abilities:
    """The cluster's abilities; asked once per process."""
    bootstrap = options.client["bootstrap.servers"]
    known = _known_abilities.get(bootstrap)
    if known is None:
        known = transactions.able
        if len(_known_abilities) >= _ABILITIES_MAX:
            _known_abilities.clear()
        _known_abilities[bootstrap] = known
    return known
