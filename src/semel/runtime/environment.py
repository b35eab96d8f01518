"""The environment of a measurement, which every published figure names.

Role.   `environment` describes this process: date, commit, Python, processor. Benchmarks and campaigns print it.
"""

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Environment:
    """Place and time of a measurement, and the command that repeats it."""

    date: str
    commit: str
    python: str
    processor: str
    cores: int
    command: str

    @property
    def text(self) -> str:
        """The text for a documentation page."""
        return (
            f"Measured {self.date} at commit {self.commit}, {self.python}, {self.processor}, {self.cores} cores:\n\n"
            f"    {self.command}\n"
        )


def environment(command: str) -> Environment:
    """The current machine and checkout."""
    return Environment(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commit=_commit(Path(__file__).parent),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        processor=_processor(Path("/proc/cpuinfo")),
        cores=os.cpu_count() or 1,
        command=command,
    )


def _commit(inside: Path) -> str:
    """The commit of the checkout the code runs from, marked if files differ from it."""
    try:
        git = ["git", "-C", str(inside)]
        commit = subprocess.run(
            [*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True
        )
        changes = subprocess.run(
            [*git, "status", "--porcelain", "--", str(inside.parent)],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"  # Installed from a wheel: there is no checkout.
    return commit.stdout.strip() + (" with uncommitted changes" if changes.stdout.strip() else "")


def _processor(cpuinfo: Path) -> str:
    if cpuinfo.exists():  # Linux. Elsewhere the platform module knows at least the architecture.
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            key, _colon, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown processor"
