"""The refusals of sinks, in one tree: the reason, and the way out.

    KafkaException
      SinkRefusedError                the batch is not written; until a person acts, the sink refuses it again
        ColumnsRefusedError             columns or rows of a frame make no records; an IllegalArgumentException too
        ModeRefusedError                a log cannot replace its records; an IllegalArgumentException too
        AllocationRefusedError          dynamic allocation excludes barrier stages; a ConfigException too
        CallRefusedError                the call is outside of a micro-batch, or lacks slots; an IllegalStateException too
          SinkStaysError                  a `TopicSink` was pickled; a PickleError too, which PySpark shows as it is
        ConnectRefusedError             Spark Connect has no driver process; an UnsupportedVersionException too
        LedgerError                     the sink's ledger cannot be read
      SinkIncompleteError             a batch is decided and not whole: the next start of the query completes it

Role.   `SinkRefusedError` is public (`semel.spark`); the others say more, and are the Kafka exceptions that earlier versions raised.
Rules.  * `args` are the constructor's arguments: errors cross to Spark's workers and back by pickle.
        * The text begins with the sink, and names query, batch and topic where they are known.
        * A broker's refusal is no refusal of the sink's: it keeps its own class.
"""

import pickle

from semel.exceptions import (
    ConfigException,
    IllegalArgumentException,
    IllegalStateException,
    KafkaException,
    UnsupportedVersionException,
)


class SinkRefusedError(KafkaException):
    """The sink will not write this batch. `reason` says why, `way_out` how to go on."""

    __module__ = "semel.spark"  # The name it is exported under, in tracebacks and pickles.

    def __init__(self, reason: str, way_out: str) -> None:
        super().__init__()
        self.args = (reason, way_out)

    @property
    def reason(self) -> str:
        """The two values that disagree, and where."""
        return str(self.args[0])

    @property
    def way_out(self) -> str:
        """The next step for a person."""
        return str(self.args[1])

    def __str__(self) -> str:
        return f"{self.reason}: {self.way_out}"


class ColumnsRefusedError(SinkRefusedError, IllegalArgumentException):
    """Columns or rows of a frame make no records."""


class ModeRefusedError(SinkRefusedError, IllegalArgumentException):
    """The output mode would replace records of a log."""


class AllocationRefusedError(SinkRefusedError, ConfigException):
    """Dynamic allocation is on, and the sink writes in a barrier stage."""


class CallRefusedError(SinkRefusedError, IllegalStateException):
    """The sink was called where it cannot write."""


class SinkStaysError(CallRefusedError, pickle.PickleError):
    """The sink was to be sent to another process. PySpark shows an error of pickle's as it is."""


class ConnectRefusedError(SinkRefusedError, UnsupportedVersionException):
    """The session is one of Spark Connect."""


class LedgerError(SinkRefusedError):
    """The ledger of a sink cannot be read, or cannot hold a batch."""


class SinkIncompleteError(KafkaException):
    """A batch is decided and not whole. The next start of the query completes it, or gives a reason."""
