"""A story on a disk that loses, tears and kills: the base of the scenarios of one log and of one directory.

Role.   `DiskStory` plays the steps of a scenario, plans deaths, keeps what happened and tells it with the seed.
Flow.   `log_crash`, `compaction_crash` and `directory_crash` say what a step is and check everything after every opening.
Rules.  Everything is drawn from the dice of the seed, the disk's faults from dice of their own.
"""

import random
from abc import ABC, abstractmethod
from typing import ClassVar, Final

from semel.runtime.memory_faults import Death
from semel.runtime.memory_files import MemoryDisk
from semel.verify.simulation.promise import PromiseBroken

_DEATHS: Final[tuple[Death, ...]] = ("kill", "power cut")
_TOLD_MAX: Final = 40


class DiskStory(ABC):
    """One run: the dice, the disk, and what happened so far."""

    name: ClassVar[str]

    def __init__(self, seed: int, *, steps: int) -> None:
        self.seed = seed
        self.steps = steps
        self.dice = random.Random(seed)
        self.disk = MemoryDisk(random.Random(self.dice.random()))
        self.now_ms = 1_700_000_000_000
        self.told: list[str] = []

    def run(self) -> None:
        """Play all steps and check at the end; raises `PromiseBroken`."""
        try:
            for _step in range(self.steps):
                self._step()
            self._end()
        except PromiseBroken:
            raise
        except Exception as error:
            raise self._broken(f"{type(error).__name__}: {error}") from error

    @abstractmethod
    def _step(self) -> None:
        """One thing that happens, drawn from the dice."""

    @abstractmethod
    def _end(self) -> None:
        """The last kill, and the checks after it."""

    @abstractmethod
    def _moment(self) -> str:
        """How far things are, in a word, for the lines of the story."""

    def _plan_death(self, *, in_write: float, bytes_max: int, operations_max: int) -> Death:
        """A death to come: with the probability `in_write` in the middle of a write, else at a change of the disk."""
        death = self.dice.choice(_DEATHS)
        if self.dice.random() < in_write:
            self.disk.crash_after(self.dice.randrange(1, bytes_max), death=death)
        else:
            self.disk.crash_at_operation(self.dice.randrange(operations_max), death=death)
        return death

    def _tell(self, what: str) -> None:
        self.told.append(f"{len(self.told):3} {self._moment()} {what}")

    def _broken(self, why: str) -> PromiseBroken:
        story = "\n".join(self.told[-_TOLD_MAX:])
        return PromiseBroken(f"{self.name} seed {self.seed}: {why}\n{story}")
