"""A table that outlives its checkpoint: lost, the query goes on from the table's own topic, and counts nothing twice.

Role.   `TableQuery` writes a table to its changelog, and in the same transaction its position in the sources. A query without its
        checkpoint (a disk is gone, Spark cannot take over a changed query) starts from both.

            revenue = TableQuery("revenue", key="product", schema=REVENUE, bootstrap=server, checkpoint="…/revenue")
            revenue.start(spark, lambda start, seed: to_table(
                stream(spark, "orders", bootstrap=server, schema=ORDERS, startingOffsets=start("orders")),
                key="product", aggregates={"orders": count(), "cents": total("cents")}, seed=seed))

Flow.   no note in the checkpoint? read the position, save the table as files beside the note -> the query: union of the saved
        table and the stream from that position -> micro-batch: one transaction {changed rows, position of the batch}.
Rules.  * Changelog and position tell of the same prefix of the sources: they are committed together.
        * The saved table is a source like any other: Spark reads it once, and remembers that it did.
        * Both are read as one too: `snapshot` waits for transactions that are decided and not yet written everywhere.
        * The saved table must still be the end of the changelog when the first batch is written, with everybody else fenced.
          Otherwise an old query was still running, and the new one stops.
        * On every other start the checkpoint knows better, and is left to it.
        * A partition that is younger than the position is read from its beginning.
Limits. `seed` must reach `to_table`; a table made by other means cannot go on from rows. The sources must still have what comes after
        the position.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from semel.client.sync.consumer import Consumer
from semel.spark.pipelines.checkpoint_files import CheckpointFiles
from semel.spark.pipelines.column_names import names_of
from semel.spark.pipelines.errors import TableError
from semel.spark.pipelines.snapshot import read_as_one, wait_for_markers
from semel.spark.pipelines.table import create_changelog, table, to_changelog
from semel.spark.sink.atomic.shared_transaction import Step
from semel.spark.sink.atomic.stage import Driver
from semel.spark.sink.atomic.topic_sink import TopicSink
from semel.spark.sink.common.names import atomic_id
from semel.spark.source.offsets import EARLIEST_OFFSET

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

Start = Callable[[str], str]
"""A topic -> where to begin in it, as `startingOffsets` takes it."""
Make = Callable[[Start, "DataFrame"], "DataFrame"]

EARLIEST: Final = "earliest"
_NOTE: Final = "seed/position.json"
_ROWS: Final = "seed/rows"
_POLL_MS: Final = 500


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table's query has come."""

    query_id: str
    batch_id: int
    offsets: Mapping[str, Mapping[int, int]]
    """Topic -> partition -> the next offset to read."""

    def start(self, topic: str, partitions: Collection[int]) -> str:
        """Where to go on in a topic that has these partitions, as `startingOffsets` takes it."""
        known = self.offsets.get(topic)
        if known is None:
            return EARLIEST
        offsets = {**dict.fromkeys(partitions, EARLIEST_OFFSET), **known}
        return json.dumps({topic: {str(partition): offsets[partition] for partition in sorted(offsets)}})

    def to_json(self) -> str:
        return json.dumps({"query_id": self.query_id, "batch_id": self.batch_id, "offsets": self.offsets})

    @staticmethod
    def of(text: str | bytes) -> "Position":
        found = json.loads(text)
        offsets = {
            topic: {int(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in found["offsets"].items()
        }
        return Position(found["query_id"], found["batch_id"], offsets)


class TableQuery:
    """A streaming query that keeps a table in a compacted topic."""

    def __init__(
        self,
        topic: str,
        *,
        key: str | Sequence[str],
        schema: "StructType | str",
        bootstrap: str,
        checkpoint: str,
        partitions: int = 1,
        positions: str | None = None,
        **sink: Any,
    ) -> None:
        """`schema` is the table's, key and values; `positions` the topic for positions; `sink` further settings of `TopicSink`."""
        self.topic: Final = topic
        self.positions: Final = f"{topic}-positions" if positions is None else positions
        self._key: Final = names_of(key)
        self._schema: Final = schema
        self._bootstrap: Final = bootstrap
        self._checkpoint: Final = checkpoint
        self._partitions: Final = partitions
        self._sink: Final = sink

    def start(
        self, spark: "SparkSession", make: Make, *, trigger: Mapping[str, Any] | None = None
    ) -> "StreamingQuery":
        """Start the query. `make(start, seed)` gives the table; `trigger` is Spark's: {"processingTime": "1 second"}, …."""
        create_changelog(self.topic, bootstrap=self._bootstrap, partitions=self._partitions)
        create_changelog(self.positions, bootstrap=self._bootstrap)
        files = CheckpointFiles(spark, self._checkpoint)
        if not files.exists(_NOTE):
            self._save(spark, files)
        note = files.read(_NOTE)
        begun = Position.of(note) if note else None
        changed = make(self._start(begun), self._seed(spark))
        writer = to_changelog(changed, key=self._key).writeStream.outputMode("update")
        writer = writer.option("checkpointLocation", self._checkpoint).foreachBatch(
            self._writer(spark, begun)
        )
        if trigger is not None:
            writer = writer.trigger(**trigger)
        return writer.start()

    def run(self, spark: "SparkSession", make: Make) -> None:
        """Carry over everything that is there now, and end."""
        self.start(spark, make, trigger={"availableNow": True}).awaitTermination()

    def table(self, spark: "SparkSession", **options: Any) -> "DataFrame":
        """The table as it is now; options as those of `semel.spark.table`."""
        return table(
            spark, self.topic, bootstrap=self._bootstrap, schema=self._schema, key=self._key, **options
        )

    def position(self) -> Position | None:
        """How far the table has come, as of the last transaction; None if it has none yet."""
        place = (self.positions, 0)
        with Consumer({"bootstrap.servers": self._bootstrap, "enable.auto.commit": False}) as consumer:
            consumer.assign([place])
            consumer.seek_to_beginning([place])
            (end,) = consumer.end_offsets([place]).values()
            last: bytes | None = None
            while consumer.position(place) < end:
                found = consumer.poll_arrow(_POLL_MS)
                if found.num_rows:
                    last = found.column("value")[-1].as_py()
        return None if last is None else Position.of(last)

    # ---- going on without a checkpoint

    def _save(self, spark: "SparkSession", files: CheckpointFiles) -> None:
        """The table and its position, from the topic, into the new checkpoint. The note comes last: it says that all is there."""
        files.delete(_ROWS)

        def save(position: Position | None) -> None:
            rows = self.table(spark) if position is not None else self._nothing(spark)
            rows.write.mode("overwrite").parquet(f"{files.location}/{_ROWS}")

        writer = atomic_id(self.topic)
        position = read_as_one(self.position, save, lambda: wait_for_markers(self._bootstrap, writer))
        files.write(_NOTE, "" if position is None else position.to_json())

    def _start(self, begun: Position | None) -> Start:
        def start(topic: str) -> str:
            if begun is None:
                return EARLIEST
            with Consumer({"bootstrap.servers": self._bootstrap, "enable.auto.commit": False}) as consumer:
                return begun.start(topic, [one.partition for one in consumer.partitions_for(topic)])

        return start

    def _nothing(self, spark: "SparkSession") -> "DataFrame":
        return spark.createDataFrame([], self._schema)

    def _seed(self, spark: "SparkSession") -> "DataFrame":
        schema = self._nothing(spark).schema
        return spark.readStream.schema(schema).parquet(f"{self._checkpoint.rstrip('/')}/{_ROWS}")

    # ---- a micro-batch

    def _writer(self, spark: "SparkSession", begun: Position | None) -> Callable[["DataFrame", int], None]:
        def settled(step: str, batch_id: int) -> None:
            if step == Step.LEDGER_SETTLED.value and batch_id == 0 and self.position() != begun:
                raise TableError(
                    f"the table {self.topic} has gone on to {self.position()} since this query was started at {begun}: another "
                    f"query was still running. Stop it, delete {self._checkpoint} and start again. Nothing was written"
                )

        sink = TopicSink(
            bootstrap=self._bootstrap,
            name=self.topic,
            continues=None if begun is None else begun.query_id,
            on_step=settled,
            **self._sink,
        )
        files = CheckpointFiles(spark, self._checkpoint)

        def write(batch: "DataFrame", batch_id: int) -> None:
            position = Position(str(Driver(batch).query_id()), batch_id, files.planned(batch_id))
            sink(self._with_position(batch, position), batch_id)

        return write

    def _with_position(self, batch: "DataFrame", position: Position) -> "DataFrame":
        from pyspark.sql import functions as F  # noqa: N812 - its usual name.

        rows = batch.select("key", "value", F.lit(self.topic).alias("topic"))
        note = batch.sparkSession.range(0, 1, 1, 1).select(
            F.lit(self.topic).cast("binary").alias("key"),
            F.lit(position.to_json()).cast("binary").alias("value"),
            F.lit(self.positions).alias("topic"),
        )
        return rows.unionByName(note)
