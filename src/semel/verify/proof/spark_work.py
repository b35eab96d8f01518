"""Spark at work in a proof: a driver that is killed and started again, and where its checkpoint says that it is.

Role.   `SparkPipeline` runs `spark_driver` in a process of its own. Its position is what Spark's checkpoint has committed: the
        judgement asks that every input below it has one visible output, and none above.
Rules.  * A driver whose query failed is started again, as an operator would do; that is counted among the troubles.
        * Nothing here imports PySpark: only the driver does.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

from semel.errors import SemelError
from semel.verify.demo.processes import Child
from semel.verify.proof.programs import Stage

_START_SECONDS: Final = 240.0
_LOOK_SECONDS: Final = 0.2
_FAILURES_MAX: Final = 20


class SparkFailedError(SemelError):
    """The driver does not start, or fails again and again."""


class SparkPipeline:
    """The pipeline from one topic to another, whoever is killed."""

    def __init__(self, stage: Stage, directory: Path, *, source: str, target: str, name: str) -> None:
        self.source = source
        self._stage = stage
        self._directory = directory
        self._checkpoint = directory / "checkpoint"
        self._arguments = ["--bootstrap", str(stage.settings["bootstrap.servers"]), "--name", name]
        self._arguments += ["--source", source, "--target", target, "--checkpoint", str(self._checkpoint)]
        self._child: Child | None = None
        self._changing = asyncio.Lock()
        self._failures = 0

    async def run(self) -> None:
        """Keep a driver running."""
        while True:
            async with self._changing:
                if self._child is None:
                    await self._start()
                elif self._child.code is not None:
                    await self._failed(self._child)
            await asyncio.sleep(_LOOK_SECONDS)

    async def kill(self) -> bool:
        """kill -9, and the next driver; whether there was one that ran."""
        async with self._changing:
            was_there = self._child is not None and self._child.code is None
            await self._end()
            await self._start()
        return was_there

    async def close(self) -> None:
        async with self._changing:
            await self._end()

    def positions(self) -> dict[int, int]:
        """How far the last committed micro-batch has come in each partition of the source."""
        return checkpointed(self._checkpoint, self.source)

    async def _start(self) -> None:
        scratch = self._directory / f"spark-{self._failures}"
        command = [sys.executable, "-m", "semel.verify.proof.spark_driver", *self._arguments]
        self._directory.mkdir(parents=True, exist_ok=True)
        log = self._directory / "driver.log"
        child = Child("driver", [*command, "--scratch", str(scratch)], log, environment={})
        self._child = child
        if await asyncio.to_thread(child.first_line, _START_SECONDS) != "ready":
            await self._failed(child)

    async def _failed(self, child: Child) -> None:
        """Its query failed, or it did not start: the next try begins with the next look."""
        self._failures += 1
        self._stage.troubles["SparkDriverFailed"] = self._stage.troubles.get("SparkDriverFailed", 0) + 1
        await self._end()
        if self._failures > _FAILURES_MAX:
            raise SparkFailedError(f"Spark's driver failed {self._failures} times: {child.last_words()}")

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await asyncio.to_thread(child.end)


def checkpointed(checkpoint: Path, topic: str) -> dict[int, int]:
    """The positions of the last micro-batch that Spark's checkpoint has committed; none if there is none."""
    commits = checkpoint / "commits"
    batches = [int(one.name) for one in commits.iterdir() if one.name.isdigit()] if commits.is_dir() else []
    if not batches:
        return {}
    lines = (checkpoint / "offsets" / str(max(batches))).read_text(encoding="utf-8").splitlines()
    found = json.loads(lines[2])[topic]  # A version, what the batch began with, one line per source.
    return {int(partition): int(offset) for partition, offset in found.items()}
