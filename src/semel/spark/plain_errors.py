"""Our errors as Spark shows them: the text first, and no traceback before it.

Role.   Spark calls our code in Python workers and in `foreachBatch`, and puts the whole traceback of an error before its text.
        `in_plain_words` is for methods called in workers, `in_foreach_batch` for sinks called in the driver.
Flow.   Spark -> `data_source`, readers, writers, sinks -> an error -> PySpark reports it -> Spark's own exception.
Rules.  * Only errors that are meant for a user lose their traceback. A broken invariant, or an error of Python's, keeps it.
        * PySpark formats the traceback of an error of `foreachBatch`, which nothing can keep it from. So the text comes before that.
        * PySpark's worker reads `SPARK_HIDE_TRACEBACK` when it reports an error, and ends. So the variable reaches no other error.
        * Outside of a worker nothing changes.
        * Spark searches the text of an error of `foreachBatch` with an expression that recurses for every character behind
          "Py4JJavaError: An error occurred while calling". A Java stack of some pages overflows its own. So Java's frames are left out.
"""

import functools
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from semel.errors import InvariantError, SemelError
from semel.exceptions import KafkaException, as_exception

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")

_HIDE: Final = "SPARK_HIDE_TRACEBACK"
_RUNTIME, _WORKER = "SPARK_PYTHON_RUNTIME", "PYTHON_WORKER"
_JAVA_FRAME: Final = ("\tat ", "\t... ")
_JAVA_LINES_MAX: Final = 100
_STOPPED: Final = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
    "[SPARK_JOB_CANCELLED]",
)
"""In Java's text if the query is being stopped."""


class BatchFailedError(KafkaException):
    """Spark's own work on a batch failed, or ended because the query is being stopped."""


def in_plain_words(method: Callable[P, T]) -> Callable[P, T]:
    """A method that Spark calls in a worker; no generator, whose errors come later."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except SemelError as error:
            leave_out_traceback(error)
            raise

    return call


def leave_out_traceback(error: SemelError) -> None:
    """Have PySpark's worker report the error, which ends it, by its text alone."""
    if is_for_users(error) and os.environ.get(_RUNTIME) == _WORKER:
        os.environ[_HIDE] = "1"


def in_foreach_batch(
    method: "Callable[[S, DataFrame, int], None]",
) -> "Callable[[S, DataFrame, int], None]":
    """The method of a sink that Spark calls with every micro-batch."""

    @functools.wraps(method)
    def call(sink: S, df: "DataFrame", batch_id: int) -> None:
        try:
            method(sink, df, batch_id)
        except SemelError as error:
            public = as_exception(error)
            if not is_for_users(error):
                raise public from error
            # Spark may say it late, or nowhere, where nobody asks for the query's exception.
            _logger.error("%s", public)
            raise public.with_traceback(None) from _first_words(public)
        except Exception as error:
            text = java_text(error)
            if text is None:
                raise
            failed = BatchFailedError(text)
            raise failed from _first_words(failed)

    return call


def _first_words(error: KafkaException) -> KafkaException:
    """The same error as its own cause. Python shows causes first, and this one has no traceback."""
    said = error.__class__.__new__(error.__class__)
    said.args = error.args
    said.__dict__.update(error.__dict__)
    said.__suppress_context__ = True
    return said


def java_text(error: Exception) -> str | None:
    """The text of an error that Java raised, without Java's frames; None for an error that Python raised.

    Spark recognizes by its first words that the query is being stopped, so they stay then.
    """
    if type(error).__module__ != "py4j.protocol":
        return None
    lines = [line for line in str(error).splitlines() if not line.startswith(_JAVA_FRAME)]
    stopped = next((line for line in lines if any(word in line for word in _STOPPED)), None)
    if stopped is not None:
        return f"py4j.protocol.Py4JJavaError: {lines[0]} {stopped}"
    text = "\n".join(lines[:_JAVA_LINES_MAX])
    return text.partition("\n: ")[2] or text


def begin_with(error: SemelError, subject: str) -> None:
    """Have the text begin with the query or the sink, unless it does or the error has parts."""
    if error.args == (str(error),) and not str(error).startswith(subject):
        error.args = (f"{subject}: {error}",)


def is_for_users(error: SemelError) -> bool:
    """Whether the text says everything, so that no traceback is needed."""
    return not isinstance(error, InvariantError)
