"""One thing that is done wrong, and the hunt for it.

Role.   A `Mutation` replaces a function of the broker, the log or the client, for a while; `hunt` plays seeded stories on what it
        made until one of them ends badly in the way that was to be expected.
Flow.   `catalogue` has all of them; `self_test` hunts them all on every core; the tests hunt some.
Rules.  * A mutation is undone when its hunt is over: nothing of it is left in the process.
        * Found is what the judgement names (`noticed`), not merely a story that failed.
        * The seeds are few and fixed, so a hunt that fails fails again. Where few stories come to the point, they begin where one does.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from semel.verify.simulation.promise import PromiseBroken

_ABSENT: Final = object()
_HISTORY: Final = re.compile(r"\n *\d+\.\d{4}  ")
"""Where a finding's story begins: a line with its time."""


class Patch:
    """Attributes that were replaced, to be put back."""

    def __init__(self) -> None:
        self._before: list[tuple[object, str, object]] = []

    def setattr(self, owner: object, name: str, value: object) -> None:
        """Replace what a class or a module has under this name."""
        if not hasattr(owner, name):
            raise AttributeError(f"{owner!r} has no {name}: the mutation no longer fits the code")
        self._before.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def undo(self) -> None:
        while self._before:
            owner, name, value = self._before.pop()
            if value is _ABSENT:  # It was inherited.
                delattr(owner, name)
            else:
                setattr(owner, name, value)


@dataclass(frozen=True, slots=True)
class Mutation:
    """A deliberate error, the promise it breaks, and the scenario that shows it."""

    name: str
    breaks: str
    """The promise."""
    change: Callable[[Patch], None]
    scenario: str
    noticed: str
    """A pattern of what the judgement says."""
    seeds: Sequence[int]
    quick: bool = False
    """Found within a second or two of a core: also hunted by CI."""

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """While inside, it is done wrong."""
        patch = Patch()
        try:
            self.change(patch)
            yield
        finally:
            patch.undo()


@dataclass(frozen=True, slots=True)
class Hunt:
    """How the hunt for a mutation went."""

    name: str
    seed: int | None
    """The one that found it."""
    played: int
    seconds: float
    words: str
    """Of the judgement; of the last story that failed in another way, if it was not found."""


def hunt(mutation: Mutation, run: Callable[[int], None]) -> Hunt:
    """Play its seeds until it is found."""
    begun = time.process_time()
    words, played = "", 0
    with mutation.made():
        for played, seed in enumerate(mutation.seeds, start=1):
            try:
                run(seed)
            except PromiseBroken as broken:
                judgement = _HISTORY.split(str(broken))[0]
                words = judgement.partition(": ")[2].splitlines()[0]
                if re.search(mutation.noticed, judgement) and f"seed {seed}" in judgement:
                    return Hunt(mutation.name, seed, played, time.process_time() - begun, words)
    return Hunt(mutation.name, None, played, time.process_time() - begun, words)
