"""Files of a checkpoint, wherever Spark keeps it: this machine, HDFS, an object store.

Role.   Reads and writes small texts through Spark's own file systems, so that nothing works in local mode only.
Flow.   `rebuilding` reads what a micro-batch was planned to read, and keeps a note of where a table went on.
Rules.  * A topic has one position. Two sources may share it if they are at the same place, as one stream used twice is.
        * A note is written under another name and renamed: it is there, or it is not.
"""

import json
from typing import TYPE_CHECKING, Any, Final

from semel.spark.pipelines.errors import PipelineError
from semel.spark.source.offsets import from_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VERSION: Final = "v1"


class CheckpointFiles:
    """The files below one checkpoint."""

    def __init__(self, spark: "SparkSession", location: str) -> None:
        context: Any = spark.sparkContext
        self.location: Final = location.rstrip("/")
        self._jvm: Final = context._jvm
        self._system: Final = self._path("").getFileSystem(context._jsc.hadoopConfiguration())

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._path(name)))

    def read(self, name: str) -> str:
        stream = self._system.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        unfinished = self._path(f"{name}.unfinished")
        stream = self._system.create(unfinished, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        if not self._system.rename(unfinished, self._path(name)):
            raise PipelineError(
                f"{self.location}/{name} could not be written: a file of that name is in the way"
            )

    def delete(self, name: str) -> None:
        self._system.delete(self._path(name), True)

    def planned(self, batch_id: int) -> dict[str, dict[int, int]]:
        """Where a micro-batch ends in the topics it reads: Spark notes it before the batch begins."""
        name = f"offsets/{batch_id}"
        return ends_of(self.read(name), f"{self.location}/{name}")

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.location}/{name}".rstrip("/"))


def ends_of(planned: str, where: str) -> dict[str, dict[int, int]]:
    """Topic -> partition -> the next offset to read, of a micro-batch that Spark has planned so."""
    version, _, *sources = planned.splitlines()
    if version != _VERSION:
        raise PipelineError(
            f"{where} has version {version}, {_VERSION} is known: this Spark keeps its offsets in another way"
        )
    ends: dict[str, dict[int, int]] = {}
    for line in sources:
        offsets = json.loads(line) if line != "-" else None  # "-": a source that has no offset yet.
        if isinstance(offsets, dict) and all(isinstance(one, dict) for one in offsets.values()):
            found: dict[str, dict[int, int]] = {}
            for (topic, partition), offset in from_json(offsets).items():
                found.setdefault(topic, {})[partition] = offset
            for topic, own in found.items():
                known = ends.setdefault(topic, {})
                if known != own and not known.keys().isdisjoint(own):
                    raise PipelineError(
                        f"two sources read topic {topic}, one up to {known} and one up to {own} in the same micro-batch "
                        f"({where}): a table has one position in a topic, so going on from it would repeat or lose records. Read "
                        "the topic once, and use that one stream in both places. Nothing of this batch was written"
                    )
                known.update(own)
    return ends
