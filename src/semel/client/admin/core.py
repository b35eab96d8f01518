"""The ground of every call of the admin client.

Role.   `AdminCore` holds the cluster; `public` marks a call that leaves the client; `settled` turns answers per thing into a
        result or an exception.
Rules.  * One call may name many things, and all are tried. If some are refused, the first refusal is raised when all are
          answered; its `errors` has every refusal by name.
        * Errors leave under Java's names.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from semel.client import arguments
from semel.client.admin.tables import Answers
from semel.client.calls.routing import ordered
from semel.client.client_metrics import AdminMetrics
from semel.client.cluster import Cluster
from semel.client.metrics import report
from semel.client.settings import AdminConfig
from semel.errors import ErrorCode, RefusedError, SemelError
from semel.exceptions import IllegalStateException, KafkaException, as_exception
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition

CLOSED: Final = "Cannot perform operation after the admin client has been closed: make a new one"

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
C = TypeVar("C", bound="AdminCore")
W = TypeVar("W", bound=tuple[str, int])
"""A partition: a `TopicPartition`, or a plain pair."""


class AdminCore:
    """The cluster behind the calls."""

    def __init__(self, runtime: Runtime, settings: AdminConfig) -> None:
        self._settings = settings
        self._metrics = AdminMetrics(settings, runtime.clock.monotonic_ms)
        self._cluster = Cluster(runtime, settings, observer=self._metrics)
        self._metrics.watch_connections(lambda: self._cluster.connections)
        self._is_closed = False
        self._reporting: asyncio.Task[None] | None = None

    def _report(self) -> None:
        """From the first call on, `metric.reporters` are told what was measured."""
        settings, tasks = self._settings, self._cluster.runtime.tasks
        if settings.metric_reporters and self._reporting is None:
            work = report(
                self._metrics.registry,
                settings.metric_reporters,
                tasks,
                interval_ms=settings.metrics_sample_window_ms,
            )
            self._reporting = tasks.spawn(work, name=f"{settings.client_id} metrics")


def public(
    call: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """A call of the user's: refused after `close`, and its errors leave under Java's names."""

    @functools.wraps(call)
    async def called(self: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self._is_closed:
            raise IllegalStateException(CLOSED)
        self._report()
        try:
            return await call(self, *args, **kwargs)
        except SemelError as error:
            public_error = as_exception(error)
            if public_error is error:
                raise
            raise public_error from error

    return called


def settled(answers: Mapping[K, T | SemelError]) -> Answers[K, T]:
    """The answers, if nothing was refused; raises the first refusal otherwise, with `errors` for all of them."""
    errors: dict[K, KafkaException] = {}
    good: Answers[K, T] = Answers()
    for key, answer in answers.items():
        if isinstance(answer, SemelError):
            errors[key] = as_exception(answer)
        else:
            good[key] = answer
    if errors:
        first = next(iter(errors.values()))
        first.errors = errors
        raise first
    return good


async def carried_out(
    cluster: Cluster, order: Callable[[], Awaitable[Mapping[K, T | SemelError]]]
) -> Answers[K, T]:
    """An order about many things, to the controller; once more, as a whole, if it was not the controller."""

    async def attempt() -> Mapping[K, T | SemelError]:
        answers = await order()
        for answer in answers.values():
            if isinstance(answer, RefusedError) and answer.code is ErrorCode.NOT_CONTROLLER:
                raise answer
        return answers

    return settled(await ordered(cluster, attempt))


async def each(keys: Iterable[K], ask: Callable[[K], Awaitable[T]]) -> dict[K, T | SemelError]:
    """Ask about one thing after the other, refusals included."""
    answers: dict[K, T | SemelError] = {}
    for key in keys:
        try:
            answers[key] = await ask(key)
        except RefusedError as error:
            answers[key] = error
    return answers


def names(given: str | Iterable[str], argument: str) -> list[str]:
    """One name or many, without repeats."""
    return arguments.names(given, argument)


def partitions(given: object, argument: str = "topic_partitions") -> list[TopicPartition]:
    """Partitions, without repeats."""
    return list(dict.fromkeys(arguments.partitions(given, argument)))


def by_partition(given: Mapping[W, V], argument: str) -> dict[TopicPartition, V]:
    """The value given for each partition."""
    found = arguments.mapped(argument, given, "a mapping whose keys are partitions")
    return {arguments.partition(where, argument): value for where, value in found.items()}
