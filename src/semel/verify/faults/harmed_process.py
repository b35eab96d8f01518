"""A broker of the proof's own, in a process whose disk and clock it commands.

Role.   `HarmedBroker` is a `BrokerProcess` that takes a `Harm` while it runs, and keeps its clock over restarts. Each of its lives
        may be one that breaks a rule of the catalogue of mutations.
Rules.  * `harm` returns once it holds. A process that died of it (a torn write), or meanwhile, is no error: `code` tells.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from semel.verify.demo.processes import BrokerProcess, DemoFailedError
from semel.verify.faults.harm import Harm

_OBEYS_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.02


class HarmedBroker(BrokerProcess):
    """A broker in a process of its own, whose machine can be harmed."""

    def __init__(
        self, data_dir: Path, settings: dict[str, str] | None = None, *, mutation: str | None = None
    ) -> None:
        super().__init__(data_dir, settings)
        self._mutation = mutation
        self._harm = Harm()
        self._born_at: float | None = None

    def start(self) -> None:
        super().start()
        self._born_at = time.monotonic()

    @property
    def age_seconds(self) -> float:
        """How long this life has lasted; 0 before the first."""
        return 0.0 if self._born_at is None else time.monotonic() - self._born_at

    @property
    def clock_ms(self) -> int:
        """How far its wall clock is off."""
        return self._harm.clock_ms

    def harm(self, harm: Harm) -> None:
        """From now on this is wrong, and nothing else."""
        self._harm = replace(harm, tear_after=None)  # The next process does not die of it again.
        child = self._child
        if child is None:
            return
        child.say(harm.to_line())
        if not child.first_line(_OBEYS_SECONDS) and child.code is None:
            raise DemoFailedError(f"the broker did not take an order within {_OBEYS_SECONDS:.0f} s: {harm}")

    def heal(self) -> None:
        """A disk as it should be; the clock stays as it is."""
        self.harm(Harm(clock_ms=self.clock_ms))

    def is_dead_within(self, seconds: float) -> bool:
        """Whether the process dies by itself in this time."""
        deadline = time.monotonic() + seconds
        while self.code is None and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        return self.code is not None

    def _program(self) -> list[str]:
        broken = [] if self._mutation is None else ["--mutation", self._mutation]
        return ["-m", "semel.cli.harmed_broker", "--harm", self._harm.to_line(), *broken]
