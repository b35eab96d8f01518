"""What the sink asks of Spark before it writes: slots for its barrier stage, and no dynamic allocation.

Method: a context that says what it is told, because a real one cannot be changed once it runs.
"""

from typing import Any

import pytest

from semel.exceptions import ConfigException, IllegalStateException
from semel.spark.sink.atomic import stage
from semel.spark.sink.atomic.stage import Driver
from semel.spark.sink.common.batch_name import BatchName
from semel.spark.sink.common.errors import SinkRefusedError

BATCH = BatchName("s", "q-1", 4, "t")


class Context:
    """As much of a SparkContext as the sink looks at; its slots come and go."""

    def __init__(self, slots: list[int], **settings: str) -> None:
        self._slots = slots
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}

    def getConf(self) -> dict[str, str]:
        return self._settings

    @property
    def _jsc(self) -> "Context":
        return self

    def sc(self) -> "Context":
        return self

    def resourceProfileManager(self) -> "Context":
        return self

    def defaultResourceProfile(self) -> str:
        return "default"

    def maxNumConcurrentTasks(self, profile: str) -> int:
        assert profile == "default"
        return self._slots.pop(0) if len(self._slots) > 1 else self._slots[0]


class Frame:
    """A frame of a session."""

    def __init__(self, context: Context) -> None:
        self.sparkSession = self
        self.sparkContext = context


def driver(slots: list[int], **settings: str) -> Driver:
    frame: Any = Frame(Context(slots, **settings))
    return Driver(frame)


@pytest.mark.parametrize(
    ("partitions", "tasks_max", "slots", "tasks"),
    [
        (3, None, 8, 3),
        (8, None, 3, 3),
        (None, None, 4, 4),
        (8, None, 2, 1),  # One task keeps both cores busy.
        (8, 2, 2, 2),
        (8, 4, 2, 2),
        (1, 4, 8, 1),
        (None, 3, 8, 3),
    ],
)
def test_there_are_as_many_tasks_as_there_is_room_for(
    partitions: int | None, tasks_max: int | None, slots: int, tasks: int
) -> None:
    assert driver([slots]).tasks(BATCH, partitions, tasks_max) == tasks


def test_executors_that_are_starting_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_SLOTS_POLL_S", 0)
    assert driver([0, 0, 2]).tasks(BATCH, 4, 4) == 2


def test_without_slots_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_SLOTS_WAIT_S", 0.0)
    with pytest.raises(
        IllegalStateException, match=r"barrier stage.*writeStream\.format\('semel'\)"
    ) as caught:
        driver([0]).tasks(BATCH, 4, None)
    names_the_batch(caught.value)


def test_dynamic_allocation_is_refused_and_the_way_out_is_named() -> None:
    with pytest.raises(
        ConfigException, match=r"dynamicAllocation\.enabled=true.*writeStream\.format\('semel'\)"
    ) as caught:
        driver([4], spark_dynamicAllocation_enabled="true").tasks(BATCH, 4, None)
    names_the_batch(caught.value)


def names_the_batch(error: Exception) -> None:
    assert isinstance(error, SinkRefusedError)
    assert error.reason.startswith("sink s, query q-1, batch 4, topic t: ")
